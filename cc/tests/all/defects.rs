//! Defects that other implementations of loss-based algorithms shipped, each as the sequence of events that shows it.

mod idle;

use std::time::Duration;

use sluicegate_cc::{Controller, Init, State, Value};

use crate::test_support::wire::Wire;
use crate::test_support::{self, MTU, controller, loss_based, ms, secs};

/// Returns every loss-based algorithm on a wire of this round trip.
fn wires(rtt: Duration) -> Vec<(&'static str, Wire)> {
    loss_based().iter().map(|a| (a.name, Wire::new(controller(a, 0), rtt))).collect()
}

/// Returns the algorithm with some options given.
fn with(name: &str, given: &[(&str, Value)], initial_window_packets: u64) -> Box<dyn Controller> {
    let algorithm = test_support::named(name);
    let init = Init { initial_window_packets, ..test_support::init(0) };
    algorithm.controller(&init, &test_support::options(&algorithm, given))
}

/// Returns a beta for every loss-based algorithm, read off its first cut.
fn beta(name: &str) -> f64 {
    test_support::named(name).defaults().number("beta")
}

// quinn 3c43d45b: fast convergence cut the window by 0.85 x 0.7 instead of 0.7.

#[test]
fn each_cut_is_of_the_window_as_it_was() {
    for (name, mut wire) in wires(ms(50)) {
        (0..4).for_each(|_| wire.round());
        for _ in 0..4 {
            let before = wire.cwnd();
            wire.reach_avoidance();
            let cut = wire.controller.ssthresh().expect("cut");
            let ratio = cut as f64 / before as f64;
            assert!((ratio - beta(name)).abs() < 0.001, "{name}: {ratio}");
            assert!(wire.cwnd() - cut < MTU, "{name}: {}", wire.cwnd());
        }
    }
}

// msquic #2304: persistent congestion cut the threshold again after the loss that proved it had.

#[test]
fn persistent_congestion_leaves_the_threshold_of_the_loss() {
    for (name, mut wire) in wires(ms(50)) {
        (0..4).for_each(|_| wire.round());
        let before = wire.cwnd();
        wire.fill();
        wire.wait(secs(3));
        wire.lose(10);
        let threshold = wire.controller.ssthresh();
        wire.controller.on_persistent_congestion(wire.now);
        assert_eq!(wire.cwnd(), 2 * MTU, "{name}");
        assert_eq!(wire.controller.ssthresh(), threshold, "{name}");
        wire.lose(10);
        assert_eq!(wire.controller.ssthresh(), threshold, "{name}: cut by what was sent before");
        wire.send(2);
        wire.controller.on_persistent_congestion(wire.now);
        wire.lose(usize::MAX);
        assert_eq!(wire.controller.ssthresh(), threshold, "{name}: cut by what was sent before");
        let ratio = threshold.expect("cut") as f64 / before as f64;
        assert!((ratio - beta(name)).abs() < 0.001, "{name}: {ratio}");
    }
}

// quinn bd0c3bfe: what an ACK earned short of a whole unit was dropped.

#[test]
fn small_packets_earn_what_large_ones_do() {
    for name in loss_based().iter().map(|a| a.name) {
        let growth = |bytes: u64| {
            let mut wire = Wire::new(with(name, &[], 1_000), ms(50));
            wire.reach_avoidance();
            let start = wire.cwnd();
            wire.mtu = bytes;
            for _ in 0..5 {
                wire.fill();
                wire.wait(wire.rtt);
                while wire.packets() > 0 {
                    wire.ack(1);
                }
            }
            wire.cwnd() - start
        };
        let (small, large) = (growth(40), growth(MTU));
        println!("{name}: {small} in packets of 40 bytes, {large} in packets of {MTU}");
        assert!(large > 2 * MTU, "{name}");
        assert!(small.abs_diff(large) * 50 < large, "{name}: {small} and {large}");
    }
}

// ngtcp2 42d626f8: growth per ACK instead of per byte acknowledged.

