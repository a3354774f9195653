//! The reverse proxy.

use std::fmt;
use std::time::Duration;

use crate::field::words_in_fields;
use crate::schema::{KIB, Kind, MIB, Reason, Refusal, count, duration, millis, seconds, size};
use crate::source::shown;
use crate::value::Word;
use crate::words::{canonical, host, host_port};

table! {
    /// The route above forwards requests to upstream servers over HTTP/1.1, to each in turn. An upstream that does not
    /// respond gets the client a 502, one that takes too long a 504.
    #[derive(Eq)]
    pub struct Proxy = [route.proxy] {
        /// Upstream servers with their ports; http:// without a port is port 80. The connections have no TLS, so keep
        /// the servers on this host or on a network of your own.
        upstreams: Vec<String> {
            kind: Kind::Words {
                words: "a server such as \"127.0.0.1:8080\", \"[::1]:8080\", \"app:8080\" or \"http://app\"",
                each: "",
                min: 1,
                max: 64,
                read: upstream,
            },
            required: "\"127.0.0.1:8080\"",
            examples: ["[\"10.0.0.1:8080\", \"10.0.0.2:8080\"]"],
            reload: Live
        },
        /// Host header that the upstream receives: the one of the client's request, the upstream's own address, or a
        /// name. Change it where the upstream serves several names and does not know the public one.
        host: HostHeader {
            kind: Kind::Word {
                words: "\"client\", \"upstream\", or a host with a port or without",
                read: |word| canonical(host_port(word).or_else(|| host(word))),
            },
            default: "\"client\"",
            examples: ["\"upstream\"", "\"app.internal\""],
            reload: Live
        },
        /// Whether the route's path is removed from the request's: under "/app/", /app/users becomes /users. Turn it on
        /// where the upstream does not know under which path it is published.
        strip_prefix: bool { kind: Kind::Switch, default: "false", reload: Live },
        /// Time that a connection to an upstream may take to open before another upstream is tried. Lower it on a
        /// network of your own to notice a dead machine sooner.
        connect_timeout: Duration { kind: duration(millis(1), seconds(300)), default: "\"3s\"", reload: Live },
        /// Time from the end of the request to the head of the upstream's response. Raise it for reports and long
        /// polls.
        head_timeout: Duration { kind: duration(millis(1), seconds(3600)), default: "\"60s\"", reload: Live },
        /// Time between two reads of a response body from the upstream, or two writes of a request body to it. Raise it
        /// for event streams that are silent for longer.
        idle_timeout: Duration { kind: duration(millis(1), seconds(3600)), default: "\"60s\"", reload: Live },
        /// Idle connections that each worker keeps to each upstream; 0 opens one for each request. Raise it for many short
        /// requests, lower it where upstreams hold a thread for each connection.
        keepalive: u64 { kind: count(0, 4096, "connections"), default: "32", reload: Live },
        /// Time that an idle connection is kept. Keep it below the upstream's own timeout, so that no request meets a
        /// connection that is being closed.
        keepalive_timeout: Duration { kind: duration(millis(1), seconds(3600)), default: "\"60s\"", reload: Live },
        /// Further connections or upstreams on which a request is tried where that is safe: the upstream has not
        /// received it, or it has no body, its method is idempotent and no response has begun.
        retries: u64 { kind: count(0, 16, "further tries"), default: "1", reload: Live },
        /// Failures in a row after which an upstream gets no requests for fail_timeout; 0 never leaves one out. If all
        /// are left out, they are tried nevertheless.
        max_fails: u64 { kind: count(0, 1000, "failures"), default: "3", reload: Live },
        /// Time that a failing upstream is left out before it gets requests again. Raise it where the upstream takes
        /// long to start.
        fail_timeout: Duration { kind: duration(millis(1), seconds(3600)), default: "\"10s\"", reload: Live },
        /// Whether the upstream receives the client's address, host and scheme in Forwarded (RFC 7239) and
        /// X-Forwarded-For, -Host and -Proto. Fields of these names that clients send are never passed on unchanged.
        /// Turn it off where upstreams must not learn addresses.
        forwarded: bool { kind: Kind::Switch, default: "true", reload: Live },
        /// Largest head of an upstream's response; a larger one gets the client a 502. Raise it for applications that set
        /// very large cookies.
        header_bytes: u64 { kind: size(KIB, MIB), default: "\"64KiB\"", reload: Live },
    }
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

/// Reads `host:port`; after `http://`, the port is 80 if none is given.
fn upstream(word: &str) -> Result<String, Refusal> {
    let server = match word.split_once("://") {
        None => host_port(word),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => {
            let rest = rest.strip_suffix('/').unwrap_or(rest);
            host_port(rest).or_else(|| Some(format!("{}:80", host(rest)?)))
        }
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("https") => {
            return Err(Refusal::because(Reason {
                found: format!("upstream \"{}\"", shown(word)),
                expected:
                    "a server that is spoken to without TLS, as \"host:port\" or \"http://host\""
                        .to_owned(),
                nearest: None,
            }));
        }
        Some(_) => None,
    };
    canonical(server)
}
