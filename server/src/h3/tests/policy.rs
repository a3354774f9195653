//! One table of policy, passed by every front: HTTP/3 between two connections in memory, and the front of handlers' tests. Those over
//! TCP pass it as a process.

mod cases;

use std::sync::Arc;

use sluicegate_base::clock;

use sluicegate_http::exchange::RequestHead;
use sluicegate_http::exchange::accounts::Accounts;
use sluicegate_http::exchange::message::{Envelope, ToHandler};
use sluicegate_http::exchange::ring::{WorkerRing, rings};
use sluicegate_http::exchange::test_front;
use sluicegate_http::files::Cache;
use sluicegate_http::gate::{Decision, Gate, GateCounters, RequestArrival};
use sluicegate_http::path::CanonicalPath;
use sluicegate_http::peer::{Peer, PeerConnection};
use sluicegate_http::trusted_proxies::TrustedProxies;

use self::cases::{Body, Case, cases};
use super::fixture::SHARE;
use super::transport::in_early_data;
use super::{Pair, site};

/// Address of a client beside the one under test.
const OTHER: &str = "192.0.2.9";

/// Returns accounts with enough memory for exchanges, or with none.
fn accounts(case: &Case) -> Arc<Accounts> {
    Accounts::new(SHARE, if case.no_memory { 0 } else { u64::MAX })
}

/// Runs each case through a front, and counts what reached the handler.
fn check(front: impl Fn(&Case) -> Option<u16>) {
    for case in cases() {
        let found = front(&case);
        let Case { method, path, body, .. } = case;
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

/// Sends the head of a case's request; that of CONNECT without a protocol has neither scheme nor path (RFC 9114 §4.4).
fn send(pair: &mut Pair, case: &Case, more: &[(&str, &str)]) -> u64 {
    let fin = case.ends_with_head();
    if case.method != "CONNECT" {
        return pair.request(case.method, case.path, more, fin);
    }
    match case.protocol() {
        None => pair.send_head(&[(":method", "CONNECT"), (":authority", "localhost")], fin),
        Some(protocol) => pair.request("CONNECT", case.path, &[(":protocol", protocol)], fin),
    }
}

#[test]
fn http3_keeps_to_the_policy() {
    check(|case| {
        let mut pair = if case.early_data { Pair::of(in_early_data()) } else { Pair::new() };
        let accounts = accounts(case);
        let _promised = case.no_memory.then(|| accounts.admit(OTHER.parse().unwrap()).unwrap());
        let (origin_ring, mut worker_ring) = rings(64, accounts);
        pair.context.origin_ring = Some(origin_ring);
        for _ in 0..case.running {
            pair.request("GET", "/app/first", &[], true);
            pair.settle();
        }
        assert_eq!(opened(&mut worker_ring), case.running);
        let length = case.announced().map(|length| length.to_string());
        let mut more: Vec<(&str, &str)> = Vec::new();
        more.extend(length.as_deref().map(|length| ("content-length", length)));
        if matches!(case.body, Body::Expecting(_)) {
            more.push(("expect", "100-continue"));
        }
        let stream = send(&mut pair, case, &more);
        if let Body::Sent(length) = case.body {
            let sent = pair.h3.send_body(&mut pair.client, stream, &vec![0; length], true);
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

/// The front in memory, without a transport.
#[test]
fn the_test_front_keeps_to_the_policy() {
    check(|case| {
        let accounts = accounts(case);
        let _promised = case.no_memory.then(|| accounts.admit(OTHER.parse().unwrap()).unwrap());
        let (method, path) = (case.method, case.path);
        let path_refused = path.starts_with('/') && CanonicalPath::parse(path).is_err();
        let path = if path_refused { "" } else { path };
        let head = match method {
            "CONNECT" => RequestHead {
                path: test_front::head("GET", path, &[]).path,
                ..test_front::tunnel(case.protocol())
            },
            method => test_front::head(method, path, &[]),
        };
        let sent = match case.body {
            Body::Sent(length) => length as u64,
            _ => 0,
        };
        let site = site();
        let mut gate = Gate {
            site: &site,
            cache: &mut Cache::new(site.file_store()),
            memory_is_short: false,
            counters: &mut GateCounters::default(),
            now: clock::now(),
        };
        let arrival = RequestArrival {
            head: &head,
            path_refused,
            peer: &test_front::peer(case.early_data),
            content_length: case.announced(),
            expects_status: matches!(case.body, Body::Expecting(_)),
            has_body: !case.ends_with_head(),
            running: case.running as u64,
        };
        let asked = test_front::ask(&mut gate, &arrival, sent, accounts);
        let status = asked.err().map(|reply| reply.status);
        let GateCounters { too_early, tunnels, overloaded, .. } = *gate.counters;
        let expected = match status {
            Some(425) => (1, 0, 0),
            Some(501) => (0, 1, 0),
            Some(503) => (0, 0, 1),
            _ => (0, 0, 0),
        };
        assert_eq!((too_early, tunnels, overloaded), expected, "{method} {path}");
        status
    });
}

#[test]
fn request_from_a_trusted_proxy_is_the_clients_that_the_proxy_names() {
    let head = test_front::head("GET", "/app/x", &[("x-forwarded-for", "198.51.100.1")]);
    let site = site();
    let mut gate = Gate {
        site: &site,
        cache: &mut Cache::new(site.file_store()),
        memory_is_short: false,
        counters: &mut GateCounters::default(),
        now: clock::now(),
    };
    let decision = gate.decide(&RequestArrival {
        head: &head,
        path_refused: false,
        peer: &test_front::peer(false),
        content_length: None,
        expects_status: false,
        has_body: false,
        running: 0,
    });
    let Decision::Handle(mut routed) = decision else {
        panic!("another decision");
    };
    let text = "[[listener]]\nname = \"l\"\naddress = \"[::1]:1\"\ntls = \"self-signed\"\ntrusted_proxies = \"10.0.0.1\"\n";
    let registry = sluicegate_cc::Registry::builtin();
    let config = sluicegate_config::Config::from_toml("test.toml", text, &registry).unwrap();
    let connection = PeerConnection {
        trusted_proxies: Arc::new(TrustedProxies::of(&config.listeners[0])),
        ..PeerConnection::http3("l".into(), Box::default(), "cubic")
    };
    let mut peer = Peer {
        address: "10.0.0.1:443".parse().unwrap(),
        proxy: None,
        local: None,
        early_data: false,
        connection: Arc::new(connection),
    };
    // Limits of a client's share, and the log, go by this address.
    let request = routed.request(head.clone(), peer.clone(), None, false);
    assert_eq!(request.peer.address, "198.51.100.1:0".parse().unwrap());
    assert_eq!(request.peer.proxy, Some(peer.address));
    peer.address = "10.0.0.2:443".parse().unwrap();
    let request = routed.request(head, peer.clone(), None, false);
    assert_eq!(request.peer, peer);
}
