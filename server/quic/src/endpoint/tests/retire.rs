//! Listeners that a reload removes. Time is the test's own.

use super::super::super::counters::ExpiryReason;
use super::super::super::expiry::GRACE;
use super::super::super::settings::Lease;
use super::draining::{LENGTH, STEP, begin, bench_with, body, step, until_closed};
use super::*;
use crate::testing::{Bench, Client};

/// Time that requests get to finish.
const LIMIT: Duration = Duration::from_secs(20);

/// Removes the only listener. Returns what says whether the endpoint needs its sockets.
fn remove(bench: &mut Bench) -> Lease {
    let named = bench.endpoint.listener(ListenerId(0)).unwrap();
    assert_eq!(named, ("main", ([127, 0, 0, 1], 4433).into()));
    let before = std::mem::take(&mut bench.endpoint.settings.listeners);
    let lease = before[&ListenerId(0)].lease.clone();
    bench.endpoint.retire_listeners(before, LIMIT);
    lease
}

fn retired(bench: &Bench) -> u64 {
    bench.endpoint.counters.expired[ExpiryReason::Listener]
}

#[test]
fn connections_of_a_removed_listener_finish_their_requests_and_free_its_sockets() {
    let mut bench = bench_with(|_| ());
    let mut busy = bench.connect("192.0.2.1:5000");
    let _idle = bench.connect("192.0.2.2:5000");
    let mut h3 = begin(&mut busy, LENGTH);
    busy.speak(&mut bench.endpoint, bench.now);
    let lease = remove(&mut bench);
    until_closed(&mut bench, &mut busy);
    assert_eq!(body(&mut busy, &mut h3), (LENGTH, true));
    assert_eq!(retired(&bench), 2);
    assert!(!lease.is_last(), "a connection is closing");
    bench.pass(Duration::from_secs(5));
    assert!(lease.is_last());
    assert_eq!(bench.endpoint.len(), 0);
    bench.endpoint.check();
}

#[test]
fn a_removed_listener_refuses_connections_and_waits_no_longer_than_its_limit() {
    let mut bench = bench_with(|limits| limits.client_timeout = Duration::ZERO);
    let mut client = bench.connect("192.0.2.1:5000");
    // It takes nothing of a response that is larger than its window.
    let _h3 = begin(&mut client, 10_000_000);
    client.speak(&mut bench.endpoint, bench.now);
    let lease = remove(&mut bench);
    let mut other = Client::new("192.0.2.2:5000");
    other.speak(&mut bench.endpoint, bench.now);
    other.hear(bench.said());
    assert!(other.quic.peer_error().is_some());
    let end = bench.now + LIMIT + GRACE;
    while bench.now + 2 * STEP < end {
        step(&mut bench, &mut client);
        assert_eq!(client.quic.peer_error(), None);
    }
    bench.pass(Duration::from_secs(5));
    assert!(lease.is_last());
}

#[test]
fn a_handshake_that_ends_after_its_listener_was_removed_drains_at_once() {
    let mut bench = bench_with(|_| ());
    let mut client = Client::new("192.0.2.1:5000");
    client.speak(&mut bench.endpoint, bench.now);
    let said = bench.said();
    let lease = remove(&mut bench);
    bench.said();
    assert!(!lease.is_last());
    client.hear(said);
    let mut client = bench.connect_client(client);
    until_closed(&mut bench, &mut client);
    assert_eq!(retired(&bench), 1);
    bench.pass(Duration::from_secs(5));
    assert!(lease.is_last());
}

#[test]
fn a_listener_without_connections_is_free_at_once_and_may_come_back() {
    let mut bench = bench_with(|_| ());
    assert!(remove(&mut bench).is_last());
    let mut bench = bench_with(|_| ());
    let _client = bench.connect("192.0.2.1:5000");
    let before = std::mem::take(&mut bench.endpoint.settings.listeners);
    let again = Settings::plain(0, 1).listeners;
    bench.endpoint.retire_listeners(before, LIMIT);
    bench.endpoint.settings.listeners = again;
    bench.endpoint.retire_listeners(Default::default(), LIMIT);
    bench.connect("192.0.2.2:5000");
    assert_eq!(retired(&bench), 0);
}
