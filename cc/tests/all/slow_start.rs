//! Slow start, the first one and the one after a timeout. `search.rs` has the first one with SEARCH.

use sluicegate_cc::{Algorithm, State};

use crate::test_support::wire::Wire;
use crate::test_support::{MTU, controller, loss_based, ms};

/// Returns a wire in the slow start after persistent congestion, its threshold far above.
fn after_a_timeout(algorithm: &Algorithm) -> Wire {
    let mut wire = Wire::new(controller(algorithm, 0), ms(40));
    (0..4).for_each(|_| wire.round());
    wire.congest_persistently();
    assert_eq!(wire.state(), State::SlowStart);
    assert_eq!(wire.cwnd(), 2 * MTU);
    wire
}

#[test]
fn initial_window_is_ten_datagrams_within_14720_bytes_or_two_datagrams() {
    for algorithm in loss_based() {
        let name = algorithm.name;
        let mut controller = controller(&algorithm, 0);
        for (mtu, window) in [(1_200, 12_000), (1_472, 14_720), (1_500, 14_720), (9_000, 18_000)] {
            controller.on_mtu(mtu);
            assert_eq!(controller.cwnd(), window, "{name}: {mtu}");
        }
    }
}

#[test]
fn slow_start_that_a_rise_of_the_delay_ends_leaves_its_window_as_the_threshold() {
    for algorithm in loss_based() {
        let name = algorithm.name;
        let mut wire = Wire::new(controller(&algorithm, 0), ms(40));
        (0..3).for_each(|_| wire.round());
        assert_eq!(wire.controller.ssthresh(), None, "{name}");
        wire.rtt = ms(80);
        let mut slowed = false;
        for _ in 0..400 {
            slowed |= wire.state() == State::ConservativeSlowStart;
            if wire.state() == State::CongestionAvoidance {
                break;
            }
            if wire.packets() == 0 {
                wire.fill();
                wire.wait(wire.rtt);
            }
            wire.ack(2);
        }
        assert!(slowed, "{name}");
        assert_eq!(wire.state(), State::CongestionAvoidance, "{name}");
        assert_eq!(Some(wire.cwnd()), wire.controller.ssthresh(), "{name}");
    }
}

#[test]
fn the_newest_sample_and_not_the_smoothed_one_tells_of_a_rise() {
    for algorithm in loss_based() {
        let name = algorithm.name;
        let mut wire = Wire::new(controller(&algorithm, 0), ms(40));
        wire.smoothed = Some(ms(40));
        (0..3).for_each(|_| wire.round());
        wire.rtt = ms(80);
        (0..2).for_each(|_| wire.round());
        assert_eq!(wire.state(), State::ConservativeSlowStart, "{name}");
    }
}

#[test]
fn only_the_first_slow_start_heeds_the_delay() {
    for algorithm in loss_based() {
        let name = algorithm.name;
        let mut wire = after_a_timeout(&algorithm);
        for round in 0..5 {
            wire.rtt = ms(40 + 20 * round);
            wire.round();
            let heeds = wire.state() == State::ConservativeSlowStart;
            assert!(!heeds, "{name}: round {round}");
        }
    }
}

#[test]
fn two_packets_do_not_grow_the_window_after_a_timeout_past_four() {
    for algorithm in loss_based() {
        let name = algorithm.name;
        let mut wire = after_a_timeout(&algorithm);
        for _ in 0..20 {
            wire.send(2);
            wire.app_limited();
            wire.wait(wire.rtt);
            wire.ack(2);
        }
        assert_eq!(wire.cwnd(), 4 * MTU, "{name}");
    }
}

#[test]
fn what_an_ack_earns_past_the_threshold_counts_for_avoidance() {
    for algorithm in loss_based() {
        let name = algorithm.name;
        let mut wire = after_a_timeout(&algorithm);
        let threshold = wire.controller.ssthresh().expect("cut");
        for _ in 0..400 {
            if wire.cwnd() + 8 * MTU >= threshold {
                break;
            }
            if wire.packets() == 0 {
                wire.fill();
                wire.wait(wire.rtt);
            }
            wire.ack(1);
        }
        assert_eq!(wire.state(), State::SlowStart, "{name}");
        wire.fill();
        wire.wait(wire.rtt);
        wire.ack(usize::MAX);
        assert_eq!(wire.state(), State::CongestionAvoidance, "{name}");
        assert!(wire.cwnd() > threshold, "{name}: {}", wire.cwnd());
    }
}
