//! Idle time: what counts as such, and what it moves.

use sluicegate_cc::State;

use crate::defects::wires;
use crate::test_support::{MTU, ms, secs};

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
        assert_eq!((wire.in_flight, wire.state()), (0, State::Recovery), "{name}");
        wire.fill();
        wire.wait(wire.rtt);
        wire.ack(1);
        assert_eq!(wire.state(), State::CongestionAvoidance, "{name}");
        assert!(wire.snapshot().epoch.is_some_and(|epoch| epoch <= wire.now), "{name}");
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
        assert_eq!(shift(after.epoch) - shift(before.epoch), 5_000_000_000, "{name}");
        assert_eq!(after.idle_excluded - before.idle_excluded, secs(5), "{name}");
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
        assert!(end.cwnd > start.cwnd + 10 * MTU, "{name}: {} to {}", start.cwnd, end.cwnd);
    }
}
