//! Capacities that connections save for later ones (RFC 9959 §3.1).

use sluicegate_cc::{Algorithm, State};

use crate::test_support::memory::Memory;
use crate::test_support::wire::Wire;
use crate::test_support::{MTU, loss_based, ms};

/// Round trip of the path.
const RTT: u64 = 100;
/// Datagrams of the initial window.
const IW: usize = 10;

/// Returns what a connection leaves after it has filled its window for eight round trips, if it does.
fn left_by(algorithm: &Algorithm, fills: bool) -> Option<u64> {
    let memory = Memory::default();
    let mut wire = Wire::new(memory.resume(algorithm), ms(RTT));
    for _ in 0..8 {
        if fills {
            wire.round();
        } else {
            wire.send(IW);
            wire.app_limited();
            wire.wait(wire.rtt);
            wire.ack(IW);
        }
    }
    drop(wire);
    let saved = memory.contents().saved;
    saved.map(|capacity| {
        assert_eq!(capacity.min_rtt, ms(RTT));
        capacity.cwnd / MTU
    })
}

#[test]
fn connection_that_fills_its_window_leaves_its_capacity_and_others_leave_none() {
    for algorithm in loss_based() {
        let name = algorithm.name;
        // A round trip ends with a packet sent in it, so the last one, of 1,280 packets, has no end.
        assert_eq!(left_by(&algorithm, true), Some(640), "{name}");
        assert_eq!(left_by(&algorithm, false), None, "{name}");
    }
}

/// Half of the last flights of slow start, 80 datagrams, is no news of a path that had 300. The saved round trip decides whether it is
/// the same path.
#[test]
fn slow_start_replaces_only_a_smaller_capacity_or_that_of_another_path() {
    for algorithm in loss_based() {
        for (saved, rtt, left) in [(300, RTT, 300), (60, RTT, 80), (300, 2 * RTT, 80)] {
            let memory = Memory::of(saved, ms(rtt));
            let mut wire = Wire::new(memory.resume_at_most(&algorithm, 0), ms(RTT));
            (0..5).for_each(|_| wire.round());
            assert_eq!(wire.state(), State::SlowStart, "{}", algorithm.name);
            drop(wire);
            let found = memory.contents().saved.expect("saved").cwnd / MTU;
            assert_eq!(found, left, "{}: {saved}, {rtt}", algorithm.name);
        }
    }
}