#[test]
fn growth_depends_on_bytes_and_not_on_the_number_of_acks() {
    for name in loss_based().iter().map(|a| a.name) {
        let growth = |packets_per_ack: usize| {
            let mut wire = Wire::new(with(name, &[], 100), ms(50));
            wire.reach_avoidance();
            let start = wire.cwnd();
            for _ in 0..5 {
                wire.fill();
                wire.wait(wire.rtt);
                while wire.packets() > 0 {
                    wire.ack(packets_per_ack);
                }
            }
            wire.cwnd() - start
        };
        let (each, tenth) = (growth(1), growth(10));
        println!("{name}: {each} with an ACK each, {tenth} with every tenth");
        assert!(each > 2 * MTU, "{name}");
        assert!(each.abs_diff(tenth) * 8 < each, "{name}: {each} and {tenth}");
    }
}

// quinn a1931ab8: overflow after ten days without loss.

#[test]
fn ten_days_without_loss_neither_overflow_nor_leap() {
    for (name, mut wire) in wires(ms(50)) {
        wire.reach_avoidance();
        wire.fill();
        let before = wire.cwnd();
        wire.wait(secs(10 * 24 * 3_600));
        wire.ack(1);
        assert!(wire.cwnd() >= before && wire.cwnd() <= before + MTU, "{name}: {}", wire.cwnd());
        wire.wait(Duration::from_nanos(u64::MAX));
        wire.round();
        assert!(wire.cwnd() <= 2 * before, "{name}: {}", wire.cwnd());
    }
}

// neqo #3640, taken back in #3760: waiting for the pacer was taken for a window in use.

#[test]
fn few_packets_do_not_grow_a_large_window_though_they_were_paced() {
    for (name, mut wire) in wires(ms(50)) {
        for _ in 0..20 {
            for _ in 0..3 {
                wire.send(1);
                wire.wait(ms(5));
            }
            wire.app_limited();
            wire.wait(wire.rtt);
            wire.ack(usize::MAX);
            wire.app_limited();
        }
        assert_eq!(wire.cwnd(), 10 * MTU, "{name}");
    }
}

#[test]
fn flight_that_pacing_keeps_a_fifth_below_the_window_still_grows_it() {
    for name in loss_based().iter().map(|a| a.name) {
        let mut wire = Wire::new(with(name, &[], 100), ms(50));
        wire.reach_avoidance();
        let start = wire.cwnd();
        for _ in 0..40 {
            while (wire.in_flight + MTU) * 10 <= wire.cwnd() * 8 {
                wire.send(1);
            }
            wire.wait(wire.rtt);
            wire.ack(usize::MAX);
        }
        assert!(wire.cwnd() > start + 10 * MTU, "{name}: {start} to {}", wire.cwnd());
    }
}

#[test]
fn flight_from_before_a_cut_does_not_count_as_use_of_the_window_after_it() {
    for name in loss_based().iter().map(|a| a.name) {
        let mut wire = Wire::new(with(name, &[], 100), ms(50));
        wire.round();
        wire.fill();
        wire.wait(wire.rtt);
        wire.lose(usize::MAX);
        let cut = wire.controller.ssthresh();
        wire.send(2);
        wire.wait(wire.rtt);
        wire.ack(2);
        assert_eq!(Some(wire.cwnd()), cut, "{name}");
    }
}

#[test]
fn window_stops_at_four_thirds_of_a_flight_that_does_not_grow() {
    for name in loss_based().iter().map(|a| a.name) {
        let mut wire = Wire::new(with(name, &[], 100), ms(50));
        wire.reach_avoidance();
        let packets = usize::try_from(wire.cwnd() / MTU).expect("small");
        for _ in 0..2_000 {
            wire.send(packets);
            wire.wait(wire.rtt);
            wire.ack(usize::MAX);
        }
        assert_eq!(wire.cwnd(), (packets as u64 + 1) * MTU * 4 / 3, "{name}");
    }
}

// msquic #2309: exponential growth went on past the threshold.

