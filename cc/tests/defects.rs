//! Defects that other implementations of loss-based algorithms shipped, each as the sequence of events that shows it.

mod lab;

use std::time::Duration;

use lab::wire::Wire;
use lab::{MTU, controller, loss_based, ms, secs};
use sluicegate_cc::{Controller, Init, State, Value};

/// Every loss-based algorithm on a wire of this round trip.
fn wires(rtt: Duration) -> Vec<(&'static str, Wire)> {
    loss_based()
        .iter()
        .map(|a| (a.name, Wire::new(controller(a, 0), rtt)))
        .collect()
}

fn named(
    name: &str,
    options: &[(&str, Value)],
    initial_window_packets: u64,
) -> Box<dyn Controller> {
    let algorithm = loss_based()
        .into_iter()
        .find(|a| a.name == name)
        .expect("built in");
    let mut set = algorithm.defaults();
    for (key, value) in options {
        set.set(key, *value).expect("valid");
    }
    algorithm.controller(
        &Init {
            mtu: MTU,
            initial_window_packets,
            seed: 0,
        },
        &set,
    )
}

/// A beta for every loss-based algorithm, read off its first cut.
fn beta(name: &str) -> f64 {
    let options = loss_based()
        .into_iter()
        .find(|a| a.name == name)
        .expect("built in")
        .defaults();
    options.number("beta")
}

// quiche, quicly, tquic: the start of recovery moved into the future by the time since the last packet.

#[test]
fn two_packet_window_that_empties_each_round_is_not_idle() {
    for (name, mut wire) in wires(ms(100)) {
        wire.reach_avoidance();
        for _ in 0..40 {
            wire.fill();
            wire.wait(wire.rtt);
            wire.event(1, usize::MAX, 0);
        }
        assert_eq!(wire.cwnd(), 2 * MTU, "{name}");
        let pinned = wire.snapshot();
        for _ in 0..20 {
            wire.round();
            assert_eq!(wire.state(), State::CongestionAvoidance, "{name}");
        }
        let after = wire.snapshot();
        assert!(after.cwnd > pinned.cwnd + 4 * MTU, "{name}: {}", after.cwnd);
        assert_eq!(after.idle_excluded, pinned.idle_excluded, "{name}");
        assert_eq!(after.congestion_events, pinned.congestion_events, "{name}");
    }
}

#[test]
fn loss_by_timer_that_empties_the_flight_leaves_no_boundary_in_the_future() {
    for (name, mut wire) in wires(ms(100)) {
        wire.fill();
        wire.wait(wire.rtt);
        let all_but_one = wire.packets() - 1;
        wire.ack(all_but_one);
        wire.wait(wire.rtt / 8);
        wire.lose(1);
        assert_eq!(
            (wire.in_flight, wire.state()),
            (0, State::Recovery),
            "{name}"
        );
        wire.fill();
        wire.wait(wire.rtt);
        wire.ack(1);
        assert_eq!(wire.state(), State::CongestionAvoidance, "{name}");
        assert!(
            wire.snapshot().epoch.is_some_and(|epoch| epoch <= wire.now),
            "{name}"
        );
    }
}

#[test]
fn five_idle_seconds_move_the_curve_by_five_seconds() {
    for (name, mut wire) in wires(ms(100)) {
        wire.reach_avoidance();
        wire.round();
        let before = wire.snapshot();
        wire.app_limited();
        wire.wait(secs(5));
        wire.send(1);
        let after = wire.snapshot();
        let shift = |a: Option<sluicegate_cc::Time>| a.expect("avoidance").as_nanos();
        assert_eq!(
            shift(after.epoch) - shift(before.epoch),
            5_000_000_000,
            "{name}"
        );
        assert_eq!(
            after.idle_excluded - before.idle_excluded,
            secs(5),
            "{name}"
        );
    }
}

