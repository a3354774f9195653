//! Growth in avoidance: what the curve's clock counts, and where Reno's line stands.

use std::time::Duration;

use sluicegate_cc::{Algorithm, State};

use crate::test_support::wire::Wire;
use crate::test_support::{MTU, controller, loss_based, ms, named, slow_starts, with_slow_start};

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
        assert!(elapsed(&wire).as_secs() < 60, "{name}: {:?}", elapsed(&wire));
        for _ in 0..10 {
            wire.round();
        }
        assert!(wire.cwnd() > unused + 2 * MTU, "{name}: still withheld");
        assert!(wire.cwnd() < unused + 12 * MTU, "{name}: {unused} to {}", wire.cwnd());
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

// draft-ietf-ccwg-ratelimited-increase-03: cwnd is at most limit(maxFS), where maxFS is the most that was in flight since the
// window was last reduced, and at first the initial window: 2 maxFS in slow start.

#[test]
fn window_of_a_rate_limited_sender_stays_within_the_example_of_the_draft() {
    for algorithm in loss_based() {
        for kind in slow_starts(&algorithm) {
            let name = format!("{}, {kind}", algorithm.name);
            let mut wire = Wire::new(with_slow_start(&algorithm, kind), ms(100));
            wire.mtu = 1_000;
            wire.controller.on_mtu(1_000);
            assert_eq!(wire.cwnd(), 10_000, "{name}");
            // Packets that the application has, and the draft's window after they are acknowledged, two at a time.
            let rounds = [(4, 14_000), (8, 20_000), (4, 20_000), (20, 40_000)];
            for (packets, allowed) in rounds {
                let room = usize::try_from(wire.cwnd() / wire.mtu).expect("small");
                wire.send(packets.min(room));
                wire.app_limited();
                wire.wait(wire.rtt);
                for _ in 0..wire.packets().div_ceil(2) {
                    wire.ack(2);
                }
                assert!(wire.cwnd() <= allowed, "{name}: {} of {allowed}", wire.cwnd());
            }
            assert!(wire.cwnd() >= 2 * 16_000, "{name}: {}", wire.cwnd());
        }
    }
}

#[test]
fn slow_start_never_passes_twice_the_most_that_was_in_flight_since_a_reduction() {
    for algorithm in loss_based() {
        for kind in slow_starts(&algorithm) {
            let mut wire = Wire::new(with_slow_start(&algorithm, kind), ms(100));
            let mut most = wire.cwnd();
            for step in 0..400 {
                let packets = [1, 3, 30, 2, 80, 5][step % 6];
                let room = (wire.cwnd().saturating_sub(wire.in_flight) / MTU).min(packets);
                wire.send(usize::try_from(room).expect("small"));
                most = most.max(wire.in_flight);
                wire.app_limited();
                wire.wait(ms(30));
                wire.ack(usize::try_from(packets / 2 + 1).expect("small"));
                if wire.state() == State::SlowStart {
                    assert!(wire.cwnd() <= 2 * most, "{}, {kind}", algorithm.name);
                }
            }
        }
    }
}

/// Returns the packets by which so many rounds grow the window.
fn rounds(wire: &mut Wire, count: u32) -> f64 {
    let start = wire.cwnd();
    (0..count).for_each(|_| wire.round());
    (wire.cwnd() - start) as f64 / MTU as f64
}
