//! Growth in avoidance: what the curve's clock counts, and where Reno's line stands.

mod test_support;

use std::time::Duration;

use sluicegate_cc::{Algorithm, State};
use test_support::wire::Wire;
use test_support::{MTU, controller, loss_based, ms, named};

fn cubic() -> Algorithm {
    named("cubic")
}

/// Returns the time on the curve's clock.
fn elapsed(wire: &Wire) -> Duration {
    let epoch = wire.snapshot().epoch.expect("avoidance");
    wire.now.saturating_since(epoch)
}

// RFC 9438 §4.2: t does not include time in which the window was not updated for lack of data.

#[test]
fn hour_at_a_constant_rate_below_the_window_is_not_made_up_for_in_a_leap() {
    for algorithm in loss_based() {
        let name = algorithm.name;
        let mut wire = Wire::new(controller(&algorithm, 0), ms(100));
        wire.reach_avoidance();
        wire.send(6);
        wire.app_limited();
        for _ in 0..36_000 {
            wire.wait(ms(100));
            wire.ack(1);
            wire.send(1);
            wire.app_limited();
        }
        let unused = wire.cwnd();
        assert!(
            elapsed(&wire).as_secs() < 60,
            "{name}: {:?}",
            elapsed(&wire)
        );
        for _ in 0..10 {
            wire.round();
        }
        assert!(wire.cwnd() > unused + 2 * MTU, "{name}: still withheld");
        assert!(
            wire.cwnd() < unused + 12 * MTU,
            "{name}: {unused} to {}",
            wire.cwnd()
        );
    }
}

#[test]
fn clock_goes_on_once_the_flight_uses_the_window_again() {
    for algorithm in loss_based() {
        let name = algorithm.name;
        let mut wire = Wire::new(controller(&algorithm, 0), ms(100));
        wire.reach_avoidance();
        for _ in 0..200 {
            wire.send(4);
            wire.app_limited();
            wire.wait(wire.rtt);
            wire.ack(usize::MAX);
        }
        let before = elapsed(&wire);
        for _ in 0..10 {
            wire.round();
        }
        assert_eq!(elapsed(&wire) - before, 10 * wire.rtt, "{name}");
    }
}

// RFC 9438 §4.3, §4.8: alpha is 9/17 up to the window before the cut, also where a timeout came between.

#[test]
fn after_persistent_congestion_the_reno_line_keeps_to_the_window_before_the_cut() {
    let mut wire = Wire::new(controller(&cubic(), 0), ms(1));
    for _ in 0..4 {
        wire.round();
    }
    let prior = wire.cwnd();
    wire.fill();
    wire.wait(wire.rtt);
    wire.lose(1);
    wire.controller.on_persistent_congestion(wire.now);
    wire.ack(usize::MAX);
    for _ in 0..20 {
        if wire.state() == State::SlowStart {
            wire.round();
        }
    }
    assert_eq!(wire.state(), State::CongestionAvoidance);
    let start = wire.cwnd();
    let slow = rounds(&mut wire, 17);
    assert!(wire.cwnd() < prior, "{} of {prior}", wire.cwnd());
    assert!((8.5..9.5).contains(&slow), "{slow} packets from {start}");
    for _ in 0..100 {
        if wire.cwnd() < prior + MTU {
            wire.round();
        }
    }
    let fast = rounds(&mut wire, 10);
    assert!((9.5..10.5).contains(&fast), "{fast} packets past {prior}");
}

/// Returns the packets by which so many rounds grow the window.
fn rounds(wire: &mut Wire, count: u32) -> f64 {
    let start = wire.cwnd();
    (0..count).for_each(|_| wire.round());
    (wire.cwnd() - start) as f64 / MTU as f64
}