#[test]
fn curve_goes_on_after_idle_as_if_there_had_been_none() {
    for ((name, mut busy), (_, mut idle)) in wires(ms(50)).into_iter().zip(wires(ms(50))) {
        for wire in [&mut busy, &mut idle] {
            wire.reach_avoidance();
            (0..20).for_each(|_| wire.round());
        }
        idle.app_limited();
        idle.wait(secs(60));
        for _ in 0..100 {
            busy.round();
            idle.round();
            assert_eq!(busy.cwnd(), idle.cwnd(), "{name}");
        }
    }
}

#[test]
fn idle_counts_too_where_slow_start_ended_without_loss() {
    for (name, mut wire) in wires(ms(40)) {
        (0..3).for_each(|_| wire.round());
        wire.rtt = ms(80);
        (0..10).for_each(|_| wire.round());
        assert_eq!(wire.state(), State::CongestionAvoidance, "{name}");
        assert_eq!(wire.snapshot().congestion_events, 0, "{name}");
        let before = wire.snapshot().epoch.expect("avoidance");
        wire.app_limited();
        wire.wait(secs(30));
        wire.send(1);
        let after = wire.snapshot().epoch.expect("avoidance");
        assert_eq!(after.saturating_since(before), secs(30), "{name}");
    }
}

#[test]
fn time_stands_still_while_data_lacks_with_packets_in_flight() {
    for (name, mut wire) in wires(ms(100)) {
        wire.reach_avoidance();
        wire.send(1);
        wire.app_limited();
        wire.wait(secs(2));
        let before = wire.snapshot();
        wire.ack(1);
        wire.send(1);
        let after = wire.snapshot();
        assert_eq!(after.idle_excluded, secs(2), "{name}");
        assert_eq!(after.cwnd, before.cwnd, "{name}");
    }
}

#[test]
fn idle_after_a_full_window_begins_when_the_flight_empties() {
    for (name, mut wire) in wires(ms(100)) {
        wire.reach_avoidance();
        wire.fill();
        wire.app_limited();
        wire.wait(wire.rtt);
        wire.ack(usize::MAX);
        wire.wait(secs(5));
        wire.send(1);
        assert_eq!(wire.snapshot().idle_excluded, secs(5), "{name}");
    }
}

// s2n-quic #947: a shift for each packet sent while the window was not yet full, which froze the curve.

#[test]
fn writes_that_come_packet_by_packet_do_not_freeze_the_curve() {
    for (name, mut wire) in wires(ms(50)) {
        wire.reach_avoidance();
        let start = wire.snapshot();
        for _ in 0..40 {
            while wire.in_flight + MTU <= wire.cwnd() {
                wire.send(1);
                wire.app_limited();
            }
            wire.wait(wire.rtt);
            wire.ack(usize::MAX);
        }
        let end = wire.snapshot();
        assert_eq!(end.epoch, start.epoch, "{name}");
        assert!(
            end.cwnd > start.cwnd + 10 * MTU,
            "{name}: {} to {}",
            start.cwnd,
            end.cwnd
        );
    }
}

// quinn 3c43d45b: fast convergence cut the window by 0.85 x 0.7 instead of 0.7.