#[test]
fn one_large_ack_does_not_carry_slow_start_past_the_threshold() {
    for name in loss_based().iter().map(|a| a.name) {
        let mut wire = Wire::new(with(name, &[], 40), ms(50));
        wire.fill();
        wire.wait(wire.rtt);
        wire.lose(usize::MAX);
        wire.controller.on_persistent_congestion(wire.now);
        let threshold = wire.controller.ssthresh().expect("cut");
        for _ in 0..10 {
            if wire.cwnd() >= threshold {
                break;
            }
            assert_eq!(wire.state(), State::SlowStart, "{name}");
            wire.fill();
            wire.wait(wire.rtt);
            wire.ack(usize::MAX);
        }
        assert_eq!(wire.state(), State::CongestionAvoidance, "{name}");
        assert!(wire.cwnd() < threshold + MTU, "{name}: {} past {threshold}", wire.cwnd());
    }
}

// quic-go #3796: the pacer overflowed.

#[test]
fn pacing_stays_finite_at_extreme_round_trips() {
    for rtt in [Duration::ZERO, Duration::from_nanos(1), secs(3_600), Duration::MAX] {
        for name in loss_based().iter().map(|a| a.name) {
            let mut wire = Wire::new(with(name, &[], 1 << 30), rtt);
            wire.send(1);
            wire.ack(1);
            let rate = wire.controller.pacing_rate().expect("sampled");
            assert!(rate > 0 && rate < u64::MAX, "{name}, {rtt:?}: {rate}");
            assert!(wire.controller.send_quantum() >= MTU, "{name}, {rtt:?}");
        }
    }
}

// quiche 0.30: a real, isolated loss was undone as spurious.

#[test]
fn late_acknowledgement_of_one_of_two_packets_undoes_nothing() {
    for (name, mut wire) in wires(ms(50)) {
        wire.fill();
        wire.wait(wire.rtt);
        wire.event(2, usize::MAX, 0);
        let cut = wire.cwnd();
        wire.acknowledge_late(..1);
        assert_eq!(wire.cwnd(), cut, "{name}");
    }
}

#[test]
fn losses_and_marks_of_one_flight_cut_once() {
    for (name, mut wire) in wires(ms(50)) {
        wire.fill();
        wire.wait(wire.rtt);
        wire.event(1, 1, 0);
        wire.event(1, 1, 3);
        wire.event(2, 1, 1);
        assert_eq!(wire.snapshot().congestion_events, 1, "{name}");
        wire.ack(usize::MAX);
        wire.fill();
        wire.wait(wire.rtt);
        wire.event(0, 1, 1);
        assert_eq!(wire.snapshot().congestion_events, 2, "{name}");
        let in_recovery = wire.state() == State::Recovery;
        assert_eq!(in_recovery, !test_support::named(name).scalable, "{name}");
    }
}

#[test]
fn rate_is_unknown_before_a_sample_and_absent_without_pacing() {
    for name in loss_based().iter().map(|a| a.name) {
        let mut wire = Wire::new(with(name, &[("pacing", Value::Boolean(false))], 10), ms(50));
        assert_eq!(wire.controller.pacing_rate(), None, "{name}");
        wire.round();
        assert_eq!(wire.controller.pacing_rate(), None, "{name}");
        let mut wire = Wire::new(with(name, &[], 10), ms(50));
        assert_eq!(wire.controller.pacing_rate(), None, "{name}");
        wire.round();
        let twice_a_round_trip = wire.cwnd() * 2 * 20;
        assert_eq!(wire.controller.pacing_rate(), Some(twice_a_round_trip), "{name}");
    }
}

#[test]
fn initial_window_follows_the_datagram_size_until_it_is_touched() {
    for (name, mut wire) in wires(ms(50)) {
        wire.controller.on_mtu(1_400);
        assert_eq!(wire.cwnd(), 14_000, "{name}");
        wire.controller.on_mtu(MTU);
        wire.round();
        let grown = wire.cwnd();
        wire.controller.on_mtu(1_500);
        assert_eq!(wire.cwnd(), grown, "{name}");
    }
}
