//! Settings of routes, whatever their handlers are.

use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use super::network::networks;
use super::response_headers::MAX_TABLES;
use super::{
    BasicAuth, Cors, ErrorPage, HeaderEdits, RateLimit, ResponseHeaders, RouteCompression,
};
use crate::error::Error;
use crate::field::{Field, Record, tables_as_parts};
use crate::print;
use crate::schema::{Key, Kind, TIB, Table, duration, millis, seconds, size};
use crate::value::Item;

table! {
    /// Settings of a route that hold whatever its handler is.
    #[derive(Eq, Default)]
    pub struct RouteSettings = [route] {
        /// Networks of the clients that may use the route. All others get 403, and so do those in `deny`: `deny` comes
        /// first, whatever stands in `allow`. The client is the one that logs name: behind a proxy in trusted_proxies of the
        /// listener, the one that the proxy names. An address counts once the client has shown that it receives there. A
        /// route that refuses a client still responds: the request does not go to
        /// another route.
        allow: Vec<IpNet> {
            kind: networks(),
            unset: "every client that is not in `deny`",
            examples: ["[\"10.0.0.0/8\", \"fd00::/8\"]"],
            reload: Live
        },
        /// Networks of the clients that get 403, also those in `allow`. Those of a site are refused by all its routes, whatever the
        /// route's own `deny` is.
        deny: Vec<IpNet> {
            kind: networks(),
            unset: "no client",
            examples: ["[\"192.0.2.0/24\", \"2001:db8::/32\"]"],
            reload: Live
        },
        /// Rate at which each client may send requests to the route: the table `[route.rate_limit]` below.
        rate_limit: Inheritable<RateLimit> {
            kind: table_or_off(RateLimit::TABLE),
            unset: "any rate",
            examples: ["{ rate = \"10/s\", burst = 50 }"],
            reload: Live
        },
        /// Users with passwords for the route: the table `[route.basic_auth]` below.
        basic_auth: Inheritable<BasicAuth> {
            kind: table_or_off(BasicAuth::TABLE),
            unset: "no password",
            examples: ["{ users_file = \"users.htpasswd\" }"],
            reload: Live
        },
        /// Origins whose scripts may use the route from browsers: the table `[route.cors]` below.
        cors: Inheritable<Cors> {
            kind: table_or_off(Cors::TABLE),
            unset: "the handler alone decides",
            examples: ["{ origins = \"https://app.example.com\" }"],
            reload: Live
        },
        /// File with redirects, which come before the handler and before a password; a path that it does not have goes to the handler.
        /// A line of CSV has a path, a target and perhaps a status: /old,/new,301. Lines that begin with # and a first line that begins
        /// with "from" are skipped. In a file whose name ends in .toml the same is "/old" = "/new", or "/old" = { to = "/new", status = 301 }. A path is
        /// exact; /old/* stands for all below /old/, and the longest such prefix counts. Targets and statuses are those of
        /// [route.redirect], with {host}, {path}, {query} and, for a prefix, {rest}; the query is dropped unless the target has {query}. Status
        /// 410 without a target says that a page is gone. A file has up to 100000 redirects and 16 MiB. It is read at start and at each
        /// reload, and its size does not slow requests down.
        redirects: Option<PathBuf> {
            kind: Kind::Path,
            unset: "no redirects",
            examples: ["\"redirects.csv\""],
            reload: Live
        },
        /// Changes to the request's header: the table `[route.request_headers]` below.
        request_headers: HeaderEdits { kind: Kind::Table(HeaderEdits::TABLE), unset: "no changes", reload: Live },
        /// Changes to the response's header, by its status: the table `[route.response_headers]` below, or several.
        response_headers: Vec<ResponseHeaders> {
            kind: Kind::TableOrTables { table: ResponseHeaders::TABLE, max: MAX_TABLES },
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
        /// Whether the route takes paths with an encoded slash (%2F) or backslash (%5C), as GitLab, npm, RabbitMQ and object stores
        /// need them: /projects/group%2Fproject. Otherwise they get 400. Such a slash is data: it ends no segment for `path`, for access
        /// rules and for strip_prefix, and upstreams get it encoded. An upstream may decode it and see a separator; a request that would then
        /// belong to a route with stricter rules for access gets 400, but what the upstream itself protects by paths it must protect in both
        /// spellings. "." and ".." beside such a slash are refused in any case, and routes with `files` take none.
        allow_encoded_slashes: Option<bool> {
            kind: Kind::Switch,
            unset: "false",
            examples: ["true"],
            reload: Live
        },
        /// Whether responses of this route are compressed; `[compress]` says how.
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

const fn table_or_off(table: &'static Table) -> Kind {
    Kind::TableOr {
        table,
        word: "off",
        words: "a table, or \"off\" for nothing, also where the site has it",
    }
}

/// Table of a route that its site may have instead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Inheritable<T> {
    /// The route takes what its site has.
    #[default]
    Unset,
    /// The route has none, whatever its site has.
    Off,
    /// The route has this one.
    Given(T),
}

impl<T: Clone> Inheritable<T> {
    fn or(&self, site: &Self) -> Self {
        match self {
            Self::Unset => site.clone(),
            own => own.clone(),
        }
    }
}

impl<T> Inheritable<T> {
    /// Returns the table; `None` if there is none.
    pub const fn given(&self) -> Option<&T> {
        match self {
            Self::Given(table) => Some(table),
            Self::Unset | Self::Off => None,
        }
    }
}

impl<R: Record> Field for Inheritable<R> {
    fn read(item: &Item<'_>) -> Result<Self, Error> {
        match item.key.kind {
            Kind::TableOr { word, .. } if item.value.as_str() == Some(word) => Ok(Self::Off),
            _ => Field::read(item).map(Self::Given),
        }
    }

    fn unset() -> Option<Self> {
        Some(Self::Unset)
    }

    fn print(&self, key: &Key) -> Option<String> {
        match (self, key.kind) {
            (Self::Off, Kind::TableOr { word, .. }) => Some(print::text(word)),
            _ => None,
        }
    }

    fn print_tables(&self, key: &Key, out: &mut String) {
        if let Self::Given(table) = self {
            Field::print_tables(table, key, out);
        }
    }
}

impl RouteSettings {
    /// Returns these settings of a route with those of its site where the route does not say otherwise.
    pub(super) fn after(&self, site: &Self) -> Self {
        Self {
            allow: or(&self.allow, &site.allow),
            deny: all(&self.deny, &site.deny),
            rate_limit: self.rate_limit.or(&site.rate_limit),
            basic_auth: self.basic_auth.or(&site.basic_auth),
            cors: self.cors.or(&site.cors),
            redirects: self.redirects.clone().or_else(|| site.redirects.clone()),
            request_headers: self.request_headers.after(&site.request_headers),
            response_headers: [&site.response_headers[..], &self.response_headers].concat(),
            error_pages: error_pages(&self.error_pages, &site.error_pages),
            allow_encoded_slashes: self.allow_encoded_slashes.or(site.allow_encoded_slashes),
            compression: self.compression.or(&site.compression),
            max_request_body: self.max_request_body.or(site.max_request_body),
            timeout: self.timeout.or(site.timeout),
        }
    }
}

fn all<T: Clone + PartialEq>(list: &[T], others: &[T]) -> Vec<T> {
    let others = others.iter().filter(|other| !list.contains(other));
    list.iter().chain(others).cloned().collect()
}

fn or<T: Clone>(list: &[T], other: &[T]) -> Vec<T> {
    let given = if list.is_empty() { other } else { list };
    given.to_vec()
}

/// Returns the pages of a route, and those of its site for other statuses. A class of the route stands for all its statuses.
fn error_pages(own: &[ErrorPage], site: &[ErrorPage]) -> Vec<ErrorPage> {
    let is_own = |page: &&ErrorPage| own.iter().any(|known| known.statuses.cover(page.statuses));
    let others = site.iter().filter(|page| !is_own(page));
    own.iter().chain(others).cloned().collect()
}
