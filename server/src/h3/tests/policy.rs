//! One table of policy, passed by every front: HTTP/3 between two connections in memory, and a front without a transport.

use std::net::IpAddr;

use crate::clock;
use crate::http::exchange::accounts::Accounts;
use crate::http::exchange::message::{Envelope, ToHandler};
use crate::http::exchange::ring::{WorkerRing, rings};
use crate::http::exchange::{ConnectionKey, ExchangeKey, RequestHead};
use crate::http::files::Cache;
use crate::http::gate::{Arrival, Counters, Decision, Gate, replies};
use crate::http::path::CanonicalPath;
use crate::http::peer::{Peer, PeerConnection};
use quiche::h3::Header;

use super::fixture::SHARE;
use super::transport::in_early_data;
use super::{Pair, site};

/// Address of a client beside the one under test.
const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 9));

/// A request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    None,
    /// So many bytes, sent without a `content-length`.
    Sent(usize),
    /// A `content-length`, and nothing sent yet.
    Announced(u64),
    /// The same, with `expect: 100-continue`.
    Expecting(u64),
}

/// A request and its outcome: a status, or `None` where a handler gets it.
struct Case {
    method: &'static str,
    path: &'static str,
    body: Body,
    early_data: bool,
    /// Exchanges of the connection that are running already.
    running: usize,
    /// All memory for exchanges is promised to another client.
    no_memory: bool,
    outcome: Option<u16>,
}

const GET: Case = Case {
    method: "GET",
    path: "/page",
    body: Body::None,
    early_data: false,
    running: 0,
    no_memory: false,
    outcome: Some(200),
};

fn get(path: &'static str, outcome: Option<u16>) -> Case {
    Case {
        path,
        outcome,
        ..GET
    }
}

fn ask(method: &'static str, path: &'static str, body: Body, outcome: Option<u16>) -> Case {
    Case {
        method,
        body,
        ..get(path, outcome)
    }
}

fn early(method: &'static str, path: &'static str, outcome: Option<u16>) -> Case {
    Case {
        early_data: true,
        ..ask(method, path, Body::None, outcome)
    }
}

/// The policy. Of the site, `/page` and `/bytes/` need no handler and take bodies of 1000 bytes, and `/app/` has a handler and
/// takes 60,000; four exchanges may run at once.
fn cases() -> Vec<Case> {
    vec![
        get("/page", Some(200)),
        get("/nothing", Some(404)),
        get("/app/x", None),
        ask("POST", "/page", Body::None, Some(405)),
        ask("OPTIONS", "*", Body::None, Some(204)),
        ask("CONNECT", "", Body::None, Some(501)),
        // Every spelling of a path meets the same route.
        get("//page", Some(200)),
        get("/%70age", Some(200)),
        get("/app/../page", Some(200)),
        get("/x/%2e%2e//app/y", None),
        get("/app%2fx", Some(400)),
        get("/app/%00", Some(400)),
        get("/app/%zz", Some(400)),
        get("/app/..;/page", Some(400)),
        // Bodies.
        ask("GET", "/page", Body::Sent(1000), Some(200)),
        ask("GET", "/page", Body::Sent(1001), Some(413)),
        ask("GET", "/page", Body::Announced(1001), Some(413)),
        ask("GET", "/page", Body::Expecting(1000), Some(200)),
        ask("GET", "/page", Body::Expecting(1001), Some(413)),
        ask("GET", "/app%2fx", Body::Sent(1001), Some(413)),
        ask("POST", "/app/x", Body::Sent(1001), None),
        ask("POST", "/app/x", Body::Announced(60_000), None),
        ask("POST", "/app/x", Body::Announced(60_001), Some(413)),
        ask("POST", "/app/x", Body::Expecting(60_001), Some(413)),
        // Early data (RFC 8470).
        early("GET", "/page", Some(200)),
        early("HEAD", "/app/x", None),
        early("POST", "/app/x", Some(425)),
        early("DELETE", "/page", Some(425)),
        early("POST", "/app%2fx", Some(425)),
        // Limits.
        Case {
            running: 3,
            ..get("/app/x", None)
        },
        Case {
            running: 4,
            ..get("/app/x", Some(503))
        },
        Case {
            running: 4,
            ..get("/page", Some(200))
        },
        Case {
            no_memory: true,
            ..get("/app/x", Some(503))
        },
        Case {
            no_memory: true,
            ..get("/page", Some(200))
        },
    ]
}

/// Memory for exchanges: enough, or none.
fn accounts(case: &Case) -> std::sync::Arc<Accounts> {
    Accounts::new(SHARE, if case.no_memory { 0 } else { u64::MAX })
}

/// Runs each case through a front, and counts what reached the handler.
fn check(front: impl Fn(&Case) -> Option<u16>) {
    for case in cases() {
        let found = front(&case);
        let Case {
            method, path, body, ..
        } = case;
        let early = case.early_data;
        assert_eq!(
            found, case.outcome,
            "{method} {path}, {body:?}, early data: {early}, {} running",
            case.running
        );
    }
}

