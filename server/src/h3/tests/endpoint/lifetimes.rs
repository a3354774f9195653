//! Connections that end: with their last request, with a tunnel, and because memory is short.

use std::sync::Arc;

use bytes::Bytes;
use quiche::h3::{Event, Header};
use sluicegate_base::observe::memory_budget::MemoryBudget;
use sluicegate_http::exchange::accounts::Accounts;
use sluicegate_http::exchange::message::{Envelope, Head, ToFront, ToHandler};
use sluicegate_http::exchange::ring::rings;
use sluicegate_quic::counters::ExpiryReason;

use super::*;

/// H3_NO_ERROR, H3_EXCESSIVE_LOAD and H3_REQUEST_REJECTED (RFC 9114 §8.1).
const NO_ERROR: u64 = 0x100;
const EXCESSIVE_LOAD: u64 = 0x107;
const REJECTED: u64 = 0x10b;
const SECOND: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(20);

fn closed_with(client: &Client) -> Option<u64> {
    let error = client.quic.peer_error()?;
    assert!(error.is_app);
    Some(error.error_code)
}

#[test]
fn requests_beyond_the_number_of_a_connection_are_served_for_a_while_and_then_rejected() {
    let mut settings = plain_settings(0, 1);
    settings.limits.requests_per_connection = 3;
    settings.limits.client_timeout = Duration::ZERO;
    settings.shared.site = Site::of_routes(BYTES, &settings.limits);
    let mut bench = Bench::new(settings);
    let client = bench.connect("192.0.2.1:5000");
    let (mut client, mut h3) = bench.with_session(client);
    // It takes nothing of a response that is larger than its window, so the connection stays.
    client.request(&mut h3, "GET", "/bytes/10000000");
    for _ in 1..5 {
        client.request(&mut h3, "GET", "/bytes/1");
    }
    bench.talk(&mut client, 3 * STEP, STEP);
    assert_eq!(bench.endpoint.counters.expired[ExpiryReason::Requests], 1);
    let requests = &bench.endpoint.shared().counters;
    assert_eq!((requests.requests, requests.gate.rejected), (5, 0));
    assert_eq!(requests.responses.class(2), 5);
    bench.talk(&mut client, 10 * SECOND, STEP);
    // quiche's client keeps to GOAWAY once it was read, and so it is left unread.
    client.request(&mut h3, "GET", "/bytes/1");
    bench.talk(&mut client, 3 * STEP, STEP);
    assert_eq!(bench.endpoint.shared().counters.gate.rejected, 1);
    let mut resets = Vec::new();
    let mut goaways = 0;
    while let Ok((stream, event)) = h3.poll(&mut client.quic) {
        match event {
            Event::Reset(code) => resets.push((stream, code)),
            Event::GoAway => goaways += 1,
            _ => {}
        }
    }
    assert_eq!((resets, goaways > 0), (vec![(20, REJECTED)], true));
}

#[test]
fn old_connection_lives_on_for_its_tunnel_and_ends_after_it() {
    let lifetime = 5 * SECOND;
    let mut settings = with_routes(PROXY);
    settings.limits.connection_lifetime = lifetime;
    settings.limits.connection_drain_timeout = 10 * SECOND;
    settings.limits.client_timeout = Duration::ZERO;
    settings.shared.site = Site::of_routes(PROXY, &settings.limits);
    let mut bench = Bench::new(settings);
    let (origin_ring, mut worker_ring) = rings(64, Accounts::new(1 << 20, u64::MAX));
    bench.endpoint.shared_mut().origin_ring = Some(origin_ring);
    let client = bench.connect("192.0.2.1:5000");
    let (mut client, mut h3) = bench.with_session(client);
    let head = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", "/app/x"),
    ];
    let head = head.map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes()));
    let stream = h3.send_request(&mut client.quic, &head, false).unwrap();
    client.speak(&mut bench.endpoint, bench.now);
    bench.said();
    let Some(Envelope { exchange, message: ToHandler::Open { .. } }) = worker_ring.take() else {
        panic!("no request");
    };
    let mut give = |bench: &mut Bench<Http3Session>, message| {
        worker_ring.give(Envelope { exchange, message }).unwrap();
        bench.endpoint.on_messages(1000, bench.now);
    };
    let head = Head { status: 200, fields: Vec::new(), length: None, end: false };
    give(&mut bench, ToFront::Head(head));
    bench.talk(&mut client, 60 * SECOND, STEP);
    assert_eq!(bench.endpoint.counters.expired[ExpiryReason::Lifetime], 1);
    assert_eq!(closed_with(&client), None);
    h3.send_body(&mut client.quic, stream, b"", true).unwrap();
    client.speak(&mut bench.endpoint, bench.now);
    bench.said();
    give(&mut bench, ToFront::Data(Bytes::from_static(b"bye")));
    give(&mut bench, ToFront::End(None));
    give(&mut bench, ToFront::Closed);
    let end = bench.now;
    bench.talk(&mut client, 60 * SECOND, STEP);
    assert_eq!(closed_with(&client), Some(NO_ERROR));
    assert!(bench.now < end + 5 * SECOND);
}

/// Each handler has been promised room for the first bytes of its response.
#[test]
fn connection_whose_requests_hold_most_gives_way_first_while_memory_is_short() {
    const LIMIT: u64 = 1 << 40;
    let mut settings = with_routes(PROXY);
    let (origin_ring, _worker_ring) = rings(1024, Accounts::new(128 << 10, 1 << 30));
    settings.shared.origin_ring = Some(origin_ring);
    settings.shared.memory = Arc::new(MemoryBudget::new(LIMIT));
    let mut bench = Bench::new(settings);
    let mut clients = [0, 10, 40].map(|requests| {
        let client = bench.connect(&format!("192.0.2.1:{}", 6000 + requests));
        let (mut client, mut h3) = bench.with_session(client);
        for _ in 0..requests {
            client.request(&mut h3, "GET", "/app/x");
        }
        client.speak(&mut bench.endpoint, bench.now);
        bench.said();
        client
    });
    for port in 0..24 {
        bench.connect(&format!("192.0.2.2:{}", 6000 + port));
    }
    assert_eq!(bench.endpoint.shared().origin_depth().promised, 50 * (64 << 10));
    let memory = Arc::clone(&bench.endpoint.shared().memory);
    memory.measured(0);
    memory.measured(LIMIT);
    memory.on_closed(memory.to_free() - (1 << 20));
    let said = bench.said();
    clients.iter_mut().for_each(|client| client.hear(said.clone()));
    let closed = clients.each_ref().map(closed_with);
    assert_eq!(closed, [None, None, Some(EXCESSIVE_LOAD)], "the one that holds most");
    assert_eq!(bench.endpoint.counters.relieved, 1);
    bench.endpoint.check();
}
