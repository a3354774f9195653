//! Figures of connections that have ended, and reasons of failed handshakes. Time is the test's own.

use sluicegate_base::observe::account::Wait;

use super::super::super::counters::HandshakeFailure;
use super::*;
use crate::ended_connections::EndedConnections;
use crate::testing::{Bench, Client, settings};

const STEP: Duration = Duration::from_millis(100);

/// Returns the figures of the only listener and algorithm.
fn ended(bench: &Bench) -> &EndedConnections {
    let mut all = bench.endpoint.counters.ended.iter();
    let (class, figures) = all.next().unwrap();
    assert_eq!((&*class.listener, class.algorithm), ("main", "cubic"));
    assert!(all.next().is_none());
    figures
}

#[test]
fn connection_counts_once_when_it_has_ended_until_its_listener_is_removed() {
    let mut bench = Bench::new(Settings::plain(0, 1));
    let client = bench.connect("192.0.2.1:5000");
    let (mut client, mut h3) = bench.with_session(client);
    client.request(&mut h3, "GET", "/bytes/50000");
    bench.talk(&mut client, Duration::from_secs(10), STEP);
    assert!(bench.endpoint.counters.ended.is_empty(), "it runs");
    client.quic.close(true, 0x100, b"").unwrap();
    client.speak(&mut bench.endpoint, bench.now);
    bench.pass(Duration::from_secs(10));
    assert_eq!(bench.endpoint.len(), 0);
    let figures = ended(&bench);
    let counts = [
        figures.rtt.count(),
        figures.lost.count(),
        figures.retransmitted.count(),
        figures.probe_timeouts.count(),
        figures.delivery_rate.count(),
    ];
    assert_eq!(counts, [1; 5]);
    assert!(figures.delivery_rate.sum() > 1000.0, "{figures:?}");
    assert_eq!(figures.lost.sum(), 0.0);
    let waits: Duration = figures.waits.times().map(|(_, time)| time).sum();
    let client = figures.waits.times().find(|(wait, _)| *wait == Wait::Client).unwrap().1;
    assert!(waits <= bench.now - bench.start && client > Duration::from_secs(9), "{waits:?}");
    let before = std::mem::take(&mut bench.endpoint.settings.listeners);
    bench.endpoint.retire_listeners(before, Duration::ZERO);
    bench.pass(STEP);
    assert!(bench.endpoint.counters.ended.is_empty());
}

#[test]
fn what_a_client_did_not_receive_is_lost_and_sent_again() {
    let mut bench = Bench::new(Settings::plain(0, 1));
    let client = bench.connect("192.0.2.1:5000");
    let (mut client, mut h3) = bench.with_session(client);
    client.request(&mut h3, "GET", "/bytes/50000");
    client.speak(&mut bench.endpoint, bench.now);
    let mut said = bench.said();
    drop(said.remove(0));
    client.hear(said);
    client.speak(&mut bench.endpoint, bench.now);
    bench.pass(Duration::from_secs(120));
    let figures = ended(&bench);
    assert!(figures.lost.sum() > 0.0, "{figures:?}");
    assert!(figures.retransmitted.sum() > 0.0, "{figures:?}");
    assert!(figures.probe_timeouts.sum() >= 3.0, "{figures:?}");
}

#[test]
fn handshake_fails_for_the_reason_that_the_client_gives() {
    for (is_app, code, expected) in [
        // TLS alert bad_certificate.
        (false, 0x12a, HandshakeFailure::ClientTls),
        (true, 0x100, HandshakeFailure::ClientClosed),
    ] {
        let mut bench = Bench::new(Settings::plain(0, 1));
        let mut client = Client::new("192.0.2.1:5000");
        client.speak(&mut bench.endpoint, bench.now);
        // Not the end of the server's flight, which would complete the handshake.
        let mut said = bench.said();
        said.truncate(1);
        client.hear(said);
        client.quic.close(is_app, code, b"").unwrap();
        client.speak(&mut bench.endpoint, bench.now);
        bench.pass(Duration::from_secs(30));
        let counters = &bench.endpoint.counters;
        assert_eq!(counters.unfinished[expected], 1, "{counters:?}");
        assert!(counters.ended.is_empty());
    }
}

#[test]
fn handshake_that_gives_way_is_displaced() {
    let mut bench = Bench::new(settings(|s| {
        s.limits.connections_per_worker = 1;
        s.quic.retry_above = None;
    }));
    for address in ["192.0.2.1:5000", "192.0.2.2:5000"] {
        Client::new(address).speak(&mut bench.endpoint, bench.now);
        bench.pass(Duration::from_secs(3));
    }
    let counters = &bench.endpoint.counters;
    assert_eq!(counters.displaced, counters.unfinished[HandshakeFailure::Displaced]);
    assert_eq!(counters.displaced, 1, "{counters:?}");
}
