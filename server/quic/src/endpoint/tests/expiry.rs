//! Connections that end because they are old or have had their requests. Time is the test's own.

use super::super::super::counters::ExpiryReason;
use super::super::super::expiry::GRACE;
use super::draining::{LENGTH, REJECTED, STEP, begin, bench_with, body, head, step, until_closed};
use super::*;
use crate::testing::{Bench, Client};

/// H3_NO_ERROR (RFC 9114 §8.1).
const NO_ERROR: u64 = 0x100;

fn expired(bench: &Bench, reason: ExpiryReason) -> u64 {
    bench.endpoint.counters.expired[reason]
}

/// Lets client and server talk for a while.
fn talk(bench: &mut Bench, client: &mut Client, time: Duration) {
    let end = bench.now + time;
    while bench.now < end {
        step(bench, client);
    }
}

/// Returns the streams that the server reset, with the codes.
fn resets(client: &mut Client, h3: &mut quiche::h3::Connection) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    while let Ok((stream, event)) = h3.poll(&mut client.quic) {
        if let quiche::h3::Event::Reset(code) = event {
            all.push((stream, code));
        }
    }
    all
}

fn closed_by_the_server(client: &Client) -> Option<u64> {
    let error = client.quic.peer_error()?;
    assert!(error.is_app);
    Some(error.error_code)
}

/// Lets time pass at the server alone until a connection expires. Returns what the server said.
fn until_expired(bench: &mut Bench, reason: ExpiryReason) -> Vec<Vec<u8>> {
    let mut said = bench.said();
    while expired(bench, reason) == 0 {
        assert!(said.len() < 1000, "never expires");
        said.extend(bench.pass(STEP));
    }
    said
}

#[test]
fn an_old_connection_serves_what_crosses_goaway_and_is_closed() {
    const LONG: usize = 60_000;
    let lifetime = Duration::from_secs(5);
    let mut bench = bench_with(|limits| limits.connection_lifetime = lifetime);
    let mut client = bench.connect("192.0.2.1:5000");
    talk(&mut bench, &mut client, lifetime * 9 / 10 - STEP);
    assert_eq!(expired(&bench, ExpiryReason::Lifetime), 0);
    let mut h3 = begin(&mut client, LONG);
    client.speak(&mut bench.endpoint, bench.now);
    // The lifetime ends while the response is on its way.
    let said = until_expired(&mut bench, ExpiryReason::Lifetime);
    // This one crosses the server's GOAWAY.
    h3.send_request(&mut client.quic, &head(LENGTH), true).unwrap();
    client.speak(&mut bench.endpoint, bench.now);
    client.hear(said);
    until_closed(&mut bench, &mut client);
    assert_eq!(closed_by_the_server(&client), Some(NO_ERROR));
    assert_eq!(body(&mut client, &mut h3), (LONG + LENGTH, true));
    let requests = &bench.endpoint.shared().counters;
    assert_eq!((requests.requests, requests.rejected), (2, 0));
    bench.pass(Duration::from_secs(5));
    assert_eq!(bench.endpoint.len(), 0);
    bench.endpoint.check();
}

#[test]
fn an_old_connection_rejects_what_its_client_sends_long_after_goaway() {
    let lifetime = Duration::from_secs(5);
    let mut bench = bench_with(|limits| {
        limits.connection_lifetime = lifetime;
        limits.client_timeout = Duration::ZERO;
    });
    let mut client = bench.connect("192.0.2.1:5000");
    // It takes nothing of a response that is larger than its window, so the connection stays.
    let mut h3 = begin(&mut client, 10_000_000);
    talk(&mut bench, &mut client, lifetime + GRACE + STEP);
    assert_eq!(expired(&bench, ExpiryReason::Lifetime), 1);
    h3.send_request(&mut client.quic, &head(LENGTH), true).unwrap();
    step(&mut bench, &mut client);
    assert_eq!(resets(&mut client, &mut h3), [(4, REJECTED)]);
    assert_eq!(bench.endpoint.shared().counters.rejected, 1);
}

#[test]
fn connections_that_began_together_expire_at_different_times() {
    let lifetime = Duration::from_secs(10);
    let mut bench = bench_with(|limits| limits.connection_lifetime = lifetime);
    for port in 0..8 {
        bench.connect(&format!("192.0.2.1:{}", 5000 + port));
    }
    bench.pass(lifetime * 9 / 10 - STEP);
    assert_eq!(expired(&bench, ExpiryReason::Lifetime), 0);
    let mut most_at_once = 0;
    for _ in 0..52 {
        let before = expired(&bench, ExpiryReason::Lifetime);
        bench.pass(STEP);
        most_at_once = most_at_once.max(expired(&bench, ExpiryReason::Lifetime) - before);
    }
    assert_eq!(expired(&bench, ExpiryReason::Lifetime), 8);
    assert!(most_at_once < 8);
}

