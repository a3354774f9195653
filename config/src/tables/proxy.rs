//! The reverse proxy.

use std::fmt;
use std::time::Duration;

use crate::field::words_in_fields;
use crate::schema::{KIB, Kind, MIB, Reason, Refusal, count, duration, millis, seconds, size};
use crate::source::shown;
use crate::value::Word;
use crate::words::{canonical, host, host_port};

table! {
    /// The route above answers with what other servers answer, over HTTP/1.1. Requests go to the upstreams in turn. One
    /// that does not answer gets the client a 502, one that takes too long a 504.
    #[derive(Eq)]
    pub struct Proxy = [route.proxy] {
        /// The servers, with their ports; http:// without a port is port 80. They are spoken to without TLS, so keep them
        /// on this host or on a network of your own.
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
        /// What the upstream gets as Host: what the client asked for, the upstream's own address, or a name. Change it
        /// where the upstream serves several names and does not know the public one.
        host: HostHeader {
            kind: Kind::Word {
                words: "\"client\", \"upstream\", or a host with a port or without",
                read: |word| canonical(host_port(word).or_else(|| host(word))),
            },
            default: "\"client\"",
            examples: ["\"upstream\"", "\"app.internal\""],
            reload: Live
        },
        /// Whether the route's path is taken off the request's: under "/app/", /app/users becomes /users. Turn it on where
        /// the upstream does not know under which path it is published.
        strip_prefix: bool { kind: Kind::Switch, default: "false", reload: Live },
        /// How long a connection to an upstream may take to open before another upstream is tried. Lower it on a network
        /// of your own to notice a dead machine sooner.
        connect_timeout: Duration { kind: duration(millis(1), seconds(300)), default: "\"3s\"", reload: Live },
        /// How long the upstream may take to begin its response once it has the request. Raise it for reports and long
        /// polls.
        head_timeout: Duration { kind: duration(millis(1), seconds(3600)), default: "\"60s\"", reload: Live },
        /// How long nothing may move in a body, between two reads from the upstream or two writes to it. Raise it for
        /// event streams that are silent for longer.
        idle_timeout: Duration { kind: duration(millis(1), seconds(3600)), default: "\"60s\"", reload: Live },
        /// Idle connections that each worker keeps to each upstream; 0 opens one for each request. Raise it for many short
        /// requests, lower it where upstreams hold a thread for each connection.
        keepalive: u64 { kind: count(0, 4096, "connections"), default: "32", reload: Live },
        /// How long an idle connection is kept. Keep it below the upstream's own timeout, so that no request meets a
        /// connection that is being closed.
        keepalive_timeout: Duration { kind: duration(millis(1), seconds(3600)), default: "\"60s\"", reload: Live },
        /// Further connections or upstreams that a request is tried on where that is safe: the upstream has not got it, or
        /// the method changes nothing and nothing was answered yet.
        retries: u64 { kind: count(0, 16, "further tries"), default: "1", reload: Live },
        /// Failures in a row after which an upstream is left out for fail_timeout; 0 never leaves one out. Where all are
        /// left out, they are tried all the same.
        max_fails: u64 { kind: count(0, 1000, "failures"), default: "3", reload: Live },
        /// How long a failing upstream is left out before it gets requests again. Raise it where starting takes the
        /// upstream long.
        fail_timeout: Duration { kind: duration(millis(1), seconds(3600)), default: "\"10s\"", reload: Live },
        /// Whether the upstream is told of the client's address, host and scheme by Forwarded (RFC 7239) and
        /// X-Forwarded-For, -Host and -Proto. What clients send under these names never gets through as it is. Turn it off
        /// where upstreams must not learn addresses.
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
