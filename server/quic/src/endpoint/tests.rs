use std::net::SocketAddr;

use sluicegate_dataplane::memory::SentDatagrams;
use sluicegate_dataplane::{Budget, ListenerId};

use super::super::cid::CidSchemes;
use super::super::reset::min_trigger;
use super::stateless::MAX_STATELESS;
use sluicegate_config::Quic;

use super::*;
use crate::testing::{PageSession, UNIX, meta_of};

/// Length of the shortest packet that is reset.
const MIN_TRIGGER: usize = min_trigger(16);

fn meta() -> RxMeta {
    meta_of("192.0.2.1:5000")
}

/// Makes a connection ID.
fn generate(worker: u8, generation: u8) -> ConnectionId {
    CidSchemes::plain().scheme().generate(worker, generation, &mut Entropy::new())
}

fn dropped(endpoint: &Endpoint<PageSession>, reason: DropReason) -> u64 {
    endpoint.counters.dropped[reason]
}

/// Returns a short header of no connection, that many bytes.
fn short(length: usize) -> Vec<u8> {
    let mut packet = vec![0x40; length];
    // Not of the layout that names a worker.
    packet[2] = 0;
    packet
}

/// Returns a long header of a version in the reserved form, with connection IDs of 8 and 0 bytes.
fn unknown_version() -> Vec<u8> {
    let mut packet = vec![0; 1200];
    packet[..6].copy_from_slice(&[0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8]);
    packet
}

#[test]
fn stateless_packets_without_room_are_counted_as_dropped_and_not_as_sent() {
    let now = sluicegate_base::clock::now();
    let mut endpoint = Endpoint::new(Settings::plain(0, 1), now);
    let mut packet = unknown_version();
    for _ in 0..MAX_STATELESS + 7 {
        assert_eq!(endpoint.ingest(&meta(), &mut packet, now, UNIX), Ingest::Done);
    }
    assert_eq!(endpoint.counters.negotiations, MAX_STATELESS as u64);
    assert_eq!(dropped(&endpoint, DropReason::StatelessFull), 7);
    let mut out = SentDatagrams::new(Budget::UNLIMITED);
    assert!(!endpoint.emit(&mut out, MAX_STATELESS, now));
    assert_eq!(out.datagrams.len(), MAX_STATELESS);
}

#[test]
fn stateless_packets_beyond_the_turns_budget_ask_for_another_turn() {
    let now = sluicegate_base::clock::now();
    let mut endpoint = Endpoint::new(Settings::plain(0, 1), now);
    for _ in 0..3 {
        endpoint.ingest(&meta(), &mut unknown_version(), now, UNIX);
    }
    let mut out = SentDatagrams::new(Budget::of_datagrams(2));
    assert!(endpoint.emit(&mut out, MAX_STATELESS, now));
    assert_eq!(out.datagrams.len(), 2);
    let mut out = SentDatagrams::new(Budget::UNLIMITED);
    assert!(!endpoint.emit(&mut out, MAX_STATELESS, now));
    assert_eq!(out.datagrams.len(), 1);
}

#[test]
fn resets_beyond_the_limit_are_counted_and_short_triggers_cost_none() {
    let now = sluicegate_base::clock::now();
    let mut settings = Settings::plain(0, 1);
    settings.quic.stateless_reset_per_second = 2;
    let mut endpoint = Endpoint::new(settings, now);
    for _ in 0..5 {
        endpoint.ingest(&meta(), &mut short(MIN_TRIGGER - 1), now, UNIX);
    }
    assert_eq!(dropped(&endpoint, DropReason::ResetLimit), 0);
    for _ in 0..5 {
        endpoint.ingest(&meta(), &mut short(MIN_TRIGGER), now, UNIX);
    }
    assert_eq!(endpoint.counters.resets, 2);
    assert_eq!(dropped(&endpoint, DropReason::ResetLimit), 3);
    assert_eq!(dropped(&endpoint, DropReason::UnknownConnection), 10);
}

#[test]
fn a_reload_changes_the_limit_of_resets() {
    let now = sluicegate_base::clock::now();
    let mut settings = Settings::plain(0, 1);
    settings.quic.stateless_reset_per_second = 2;
    let other = EndpointConfig {
        listeners: HashMap::new(),
        limits: settings.limits.clone(),
        quic: Quic { stateless_reset_per_second: 3, ..settings.quic.clone() },
        secrets: Arc::clone(&settings.secrets),
        tracing: None,
        drain_timeout: Duration::ZERO,
    };
    let mut endpoint = Endpoint::new(settings, now);
    let resets = |endpoint: &mut Endpoint<PageSession>| {
        for _ in 0..5 {
            endpoint.ingest(&meta(), &mut short(MIN_TRIGGER), now, UNIX);
        }
        endpoint.counters.resets
    };
    assert_eq!(resets(&mut endpoint), 2);
    endpoint.adopt(other);
    assert_eq!(resets(&mut endpoint), 3);
}

#[test]
fn a_datagram_that_ends_its_connection_is_counted() {
    let now = sluicegate_base::clock::now();
    quiche::clock::set(Some(now));
    let mut endpoint = Endpoint::new(Settings::plain(0, 1), now);
    let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
    // No protocol in common.
    config.set_application_protos(&[b"none"]).unwrap();
    config.verify_peer(false);
    let meta = meta();
    let id = quiche::ConnectionId::from_ref(&[7; 16]);
    let mut client = quiche::connect(None, &id, meta.peer, meta.local, &mut config).unwrap();
    let mut buffer = vec![0; 1500];
    while let Ok((length, _)) = client.send(&mut buffer) {
        endpoint.ingest(&meta, &mut buffer[..length], now, UNIX);
    }
    quiche::clock::set(None);
    assert_eq!(endpoint.counters.accepted, 1);
    assert_eq!(dropped(&endpoint, DropReason::ProtocolError), 1);
}

mod admission;
mod bounds;
mod cid_schemes;
mod draining;
mod ended;
mod expiry;
mod half_open;
mod idle;
mod initials;
mod path_mtu;
mod peer;
mod prefetch;
mod refusals;
mod relief;
mod retire;
mod service;
mod signatures;
mod tunnels;
mod waits;

#[test]
fn a_datagram_of_another_process_generation_is_not_reset_by_the_endpoint() {
    let now = sluicegate_base::clock::now();
    let settings = Settings::plain(0, 1);
    let other =
        settings.secrets.generation().wrapping_add(1) % sluicegate_base::secrets::GENERATIONS;
    let mut endpoint = Endpoint::new(settings, now);
    let mut packet = vec![0x40; 100];
    packet[1..17].copy_from_slice(generate(0, other).as_bytes());
    let foreign = endpoint.ingest(&meta(), &mut packet, now, UNIX);
    assert_eq!(foreign, Ingest::Foreign(other));
    assert_eq!(endpoint.counters.resets, 0);
    endpoint.reset_foreign(&meta(), &packet, now);
    assert_eq!(endpoint.counters.resets, 1);
    assert_eq!(dropped(&endpoint, DropReason::UnknownConnection), 1);
}