#[test]
fn each_cut_is_of_the_window_as_it_was() {
    for (name, mut wire) in wires(ms(50)) {
        (0..4).for_each(|_| wire.round());
        for _ in 0..4 {
            let before = wire.cwnd();
            wire.fill();
            wire.wait(wire.rtt);
            wire.event(1, usize::MAX, 0);
            wire.send(1);
            wire.wait(wire.rtt);
            wire.ack(1);
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
        assert_eq!(
            wire.controller.ssthresh(),
            threshold,
            "{name}: cut by what was sent before"
        );
        wire.send(2);
        wire.controller.on_persistent_congestion(wire.now);
        wire.lose(usize::MAX);
        assert_eq!(
            wire.controller.ssthresh(),
            threshold,
            "{name}: cut by what was sent before"
        );
        let ratio = threshold.expect("cut") as f64 / before as f64;
        assert!((ratio - beta(name)).abs() < 0.001, "{name}: {ratio}");
    }
}

// quinn bd0c3bfe: what an ACK earned short of a whole unit was dropped.

#[test]
fn small_packets_earn_what_large_ones_do() {
    for name in loss_based().iter().map(|a| a.name) {
        let growth = |bytes: u64| {
            let mut wire = Wire::new(named(name, &[], 1_000), ms(50));
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
        assert!(
            small.abs_diff(large) * 50 < large,
            "{name}: {small} and {large}"
        );
    }
}

// ngtcp2 42d626f8: growth per ACK instead of per byte acknowledged.

#[test]
fn growth_depends_on_bytes_and_not_on_the_number_of_acks() {
    for name in loss_based().iter().map(|a| a.name) {
        let growth = |packets_per_ack: usize| {
            let mut wire = Wire::new(named(name, &[], 100), ms(50));
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
        assert!(
            each.abs_diff(tenth) * 8 < each,
            "{name}: {each} and {tenth}"
        );
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
        assert!(
            wire.cwnd() >= before && wire.cwnd() <= before + MTU,
            "{name}: {}",
            wire.cwnd()
        );
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
        let mut wire = Wire::new(named(name, &[], 100), ms(50));
        wire.reach_avoidance();
        let start = wire.cwnd();
        for _ in 0..40 {
            while (wire.in_flight + MTU) * 10 <= wire.cwnd() * 8 {
                wire.send(1);
            }
            wire.wait(wire.rtt);
            wire.ack(usize::MAX);
        }
        assert!(
            wire.cwnd() > start + 10 * MTU,
            "{name}: {start} to {}",
            wire.cwnd()
        );
    }
}

#[test]
fn flight_from_before_a_cut_does_not_count_as_use_of_the_window_after_it() {
    for name in loss_based().iter().map(|a| a.name) {
        let mut wire = Wire::new(named(name, &[], 100), ms(50));
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
        let mut wire = Wire::new(named(name, &[], 100), ms(50));
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
        let mut wire = Wire::new(named(name, &[], 40), ms(50));
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
        assert!(
            wire.cwnd() < threshold + MTU,
            "{name}: {} past {threshold}",
            wire.cwnd()
        );
    }
}

// quic-go #3796: the pacer overflowed.

#[test]
fn pacing_stays_finite_at_extreme_round_trips() {
    for rtt in [
        Duration::ZERO,
        Duration::from_nanos(1),
        secs(3_600),
        Duration::MAX,
    ] {
        for name in loss_based().iter().map(|a| a.name) {
            let mut wire = Wire::new(named(name, &[], 1 << 30), rtt);
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
fn reports_of_spurious_loss_undo_nothing() {
    for (name, mut wire) in wires(ms(50)) {
        wire.fill();
        wire.wait(wire.rtt);
        wire.event(1, usize::MAX, 0);
        let cut = wire.cwnd();
        wire.controller.on_spurious_loss(wire.now, 1);
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
        assert_eq!(wire.state(), State::Recovery, "{name}");
    }
}

#[test]
fn rate_is_unknown_before_a_sample_and_absent_without_pacing() {
    for name in loss_based().iter().map(|a| a.name) {
        let mut wire = Wire::new(
            named(name, &[("pacing", Value::Boolean(false))], 10),
            ms(50),
        );
        assert_eq!(wire.controller.pacing_rate(), None, "{name}");
        wire.round();
        assert_eq!(wire.controller.pacing_rate(), None, "{name}");
        let mut wire = Wire::new(named(name, &[], 10), ms(50));
        assert_eq!(wire.controller.pacing_rate(), None, "{name}");
        wire.round();
        let twice_a_round_trip = wire.cwnd() * 2 * 20;
        assert_eq!(
            wire.controller.pacing_rate(),
            Some(twice_a_round_trip),
            "{name}"
        );
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