#[test]
fn a_draining_connection_has_no_lifetime() {
    let lifetime = Duration::from_secs(5);
    let mut bench = bench_with(|limits| {
        limits.connection_lifetime = lifetime;
        limits.client_timeout = Duration::ZERO;
    });
    let mut client = bench.connect("192.0.2.1:5000");
    let _h3 = begin(&mut client, 10_000_000);
    step(&mut bench, &mut client);
    bench.endpoint.drain(bench.now);
    talk(&mut bench, &mut client, lifetime + STEP);
    assert_eq!(bench.endpoint.len(), 1);
    assert!(bench.endpoint.next_deadline().is_none_or(|at| at > bench.now));
}

#[test]
fn an_old_connection_without_requests_is_closed_whatever_keeps_it_alive() {
    let lifetime = Duration::from_secs(60);
    let mut bench = bench_with(|limits| limits.connection_lifetime = lifetime);
    let mut client = bench.connect("192.0.2.1:5000");
    let mut lived = Duration::ZERO;
    while client.quic.peer_error().is_none() {
        assert!(lived < 2 * lifetime, "never closed");
        // A PING for each second.
        client.quic.send_ack_eliciting().unwrap();
        talk(&mut bench, &mut client, Duration::from_secs(1));
        lived += Duration::from_secs(1);
    }
    assert_eq!(closed_by_the_server(&client), Some(NO_ERROR));
    assert!(lived >= lifetime * 9 / 10 + GRACE, "{lived:?}");
    assert!(lived < lifetime + Duration::from_secs(5), "{lived:?}");
}

#[test]
fn requests_beyond_the_number_of_a_connection_are_served_for_a_while_and_then_rejected() {
    let mut bench = bench_with(|limits| {
        limits.requests_per_connection = 3;
        limits.client_timeout = Duration::ZERO;
    });
    let mut client = bench.connect("192.0.2.1:5000");
    // It takes nothing of a response that is larger than its window, so the connection stays.
    let mut h3 = begin(&mut client, 10_000_000);
    for _ in 1..5 {
        h3.send_request(&mut client.quic, &head(0), true).unwrap();
    }
    step(&mut bench, &mut client);
    assert_eq!(expired(&bench, ExpiryReason::Requests), 1);
    talk(&mut bench, &mut client, GRACE);
    let requests = &bench.endpoint.shared().counters;
    assert_eq!((requests.requests, requests.rejected), (5, 0));
    assert_eq!(requests.served, 4);
    for _ in 0..2 {
        h3.send_request(&mut client.quic, &head(0), true).unwrap();
    }
    step(&mut bench, &mut client);
    assert_eq!(resets(&mut client, &mut h3), [(20, REJECTED), (24, REJECTED)]);
    let requests = &bench.endpoint.shared().counters;
    assert_eq!((requests.requests, requests.rejected), (7, 2));
    // Another connection has its own number.
    bench.connect("192.0.2.1:5001");
    assert_eq!(expired(&bench, ExpiryReason::Requests), 1);
}

#[test]
fn a_connection_that_has_had_its_requests_is_closed() {
    let mut bench = bench_with(|limits| limits.requests_per_connection = 1);
    let mut client = bench.connect("192.0.2.1:5000");
    let mut h3 = begin(&mut client, 100);
    until_closed(&mut bench, &mut client);
    assert_eq!(expired(&bench, ExpiryReason::Requests), 1);
    assert_eq!(closed_by_the_server(&client), Some(NO_ERROR));
    assert_eq!(body(&mut client, &mut h3), (100, true));
}

/// It takes nothing of a response that is far larger than its window.
#[test]
fn requests_of_an_old_connection_end_with_the_drain() {
    let (lifetime, drain) = (Duration::from_secs(5), Duration::from_secs(20));
    let mut bench = bench_with(|limits| {
        limits.connection_lifetime = lifetime;
        limits.connection_drain_timeout = drain;
        limits.client_timeout = Duration::ZERO;
    });
    let mut client = bench.connect("192.0.2.1:5000");
    let mut h3 = begin(&mut client, 10_000_000);
    let start = bench.now;
    until_closed(&mut bench, &mut client);
    assert_eq!(closed_by_the_server(&client), Some(NO_ERROR));
    assert!(bench.now >= start + lifetime * 9 / 10 + GRACE + drain);
    assert!(bench.now < start + lifetime + GRACE + drain + Duration::from_secs(1));
    assert!(!body(&mut client, &mut h3).1, "its window is smaller");
}

#[test]
fn without_limits_nothing_expires() {
    let mut bench = bench_with(|limits| {
        limits.connection_lifetime = Duration::ZERO;
        limits.requests_per_connection = 0;
    });
    let mut client = bench.connect("192.0.2.1:5000");
    let mut h3 = begin(&mut client, 100);
    for _ in 0..20 {
        h3.send_request(&mut client.quic, &head(100), true).unwrap();
        talk(&mut bench, &mut client, Duration::from_secs(10));
    }
    assert!(client.quic.peer_error().is_none());
    assert_eq!(bench.endpoint.counters.expired, Default::default());
}

#[test]
fn a_shutdown_counts_no_connection_as_expired() {
    let mut bench = bench_with(|limits| limits.requests_per_connection = 1);
    let mut client = bench.connect("192.0.2.1:5000");
    bench.endpoint.drain(bench.now);
    until_closed(&mut bench, &mut client);
    assert_eq!(bench.endpoint.counters.expired, Default::default());
}
