//! Keys of the reverse proxy.

use super::{Given, KIB, Key, Kind, MIB, Table, millis, seconds};

pub(crate) static PROXY: Table = Table {
    name: "route.proxy",
    many: false,
    summary: "The route above answers with what other servers answer, over HTTP/1.1. Requests go to the upstreams in \
              turn. One that does not answer gets the client a 502, one that takes too long a 504.",
    keys: &[
        Key {
            name: "upstreams",
            kind: Kind::Form {
                words: "a server such as \"127.0.0.1:8080\", \"[::1]:8080\", \"app:8080\" or \"http://app\", or a \
                        list of 1 to 64 of them",
            },
            given: Given::Required("\"127.0.0.1:8080\""),
            examples: &["[\"10.0.0.1:8080\", \"10.0.0.2:8080\"]"],
            summary: "The servers, with their ports; http:// without a port is port 80. They are spoken to without \
                      TLS, so keep them on this host or on a network of your own.",
        },
        Key {
            name: "host",
            kind: Kind::Form {
                words: "\"client\", \"upstream\", or a host with a port or without",
            },
            given: Given::Default("\"client\""),
            examples: &["\"upstream\"", "\"app.internal\""],
            summary: "What the upstream gets as Host: what the client asked for, the upstream's own address, or a \
                      name. Change it where the upstream serves several names and does not know the public one.",
        },
        Key {
            name: "strip_prefix",
            kind: Kind::Switch,
            given: Given::Default("false"),
            examples: &[],
            summary: "Whether the route's path is taken off the request's: under \"/app/\", /app/users becomes \
                      /users. Turn it on where the upstream does not know under which path it is published.",
        },
        Key {
            name: "connect_timeout",
            kind: Kind::Duration {
                min: millis(1),
                max: seconds(300),
            },
            given: Given::Default("\"3s\""),
            examples: &[],
            summary: "How long a connection to an upstream may take to open before another upstream is tried. Lower \
                      it on a network of your own to notice a dead machine sooner.",
        },
        Key {
            name: "head_timeout",
            kind: Kind::Duration {
                min: millis(1),
                max: seconds(3600),
            },
            given: Given::Default("\"60s\""),
            examples: &[],
            summary: "How long the upstream may take to begin its response once it has the request. Raise it for \
                      reports and long polls.",
        },
        Key {
            name: "idle_timeout",
            kind: Kind::Duration {
                min: millis(1),
                max: seconds(3600),
            },
            given: Given::Default("\"60s\""),
            examples: &[],
            summary: "How long nothing may move in a body, between two reads from the upstream or two writes to it. \
                      Raise it for event streams that are silent for longer.",
        },
        Key {
            name: "keepalive",
            kind: Kind::Count {
                min: 0,
                max: 4096,
                unit: "connections",
            },
            given: Given::Default("32"),
            examples: &[],
            summary: "Idle connections that each worker keeps to each upstream; 0 opens one for each request. Raise \
                      it for many short requests, lower it where upstreams hold a thread for each connection.",
        },
        Key {
            name: "keepalive_timeout",
            kind: Kind::Duration {
                min: millis(1),
                max: seconds(3600),
            },
            given: Given::Default("\"60s\""),
            examples: &[],
            summary: "How long an idle connection is kept. Keep it below the upstream's own timeout, so that no \
                      request meets a connection that is being closed.",
        },
        Key {
            name: "retries",
            kind: Kind::Count {
                min: 0,
                max: 16,
                unit: "further tries",
            },
            given: Given::Default("1"),
            examples: &[],
            summary: "Further connections or upstreams that a request is tried on where that is safe: the upstream \
                      has not got it, or the method changes nothing and nothing was answered yet.",
        },
        Key {
            name: "max_fails",
            kind: Kind::Count {
                min: 0,
                max: 1000,
                unit: "failures",
            },
            given: Given::Default("3"),
            examples: &[],
            summary: "Failures in a row after which an upstream is left out for fail_timeout; 0 never leaves one out. \
                      Where all are left out, they are tried all the same.",
        },
        Key {
            name: "fail_timeout",
            kind: Kind::Duration {
                min: millis(1),
                max: seconds(3600),
            },
            given: Given::Default("\"10s\""),
            examples: &[],
            summary: "How long a failing upstream is left out before it gets requests again. Raise it where starting \
                      takes the upstream long.",
        },
        Key {
            name: "forwarded",
            kind: Kind::Switch,
            given: Given::Default("true"),
            examples: &[],
            summary: "Whether the upstream is told of the client's address, host and scheme by Forwarded (RFC 7239) \
                      and X-Forwarded-For, -Host and -Proto. What clients send under these names never gets through \
                      as it is. Turn it off where upstreams must not learn addresses.",
        },
        Key {
            name: "header_bytes",
            kind: Kind::Size { min: KIB, max: MIB },
            given: Given::Default("\"64KiB\""),
            examples: &[],
            summary: "Largest head of an upstream's response; a larger one gets the client a 502. Raise it for \
                      applications that set very large cookies.",
        },
    ],
    specs: &[],
};
