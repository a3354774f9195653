//! Settings of routes, whatever their handlers are.

use std::time::Duration;

use ipnet::IpNet;

use super::network::networks;
use super::{BasicAuth, ErrorPage, HeaderEdits, RateLimit, RouteCompression};
use crate::field::tables_as_parts;
use crate::schema::{Kind, TIB, duration, millis, seconds, size};

table! {
    /// Settings of a route that hold whatever its handler is.
    #[derive(Eq, Default)]
    pub struct RouteSettings = [route] {
        /// Networks of the clients that may use the route. All others get 403, and so do those in `deny`: `deny` comes
        /// first, whatever stands in `allow`. The client is the one that logs name: behind a proxy in trusted_proxies of the
        /// listener, the one that the proxy names. A route that refuses a client still responds: the request does not go to
        /// another route.
        allow: Vec<IpNet> {
            kind: networks(),
            unset: "every client that is not in `deny`",
            examples: ["[\"10.0.0.0/8\", \"fd00::/8\"]"],
            reload: Live
        },
        /// Networks of the clients that get 403, also those in `allow`.
        deny: Vec<IpNet> {
            kind: networks(),
            unset: "no client",
            examples: ["[\"192.0.2.0/24\", \"2001:db8::/32\"]"],
            reload: Live
        },
        /// Rate at which each client may send requests to the route: the table `[route.rate_limit]` below.
        rate_limit: Option<RateLimit> {
            kind: Kind::Table(RateLimit::TABLE),
            unset: "any rate",
            examples: ["{ rate = \"10/s\", burst = 50 }"],
            reload: Live
        },
        /// Users with passwords for the route: the table `[route.basic_auth]` below.
        basic_auth: Option<BasicAuth> {
            kind: Kind::Table(BasicAuth::TABLE),
            unset: "no password",
            examples: ["{ users_file = \"users.htpasswd\" }"],
            reload: Live
        },
        /// Changes to the request's header: the table `[route.request_headers]` below.
        request_headers: HeaderEdits { kind: Kind::Table(HeaderEdits::TABLE), unset: "no changes", reload: Live },
        /// Changes to the response's header: the table `[route.response_headers]` below.
        response_headers: HeaderEdits {
            kind: Kind::Table(HeaderEdits::OF_RESPONSES),
            unset: "no changes",
            reload: Live
        },
        /// Files whose bytes stand for the contents of error responses on this route, by status: 404 for this one, 4xx and
        /// 5xx for all others of a class. The status stays. They are read at start and at each reload, and their suffix
        /// says their media type. They apply to errors of the server itself, and with `intercept_errors` of
        /// [route.proxy] to those of upstreams, too; not to a `fixed` response with a body.
        error_pages: Vec<ErrorPage> {
            kind: Kind::ErrorPages,
            unset: "a line of text",
            examples: ["{ 404 = \"pages/404.html\", 5xx = \"pages/sorry.html\" }"],
            reload: Live
        },
        /// Whether responses of this route's files or upstreams are compressed while they are sent; `[compress]` says how.
        /// Set it to false for pages that contain secrets beside text that others choose (BREACH).
        compression as compress: RouteCompression {
            kind: Kind::Switch,
            unset: "compress.enabled",
            examples: ["true"],
            reload: Live
        },
        /// Largest request body on this route; a larger one gets 413. Raise it for routes that receive uploads.
        max_request_body: Option<u64> {
            kind: size(0, TIB),
            unset: "limits.max_request_body",
            examples: ["\"100MiB\""],
            reload: Live
        },
        /// Time that a file or an upstream has for a whole exchange, from the request's head to the end of the
        /// response. Then the client gets 504, or a reset if the response has begun. Set it to bound slow requests;
        /// leave it unset for downloads, event streams and long polls.
        timeout: Option<Duration> {
            kind: duration(millis(1), seconds(86_400)),
            unset: "no limit but the idle timeouts",
            examples: ["\"5m\""],
            reload: Live
        },
    }
}

tables_as_parts!(RouteSettings);
