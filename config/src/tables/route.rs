//! Routes: the requests that they match, and the changes that they make.

use std::fmt;
use std::time::Duration;

use super::{Files, Fixed, Generate, HeaderEdits, Proxy, Redirect};
use crate::error::Error;
use crate::field::words_in_fields;
use crate::schema::{Kind, Reason, Refusal, TIB, duration, millis, seconds, size};
use crate::section::Section;
use crate::value::Word;
use crate::words::{canonical, host, token};

const MAX_PATH: usize = 1024;
const MAX_METHOD: usize = 32;

table! {
    /// Route: the requests that it matches, and the handler that responds to them. If several routes match a request by
    /// host, path and method, the one with the most specific host applies (a name before a wildcard, a longer wildcard
    /// before a shorter one, a route without `host` last), then the one with the longest path. A request that no route
    /// matches gets 404; if only the method does not match, 405. Each route has exactly one handler: fixed, generate,
    /// files, proxy or redirect.
    #[derive(Eq)]
    pub struct Route = [[route]], check: check_route {
        /// Hosts that the route matches. "*." stands for one or more labels: "*.example.com" matches a.example.com and
        /// a.b.example.com, but not example.com. Upper and lower case match alike, and the request's port is ignored.
        /// Write names in other alphabets in their xn-- form.
        hosts as host: Vec<HostPattern> {
            kind: Kind::Words {
                words: "a host such as \"example.com\", \"*.example.com\", \"192.0.2.1\" or \"[2001:db8::1]\", without a \
                        port",
                each: "",
                min: 1,
                max: 64,
                read: host_or_pattern,
            },
            unset: "any host",
            examples: ["\"example.com\"", "[\"example.org\", \"*.example.org\"]"],
            reload: Live
        },
        /// Prefix of the request paths that the route matches. It may end within a segment: "/app" also matches
        /// /apples. Two routes must differ in host, path or method.
        /// Requests match in their canonical spelling, so "/private/" also matches //private/ and /%70rivate/. Path
        /// parameters belong to their segment: /private;x/y does not begin with "/private/". An upstream that drops
        /// parameters, as servlet containers do, reads it as /private/y and must protect such paths itself.
        path: String {
            kind: Kind::Word {
                words: "a path prefix that starts with \"/\", of up to 1024 visible ASCII characters without ? and #",
                read: |word| canonical(path(word)),
            },
            required: "\"/\"",
            reload: Live
        },
        /// Methods that the route matches. If two routes have the same host and path, the one that names the request's
        /// method applies before the one for any method. Requests with other methods go to the next route that matches,
        /// such as one with a shorter path. Set it to give reading and writing requests different handlers. To refuse
        /// methods on a path, add a route for the path with `fixed = { status = 403 }`.
        methods as method: Vec<String> {
            kind: Kind::Words {
                words: "a method in upper case such as \"GET\"",
                each: ", of up to 32 characters each",
                min: 1,
                max: 32,
                read: |word| canonical(method(word)),
            },
            unset: "any method",
            examples: ["[\"GET\", \"HEAD\"]"],
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
        ..
        /// Handler that responds.
        handler: Handler,
    }
}

/// Refuses a redirect that names no target: clients cannot follow it.
fn check_route(route: &mut Route, section: &Section<'_>) -> Result<(), Error> {
    let Handler::Fixed(fixed) = &route.handler else {
        return Ok(());
    };
    let edits = &route.response_headers;
    let mut added = edits.set.iter().chain(&edits.add);
    if matches!(fixed.status, 301 | 302 | 303 | 307 | 308)
        && !added.any(|(name, _)| name == "location")
    {
        let found = format!(
            "fixed response with status {} and no `location`",
            fixed.status
        );
        let expected = "a [route.redirect], or `location` in [route.response_headers]";
        let at = section.position("fixed");
        return Err(section.source.error(at, found, expected));
    }
    Ok(())
}

handlers! {
    /// Handler of a route.
    pub enum Handler {
        /// Handler that returns the same response to every request: the table `[route.fixed]` below.
        Fixed(Fixed) = "fixed", example: "{ status = 204 }",
        /// Handler that returns as many bytes as the path asks for: the table `[route.generate]` below.
        Generate(Generate) = "generate", example: "{}",
        /// Handler that serves the files of a folder: the table `[route.files]` below.
        Files(Files) = "files", example: "{ root = \"/srv/www\" }",
        /// Handler that forwards requests to upstream servers: the table `[route.proxy]` below.
        Proxy(Proxy) = "proxy", example: "{ upstreams = \"127.0.0.1:8080\" }",
        /// Handler that redirects to another URL: the table `[route.redirect]` below.
        Redirect(Redirect) = "redirect", example: "{ location = \"https://example.com{path}{query}\" }",
    }
}

impl Route {
    /// Returns a route for any host and method that changes no header and has no limits of its own.
    pub fn new(path: impl Into<String>, handler: Handler) -> Self {
        Self {
            hosts: Vec::new(),
            path: path.into(),
            methods: Vec::new(),
            handler,
            request_headers: HeaderEdits::default(),
            response_headers: HeaderEdits::default(),
            max_request_body: None,
            timeout: None,
        }
    }
}

/// Pattern of hosts, in lower case, without a port; an IPv6 address stands in brackets.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HostPattern {
    /// This host alone.
    Exact(String),
    /// Every longer name that ends with this text, which starts with a dot.
    Suffix(String),
}

impl fmt::Display for HostPattern {
    /// Writes the pattern as a file does: `example.com`, `*.example.com`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(host) => f.write_str(host),
            Self::Suffix(suffix) => write!(f, "*{suffix}"),
        }
    }
}

impl Word for HostPattern {
    fn of_canonical(word: String) -> Option<Self> {
        Some(match word.strip_prefix('*') {
            Some(suffix) => Self::Suffix(suffix.to_owned()),
            None => Self::Exact(word),
        })
    }
}

words_in_fields!(HostPattern);

/// Reads a host, or a pattern of the names below one.
fn host_or_pattern(word: &str) -> Result<String, Refusal> {
    // nginx's way to write a server for every other host.
    if word == "_" {
        return Err(Refusal::because(Reason {
            found: "\"_\" for `host`".to_owned(),
            expected: "a host; a route without `host` matches any host".to_owned(),
            nearest: None,
        }));
    }
    canonical(host_pattern(word))
}

/// Returns the canonical form of a host, or of every name below one.
fn host_pattern(word: &str) -> Option<String> {
    let Some(suffix) = word.strip_prefix("*.") else {
        return host(word);
    };
    // Below an address there is nothing.
    let name =
        host(suffix).filter(|h| !h.starts_with('[') && h.parse::<std::net::Ipv4Addr>().is_err());
    name.map(|name| format!("*.{name}"))
}

fn method(word: &str) -> Option<&str> {
    let upper = !word.bytes().any(|b| b.is_ascii_lowercase());
    (upper && token(word, MAX_METHOD)).then_some(word)
}

fn path(word: &str) -> Option<&str> {
    let plain = |b: u8| b.is_ascii_graphic() && b != b'?' && b != b'#';
    let fits = word.starts_with('/') && word.len() <= MAX_PATH;
    (fits && word.bytes().all(plain)).then_some(word)
}
