//! The events that stop a growth curve's clock, and those that do not.
//!
//! A sender that has data is not idle, however long it has nothing in flight: it waits for the pacer, for its turn on the
//! core, for a probe timeout. A sender without data stays idle though its transport sends probes of its own.

use std::time::Duration;

use sluicegate_cc::State;

use crate::test_support::wire::Wire;
use crate::test_support::{MTU, algorithms, controller, ms, secs};

/// Returns every algorithm that searches for its window by slow start and avoidance, on a wire of 50 ms.
fn searching() -> Vec<(&'static str, Wire)> {
    let wires = algorithms().into_iter().map(|algorithm| {
        let wire = Wire::new(controller(&algorithm, 0), ms(50));
        (algorithm.name, wire)
    });
    let wires: Vec<_> = wires.filter(|(_, wire)| wire.state() == State::SlowStart).collect();
    assert!(wires.len() >= 2, "cubic and reno do");
    wires
}

/// Rounds of a full window, all acknowledged at once, and then `gap` with nothing in flight before sending goes on.
fn rounds(wire: &mut Wire, rounds: u32, gap: Duration) {
    for _ in 0..rounds {
        wire.fill();
        wire.wait(wire.rtt);
        wire.ack(usize::MAX);
        assert_eq!(wire.in_flight, 0);
        wire.wait(gap);
    }
}

#[test]
fn empty_flight_with_data_waiting_stops_no_clock() {
    for gap in [Duration::from_nanos(1), ms(3), ms(100)] {
        for (name, mut wire) in searching() {
            wire.reach_avoidance();
            let start = wire.snapshot();
            rounds(&mut wire, 40, gap);
            wire.send(1);
            let end = wire.snapshot();
            assert_eq!(end.idle_excluded, start.idle_excluded, "{name}, {gap:?}");
            assert_eq!(end.epoch, start.epoch, "{name}, {gap:?}");
        }
    }
}

#[test]
fn smallest_window_comes_back_whatever_the_sender_waits_for() {
    for gap in [ms(1), ms(20), ms(50)] {
        for (name, mut wire) in searching() {
            wire.reach_avoidance();
            for _ in 0..40 {
                wire.fill();
                wire.wait(wire.rtt);
                wire.event(1, usize::MAX, 0);
                wire.wait(gap);
            }
            let pinned = wire.snapshot();
            rounds(&mut wire, 40, gap);
            let after = wire.snapshot();
            assert!(
                after.cwnd >= pinned.cwnd + 8 * MTU,
                "{name}, {gap:?}: {} to {}",
                pinned.cwnd,
                after.cwnd
            );
            assert_eq!(after.congestion_events, pinned.congestion_events, "{name}, {gap:?}");
        }
    }
}

#[test]
fn probes_of_the_transport_do_not_end_a_pause() {
    for (name, mut wire) in searching() {
        wire.reach_avoidance();
        // Full windows, so that growth is not withheld either.
        (0..2).for_each(|_| wire.round());
        wire.app_limited();
        let start = wire.snapshot();
        for _ in 0..5 {
            wire.wait(secs(1));
            wire.send_bytes(40, false);
            wire.wait(wire.rtt);
            wire.ack(1);
        }
        wire.send(1);
        let paused = wire.snapshot().idle_excluded - start.idle_excluded;
        assert_eq!(paused, secs(5) + 5 * wire.rtt, "{name}");
    }
}
