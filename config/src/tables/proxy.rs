//! The reverse proxy.

use std::fmt;
use std::time::Duration;

use super::PoolChoice;
use crate::error::Error;
use crate::field::words_in_fields;
use crate::schema::{Kind, Refusal, choice, count, duration, millis, seconds};
use crate::section::Section;
use crate::template;
use crate::value::Word;
use crate::words::{canonical, host, host_port, token};

table! {
    /// The route above forwards requests over HTTP/1.1 to upstream servers, which share them as `balance` says: to those
    /// of a `[[pool]]`, or to those in `upstreams`. If no upstream can be reached, or the response is malformed, the client gets 502; if a
    /// timeout below expires, 504; if this host has no file descriptors or ports left, 503. If an upstream fails after
    /// the response has begun, the client's stream is reset.
    #[derive(Eq)]
    pub struct Proxy = [route.proxy], check: check_proxy {
        first ..
        /// The upstreams, and the settings that they share.
        pool: PoolChoice,
        /// Host header that upstreams receive. client: the host of the client's request. upstream: the upstream's own
        /// address, or localhost for a Unix socket. Any other value is sent as it is. Change it if the upstream does not
        /// know its public name.
        host: HostHeader {
            kind: Kind::Word {
                words: "\"client\", \"upstream\", or a host with a port or without",
                read: |word| canonical(host_port(word).or_else(|| host(word))),
            },
            default: "\"client\"",
            examples: ["\"upstream\"", "\"app.internal\""],
            reload: Live
        },
        /// Whether the route's `path` is removed from the request's path: with "/app/", /app/users becomes /users. Turn
        /// it on if the upstream does not know under which path it is published.
        strip_prefix: bool { kind: Kind::Switch, default: "false", reload: Live },
        /// Whether upstreams receive the path as the client wrote it, such as /a//%62, instead of its canonical
        /// spelling, /a/b. Turn it on if the upstream compares or signs paths byte by byte; its own access rules must
        /// then hold for every spelling of a path. The route still matches the canonical path. A path is still sent in
        /// canonical spelling if it begins with two slashes, which upstreams may read as the start of a host, if it has
        /// "." or ".." segments, or if it has a byte outside visible ASCII. Not together with strip_prefix.
        raw_path: bool { kind: Kind::Switch, default: "false", reload: Live },
        /// Path that upstreams get in place of the request's, for an application that stands elsewhere or has one entry.
        /// {path} is the request's path, {rest} the part of it after the route's prefix, and {capture:1} what the first
        /// group of the route's regular expression matched. The query stays. A path that gets a "." or ".." segment by
        /// what the client sent is refused with 400. Not together with strip_prefix or raw_path.
        rewrite: Option<String> {
            kind: Kind::Word {
                words: "a path that begins with / or {path}, of up to 1024 visible ASCII characters without ? and #, with {path}, {rest} and {capture:1} to \
                        {capture:9} as placeholders",
                read: rewrite,
            },
            unset: "the request's path",
            examples: ["\"/v2/{rest}\"", "\"/index.php\""],
            reload: Live
        },
        /// Redirects of upstreams that lead to a place on this server instead (Location in 201 and 3xx). off: none. upstream: those
        /// that name the upstream's own address, or the name in `host`: they become paths, with the prefix that strip_prefix has
        /// removed. all: also those to the client's host and those that are paths, if strip_prefix has removed a prefix which they do not have;
        /// cookies get it in front of their Path, too, and lose a Domain that is the upstream's name. Choose it for an application that does not know under which
        /// path it is published. Upstreams with `rewrite` stay as they are.
        rewrite_location: RewriteLocation {
            kind: choice(RewriteLocation::WORDS),
            default: "\"upstream\"",
            reload: Live
        },
        /// Whether `error_pages` of the route stand for the contents of error responses from upstreams, too. Turn it on if
        /// all errors shall look alike; leave it off for APIs, whose clients read what an error says.
        intercept_errors: bool { kind: Kind::Switch, default: "false", reload: Live },
        /// Time in which a connection to an upstream must open before another one is tried. Lower it on a private
        /// network to notice a dead machine sooner.
        connect_timeout: Duration { kind: duration(millis(1), seconds(300)), default: "\"3s\"", reload: Live },
        /// Longest time from the end of the request to the head of the upstream's response. Raise it for slow reports and for
        /// long polls.
        head_timeout: Duration { kind: duration(millis(1), seconds(3600)), default: "\"60s\"", reload: Live },
        /// Longest time between two reads of a response body from the upstream, or between two writes of a request body to it.
        /// Raise it for event streams that are silent for longer.
        idle_timeout: Duration { kind: duration(millis(1), seconds(3600)), default: "\"60s\"", reload: Live },
        /// Whether clients may open WebSockets through this route, over any version of HTTP. The upstream decides about each;
        /// this server only passes the bytes on. A route for certain methods must allow GET. Turn it off if the application has
        /// none: requests for one then get 501. They use HTTP/1.1 to an upstream, which `http2` does not change, or an open
        /// connection of HTTP/2 if the upstream takes them there (RFC 8441); over h2c:// this is the only way, and others get 502.
        websocket: bool { kind: Kind::Switch, default: "true", reload: Live },
        /// Protocols other than WebSocket to which clients may switch by an upgrade of HTTP/1.1 (RFC 9110 §7.8), such as "tcp" for Docker,
        /// "SPDY/3.1" for Kubernetes or "tailscale-control-protocol" for Headscale; in any case. The upstream decides about each, and
        /// this server only passes the bytes on, so no rule of a route holds for what they say. Requests for others are served as if they
        /// asked for none, as are those with a body. They use HTTP/1.1 to an upstream.
        upgrades: Vec<String> {
            kind: Kind::Words {
                words: "a protocol such as \"tcp\" or \"SPDY/3.1\", but none of HTTP, TLS and WebSocket",
                each: ", of up to 64 characters each",
                min: 1,
                max: 16,
                read: |word| canonical(upgrade(word)),
            },
            unset: "none",
            examples: ["[\"tcp\"]", "[\"SPDY/3.1\", \"tailscale-control-protocol\"]"],
            reload: Live
        },
        /// Longest time without a byte through a WebSocket or another tunnel, in either direction, after which it is closed. "0s" sets no
        /// limit: a silent one over HTTP/3 then stays open as long as its client keeps the connection alive. `timeout` of the
        /// route and `max_request_body` do not bound WebSockets, nor do connection_lifetime and connection_drain_timeout of
        /// `[limits]`: a connection lives on for an open one.
        tunnel_timeout: Duration { kind: duration(millis(0), seconds(86_400)), default: "\"1h\"", reload: Live },
        /// Attempts on further upstreams after one that failed. A request is repeated only if that is safe: no upstream
        /// has received it; or, on an upstream that has not seen it, if it has no body, its method is idempotent and
        /// the connection was closed before a response began. A request that meets an idle connection which the
        /// upstream has closed is repeated on a fresh one in any case, under the same conditions.
        retries: u64 { kind: count(0, 16, "further tries"), default: "1", reload: Live },
        /// Whether upstreams receive the client's address and the request's host and scheme, in Forwarded (RFC 7239)
        /// and in X-Forwarded-For, X-Forwarded-Host and X-Forwarded-Proto. Such fields of a client are passed on only
        /// if it is one of the listener's trusted_proxies, as client_address_field says. `remove` of
        /// [route.request_headers] withholds some of them. Turn it off if upstreams must not learn addresses.
        forwarded: bool { kind: Kind::Switch, default: "true", reload: Live },
        /// Fields that upstreams receive from any client although they claim what only a proxy can know: x-original-url,
        /// say, or the client's address in a field of a device. All others of this kind are dropped: fields that name an
        /// address, as those that end in -ip, a user (remote-user, x-user-id), a client's certificate, or another scheme or
        /// target than the request's, with - or _ in their names. Signed tokens pass. List what your application needs and
        /// does not believe; Rocket.Chat, for instance, needs x-user-id, which its clients send. `remove` of
        /// [route.request_headers] withholds further fields. Not forwarded and x-forwarded-for, -host and -proto: the
        /// server writes them, see trusted_proxies.
        pass_fields: Vec<String> { kind: Kind::FieldNames, default: "[]", examples: ["[\"x-original-url\"]"], reload: Live },
        /// Name of this server in the Via field of requests to upstreams (RFC 9110 §7.6.3), which shows them loops and
        /// the protocol that the client speaks. "off" sends none, against the RFC. Servers may compress no responses to
        /// requests with Via; for nginx, set `gzip_proxied any` there rather than "off" here.
        via: Via {
            kind: Kind::Word {
                words: "a name of 1 to 64 letters, digits, `-`, `_`, `.` and the like, or \"off\"",
                read: |word| canonical(token(word, 64).then_some(word)),
            },
            default: "\"sluicegate\"",
            examples: ["\"edge-1\"", "\"off\""],
            reload: Live
        },
    }
}

