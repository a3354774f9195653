//! Bounds on what clients may hold of an endpoint, and for how long. Time is the test's own.

use super::super::super::counters::{HandshakeFailure, RefusalReason};
use super::*;
use crate::testing::{Bench, Client, settings};

#[test]
fn a_client_has_no_more_connections_than_its_share() {
    let mut bench = Bench::new(settings(|s| {
        s.limits.connections_per_client = 2;
        s.quic.retry_above = None;
    }));
    let open = |bench: &mut Bench, address: &str| {
        let before = bench.endpoint.counters.clone();
        let sent = Client::new(address).speak(&mut bench.endpoint, bench.now);
        let after = &bench.endpoint.counters;
        let accepted = after.accepted > before.accepted;
        let refused = after.refused[RefusalReason::Client] - before.refused[RefusalReason::Client];
        assert_eq!(refused, if accepted { 0 } else { sent.len() as u64 });
        accepted
    };
    assert!(open(&mut bench, "192.0.2.1:5000"));
    assert!(open(&mut bench, "192.0.2.1:5001"));
    assert!(!open(&mut bench, "192.0.2.1:5002"));
    assert!(open(&mut bench, "192.0.2.3:5000"));
    // One customer's network, and the next one's.
    assert!(open(&mut bench, "[2001:db8:0:100::1]:5000"));
    assert!(open(&mut bench, "[2001:db8:0:1ff::1]:5000"));
    assert!(!open(&mut bench, "[2001:db8:0:155::1]:5000"));
    assert!(open(&mut bench, "[2001:db8:0:200::1]:5000"));
    assert_eq!(bench.endpoint.counters.refused[RefusalReason::Worker], 0);
    assert_eq!((bench.endpoint.len(), bench.endpoint.holders.len()), (6, 4));
    // None of them goes on: all are forgotten, and their clients with them.
    bench.pass(Duration::from_secs(60));
    assert_eq!((bench.endpoint.len(), bench.endpoint.holders.len()), (0, 0));
    bench.endpoint.check();
    assert!(open(&mut bench, "192.0.2.1:5002"));
}

#[test]
fn proxies_that_a_listener_trusts_have_no_share() {
    let mut bench = Bench::new(settings(|s| {
        s.limits.connections_per_client = 1;
        let listener = s.listeners.get_mut(&ListenerId(0)).unwrap();
        listener.application = vec!["192.0.2.1".parse().unwrap()];
    }));
    for address in ["192.0.2.1:5000", "192.0.2.1:5001", "192.0.2.1:5002"] {
        bench.connect(address);
    }
    bench.connect("192.0.2.2:5000");
    let refused = Client::new("192.0.2.2:5001").speak(&mut bench.endpoint, bench.now);
    let refused = refused.len() as u64;
    let counters = &bench.endpoint.counters;
    assert_eq!(counters.refused[RefusalReason::Client], refused);
    assert_eq!(bench.endpoint.len(), 4);
}

#[test]
fn a_client_that_closes_a_connection_may_open_another() {
    let mut bench = Bench::new(settings(|s| s.limits.connections_per_client = 1));
    let mut client = bench.connect("192.0.2.1:5000");
    let refused = Client::new("192.0.2.1:5001").speak(&mut bench.endpoint, bench.now);
    let refused = refused.len() as u64;
    assert_eq!(bench.endpoint.counters.refused[RefusalReason::Client], refused);
    client.quic.close(true, 0x100, b"").unwrap();
    client.speak(&mut bench.endpoint, bench.now);
    bench.pass(Duration::from_secs(10));
    bench.connect("192.0.2.1:5001");
    assert_eq!(bench.endpoint.counters.refused[RefusalReason::Client], refused);
}

#[test]
fn a_handshake_that_takes_too_long_is_closed_with_a_word() {
    // A client that has proved its address: the server may speak to it for as long as it likes.
    let mut bench = Bench::new(settings(|s| s.quic.retry_above = Some(0)));
    let limit = bench.endpoint.settings.limits.handshake_timeout;
    let mut client = Client::new("192.0.2.1:5000");
    client.speak(&mut bench.endpoint, bench.now);
    let retry = bench.said();
    client.hear(retry);
    client.speak(&mut bench.endpoint, bench.now);
    let mut unheard = bench.pass(limit - Duration::from_millis(1));
    assert_eq!(bench.endpoint.counters.handshake_timeouts, 0);
    assert_eq!((bench.endpoint.len(), bench.endpoint.half_open.len()), (1, 1));
    unheard.extend(bench.pass(Duration::from_millis(1)));
    assert_eq!(bench.endpoint.counters.handshake_timeouts, 1);
    client.hear(unheard);
    let error = client.quic.peer_error().unwrap();
    assert_eq!((error.is_app, error.error_code), (false, 0x2));
    bench.pass(bench.endpoint.settings.quic.idle_timeout);
    assert_eq!((bench.endpoint.len(), bench.endpoint.half_open.len()), (0, 0));
    let counters = &bench.endpoint.counters;
    assert_eq!(counters.handshake_timeouts, 1);
    assert_eq!(counters.unfinished[HandshakeFailure::Timeout], 1);
}

#[test]
fn who_never_proved_an_address_is_sent_three_times_what_came_from_there() {
    let mut bench = Bench::new(settings(|s| {
        s.limits.handshake_timeout = Duration::from_secs(300);
    }));
    let sent = Client::new("192.0.2.1:5000").speak(&mut bench.endpoint, bench.now);
    let said = bench.pass(Duration::from_secs(300));
    let heard: usize = sent.iter().sum();
    let said: usize = said.iter().map(Vec::len).sum();
    // Padding and repetitions count (RFC 9000 §8.1).
    assert!(said > heard && said <= 3 * heard, "{said} for {heard}");
}

#[test]
fn who_never_proved_an_address_is_forgotten_when_the_time_is_up() {
    // Long enough for the server to say all that it may say to such a client (RFC 9000 §8.1), by trying again: no word of
    // the end can leave.
    let limit = Duration::from_secs(25);
    let mut bench = Bench::new(settings(|s| s.limits.handshake_timeout = limit));
    Client::new("192.0.2.1:5000").speak(&mut bench.endpoint, bench.now);
    bench.pass(limit - Duration::from_millis(1));
    assert_eq!(bench.endpoint.len(), 1);
    let last_words = bench.pass(Duration::from_millis(1));
    assert!(last_words.is_empty());
    assert_eq!((bench.endpoint.len(), bench.endpoint.half_open.len()), (0, 0));
    assert_eq!(bench.endpoint.counters.handshake_timeouts, 1);
    assert_eq!(bench.endpoint.connections.ids(), 0);
}

#[test]
fn a_handshake_that_is_done_in_time_is_left_alone() {
    let mut bench = Bench::new(Settings::plain(0, 1));
    let limit = bench.endpoint.settings.limits.handshake_timeout;
    assert!(limit < bench.endpoint.settings.quic.idle_timeout);
    let client = bench.connect("192.0.2.1:5000");
    bench.pass(limit + Duration::from_secs(1));
    assert_eq!((bench.endpoint.len(), bench.endpoint.half_open.len()), (1, 0));
    assert_eq!(bench.endpoint.counters.handshake_timeouts, 0);
    assert!(client.quic.peer_error().is_none());
    let counters = &bench.endpoint.counters;
    assert_eq!(counters.accepted, 1);
    assert_eq!(counters.by_algorithm.values().sum::<u64>(), 1);
}