fn opened(worker_ring: &mut WorkerRing) -> usize {
    let messages = std::iter::from_fn(|| worker_ring.take());
    let opens =
        messages.filter(|Envelope { message, .. }| matches!(message, ToHandler::Open { .. }));
    opens.count()
}

/// Sends the head of a case's request; that of CONNECT has neither scheme nor path (RFC 9114 §4.4).
fn send(pair: &mut Pair, case: &Case, more: &[(&str, &str)], fin: bool) -> u64 {
    if case.method != "CONNECT" {
        return pair.request(case.method, case.path, more, fin);
    }
    let list = [(":method", "CONNECT"), (":authority", "localhost")];
    let list = list.map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes()));
    pair.h3.send_request(&mut pair.client, &list, fin).unwrap()
}

#[test]
fn http3_keeps_to_the_policy() {
    check(|case| {
        let mut pair = if case.early_data {
            Pair::of(in_early_data())
        } else {
            Pair::new()
        };
        let accounts = accounts(case);
        let _promised = case.no_memory.then(|| accounts.admit(OTHER).unwrap());
        let (origin_ring, mut worker_ring) = rings(64, accounts);
        pair.context.origin_ring = Some(origin_ring);
        for _ in 0..case.running {
            pair.request("GET", "/app/first", &[], true);
            pair.settle();
        }
        assert_eq!(opened(&mut worker_ring), case.running);
        let length = match case.body {
            Body::Announced(length) | Body::Expecting(length) => Some(length.to_string()),
            Body::None | Body::Sent(_) => None,
        };
        let mut more: Vec<(&str, &str)> = Vec::new();
        more.extend(length.as_deref().map(|length| ("content-length", length)));
        if matches!(case.body, Body::Expecting(_)) {
            more.push(("expect", "100-continue"));
        }
        let fin = case.body == Body::None;
        let stream = send(&mut pair, case, &more, fin);
        if let Body::Sent(length) = case.body {
            let sent = pair
                .h3
                .send_body(&mut pair.client, stream, &vec![0; length], true);
            assert_eq!(sent, Ok(length));
        }
        if case.early_data {
            pair.early_step();
        } else {
            pair.settle();
        }
        if opened(&mut worker_ring) > 0 {
            return None;
        }
        pair.settle();
        pair.streams[&stream].status().parse().ok()
    });
}

/// A front without a transport.
#[test]
fn a_front_in_memory_keeps_to_the_policy() {
    check(|case| {
        let accounts = accounts(case);
        let _promised = case.no_memory.then(|| accounts.admit(OTHER).unwrap());
        let (mut origin_ring, _worker_ring) = rings(64, accounts);
        let (site, mut cache, mut counters) = (
            site(),
            Cache::new(0, std::time::Duration::ZERO),
            Counters::default(),
        );
        let path = match case.path {
            "" => Ok(CanonicalPath::empty()),
            "*" => Ok(CanonicalPath::asterisk()),
            raw => CanonicalPath::parse(raw),
        };
        let path_refused = path.is_err();
        let head = RequestHead {
            method: case.method.to_owned(),
            scheme: Some("https".to_owned()),
            authority: "localhost".to_owned(),
            path: path.unwrap_or_else(|_| CanonicalPath::empty()),
            query: None,
            headers: Vec::new(),
        };
        let (length, sent) = match case.body {
            Body::None => (None, 0),
            Body::Sent(sent) => (None, sent as u64),
            Body::Announced(length) | Body::Expecting(length) => (Some(length), 0),
        };
        let has_body = case.body != Body::None;
        let gate = &mut Gate {
            site: &site,
            cache: &mut cache,
            counters: &mut counters,
            now: clock::now(),
        };
        let decision = gate.decide(&Arrival {
            head: &head,
            path_refused,
            early_data: case.early_data,
            content_length: length,
            expects_status: matches!(case.body, Body::Expecting(_)),
            has_body,
            running: case.running as u64,
        });
        let handling = match decision {
            Decision::Refuse(reply) => return Some(reply.status),
            Decision::Discard(_, limit) if sent > limit => {
                return Some(replies::body_too_large().status);
            }
            Decision::Discard(reply, _) => return Some(reply.status),
            Decision::Handle(handling) => handling,
        };
        let peer = Peer {
            address: ([192, 0, 2, 7], 50_000).into(),
            local: None,
            early_data: case.early_data,
            connection: PeerConnection::http3("l".into(), Box::default(), "cubic").into(),
        };
        let key = ExchangeKey {
            connection: ConnectionKey {
                slot: 0,
                generation: 0,
            },
            stream: 0,
        };
        let request = handling.request(head, peer, length, has_body);
        let opened = counters.open(Some(&mut origin_ring), key, request);
        opened.err().map(|reply| reply.status)
    });
}