words! {
    /// Places that responses of upstreams name, and that become places on this server.
    pub enum RewriteLocation {
        /// None.
        Off = "off",
        /// Redirects to the upstream's own address.
        Upstream = "upstream",
        /// All redirects and cookies.
        All = "all",
    }
}

/// Reads a protocol of an upgrade. What is another version of HTTP, or another layer below it, would lead around the routes.
fn upgrade(word: &str) -> Option<&str> {
    let (name, version) = word.split_once('/').unwrap_or((word, "0"));
    let refused = ["h2c", "h2", "h3", "http", "tls", "websocket"];
    let is_other = !refused.iter().any(|refused| name.eq_ignore_ascii_case(refused));
    (is_other && word.len() <= 64 && token(name, 64) && token(version, 64)).then_some(word)
}

/// Fields about the client that the server writes.
const WRITTEN: [&str; 4] =
    ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"];

fn check_proxy(proxy: &mut Proxy, section: &Section<'_>) -> Result<(), Error> {
    if proxy.raw_path && proxy.strip_prefix {
        let found = "`raw_path` with `strip_prefix` in [route.proxy]";
        let at = section.position("raw_path");
        return Err(section.source.error(at, found, "at most one of them true"));
    }
    let is_written = |name: &&String| WRITTEN.contains(&name.as_str());
    if let Some(name) = proxy.pass_fields.iter().find(is_written) {
        let found = format!("`{name}` in `pass_fields` of [route.proxy]");
        let at = section.position("pass_fields");
        let expected =
            "other fields: the server writes this one, and passes it on from `trusted_proxies`";
        return Err(section.source.error(at, found, expected));
    }
    if proxy.rewrite.is_some() && proxy.rewrite_location == RewriteLocation::All {
        let found = "`rewrite_location = \"all\"` with `rewrite` in [route.proxy]";
        let at = section.position("rewrite_location");
        return Err(section.source.error(at, found, "at most one of them"));
    }
    if proxy.rewrite.is_some() && (proxy.raw_path || proxy.strip_prefix) {
        let found = "`rewrite` with `strip_prefix` or `raw_path` in [route.proxy]";
        let at = section.position("rewrite");
        return Err(section.source.error(at, found, "at most one of them"));
    }
    Ok(())
}

/// Reads a path with placeholders.
fn rewrite(word: &str) -> Result<String, Refusal> {
    let plain = |b: u8| b.is_ascii_graphic() && !b"?#$\\{}".contains(&b);
    template::check(word, "rewrite", template::IN_PATHS, plain)?;
    let starts = word.starts_with('/') || word.starts_with("{path}");
    if starts && word.len() <= 1024 { Ok(word.to_owned()) } else { Err(Refusal::default()) }
}

/// Host header of the requests to an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostHeader {
    /// The host that the client asked for.
    Client,
    /// The upstream's own address.
    Upstream,
    /// This host, with a port or without.
    Name(String),
}

impl fmt::Display for HostHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "client",
            Self::Upstream => "upstream",
            Self::Name(name) => name,
        })
    }
}

impl Word for HostHeader {
    fn of_canonical(word: String) -> Option<Self> {
        Some(match word.as_str() {
            "client" => Self::Client,
            "upstream" => Self::Upstream,
            _ => Self::Name(word),
        })
    }
}

words_in_fields!(HostHeader);

/// Name of this server in `Via`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Via {
    /// No field is sent.
    Off,
    /// This name is sent.
    Name(String),
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Name(name) => name,
        })
    }
}

impl Word for Via {
    fn of_canonical(word: String) -> Option<Self> {
        Some(match word.as_str() {
            "off" => Self::Off,
            _ => Self::Name(word),
        })
    }
}

words_in_fields!(Via);
