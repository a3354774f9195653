//! The rules of RFC 9959, one by one.

use sluicegate_cc::{Algorithm, PathChange, ResumeEvent, State};

use crate::test_support::memory::Memory;
use crate::test_support::wire::Wire;
use crate::test_support::{MTU, loss_based, ms, named};

/// Round trip of the path, and of every saved capacity.
const RTT: u64 = 100;
/// Datagrams of the initial window.
const IW: usize = 10;

fn wire(algorithm: &Algorithm, memory: &Memory) -> Wire {
    Wire::new(memory.resume(algorithm), ms(RTT))
}

/// Has the initial window acknowledged.
fn reconnoitre(wire: &mut Wire) {
    wire.send(IW);
    wire.wait(wire.rtt);
    wire.ack(IW);
}

/// Returns a wire in the Unvalidated Phase: 20 datagrams in flight, and a window of 150.
fn unvalidated(algorithm: &Algorithm, memory: &Memory) -> Wire {
    let mut wire = wire(algorithm, memory);
    reconnoitre(&mut wire);
    assert_eq!(wire.cwnd(), 20 * MTU, "{}", algorithm.name);
    wire.send(20);
    assert_eq!(wire.state(), State::Unvalidated, "{}", algorithm.name);
    wire
}

/// Returns a wire in the Validating Phase: 150 datagrams in flight, 130 of them unvalidated.
fn validating(algorithm: &Algorithm, memory: &Memory) -> Wire {
    let mut wire = unvalidated(algorithm, memory);
    wire.send(130);
    assert_eq!(wire.state(), State::Validating, "{}", algorithm.name);
    wire.wait(wire.rtt);
    wire
}

fn saved() -> Memory {
    Memory::of(300, ms(RTT))
}

#[test]
fn half_of_the_saved_capacity_is_tried_once_the_initial_window_has_arrived() {
    for algorithm in loss_based() {
        let name = algorithm.name;
        let memory = saved();
        let wire = unvalidated(&algorithm, &memory);
        assert_eq!(wire.cwnd(), 150 * MTU, "{name}");
        // One window per round trip, never more than a few packets at once.
        let rate = wire.controller.pacing_rate();
        assert_eq!(rate, Some(150 * MTU * 1_000 / RTT), "{name}");
        assert!(wire.controller.send_quantum() <= IW as u64 * MTU, "{name}");
        assert_eq!(memory.events(), [ResumeEvent::Jumped], "{name}");
    }
}

#[test]
fn nothing_is_tried_while_packets_of_the_initial_window_are_on_their_way() {
    for algorithm in loss_based() {
        let memory = saved();
        let mut wire = wire(&algorithm, &memory);
        wire.send(IW);
        wire.wait(wire.rtt);
        wire.ack(IW - 1);
        wire.fill();
        assert_eq!(wire.state(), State::SlowStart, "{}", algorithm.name);
        assert!(!memory.contents().is_claimed, "{}", algorithm.name);
    }
}

#[test]
fn nothing_is_tried_before_the_window_limits_the_sender() {
    for algorithm in loss_based() {
        let memory = saved();
        let mut wire = wire(&algorithm, &memory);
        reconnoitre(&mut wire);
        wire.send(19);
        wire.app_limited();
        assert_eq!(wire.state(), State::SlowStart, "{}", algorithm.name);
        wire.send(1);
        assert_eq!(wire.state(), State::Unvalidated, "{}", algorithm.name);
    }
}

#[test]
fn congestion_in_reconnaissance_leaves_everything_to_the_algorithm() {
    for algorithm in loss_based() {
        for (lost, ce) in [(1, 0), (0, 1)] {
            let memory = saved();
            let mut wire = wire(&algorithm, &memory);
            wire.send(IW);
            wire.wait(wire.rtt);
            wire.event(lost, IW - lost, ce);
            (0..5).for_each(|_| wire.round());
            assert_eq!(memory.events(), [], "{}", algorithm.name);
            assert!(memory.contents().saved.is_some(), "{}", algorithm.name);
        }
    }
}

#[test]
fn round_trips_of_half_or_more_than_ten_times_the_saved_one_are_another_path() {
    for algorithm in loss_based() {
        for (rtt, expected) in [
            (50, ResumeEvent::RttDiffers),
            (51, ResumeEvent::Jumped),
            (1_000, ResumeEvent::Jumped),
            (1_001, ResumeEvent::RttDiffers),
        ] {
            let memory = saved();
            let mut wire = Wire::new(memory.resume(&algorithm), ms(rtt));
            reconnoitre(&mut wire);
            wire.send(20);
            assert_eq!(memory.events(), [expected], "{}: {rtt}", algorithm.name);
            let jumped = expected == ResumeEvent::Jumped;
            assert_eq!(memory.contents().is_claimed, jumped, "{}", algorithm.name);
            let cwnd = if jumped { 150 } else { 20 };
            assert_eq!(wire.cwnd(), cwnd * MTU, "{}: {rtt}", algorithm.name);
        }
    }
}

#[test]
fn jump_is_bounded_and_smaller_ones_than_the_window_are_none() {
    for algorithm in loss_based() {
        let memory = saved();
        let mut wire = Wire::new(memory.resume_at_most(&algorithm, 50 * MTU), ms(RTT));
        reconnoitre(&mut wire);
        wire.send(20);
        assert_eq!(wire.cwnd(), 50 * MTU, "{}", algorithm.name);

        let memory = Memory::of(40, ms(RTT));
        let mut wire = self::wire(&algorithm, &memory);
        reconnoitre(&mut wire);
        wire.send(20);
        assert_eq!(memory.events(), [], "{}", algorithm.name);
        assert!(!memory.contents().is_claimed, "{}", algorithm.name);
    }
}

/// RFC 9959, "Example with No Loss".
#[test]
fn capacity_is_validated_when_its_last_packet_has_arrived() {
    for algorithm in loss_based() {
        let name = algorithm.name;
        let memory = saved();
        let mut wire = validating(&algorithm, &memory);
        assert_eq!(wire.cwnd(), 150 * MTU, "{name}");
        wire.ack(149);
        assert_eq!(wire.state(), State::Validating, "{name}");
        wire.ack(1);
        assert_eq!(wire.state(), State::SlowStart, "{name}");
        // In slow start each acknowledged byte adds one.
        assert_eq!(wire.cwnd(), 300 * MTU, "{name}");
        let events = [ResumeEvent::Jumped, ResumeEvent::Validated];
        assert_eq!(memory.events(), events, "{name}");
    }
}

/// RFC 9959, "Example with No Loss, Rate-Limited".
#[test]
fn part_of_a_jump_that_is_not_used_is_given_up() {
    for algorithm in loss_based() {
        let name = algorithm.name;
        let memory = saved();
        let mut wire = unvalidated(&algorithm, &memory);
        wire.send(50);
        wire.app_limited();
        wire.wait(wire.rtt);
        wire.ack(20);
        assert_eq!(wire.state(), State::Unvalidated, "{name}");
        wire.ack(1);
        assert_eq!(wire.state(), State::Validating, "{name}");
        assert_eq!(wire.cwnd(), 49 * MTU, "{name}");
        wire.ack(49);
        let events = [ResumeEvent::Jumped, ResumeEvent::Validated];
        assert_eq!(memory.events(), events, "{name}");
    }
}

#[test]
fn sender_with_little_to_send_returns_to_the_window_it_had() {
    for algorithm in loss_based() {
        let name = algorithm.name;
        let memory = saved();
        let mut wire = unvalidated(&algorithm, &memory);
        wire.wait(ms(RTT + 1));
        wire.app_limited();
        assert_eq!(wire.state(), State::SlowStart, "{name}");
        assert_eq!(wire.cwnd(), 20 * MTU, "{name}");
        let events = [ResumeEvent::Jumped, ResumeEvent::RateLimited];
        assert_eq!(memory.events(), events, "{name}");
        assert!(!memory.contents().is_claimed, "{name}");
    }
}

/// RFC 9959, "Example with Loss detected in the Validating Phase".
#[test]
fn loss_of_an_unvalidated_packet_leads_to_half_of_what_has_arrived() {
    for algorithm in loss_based() {
        let name = algorithm.name;
        let memory = saved();
        let mut wire = validating(&algorithm, &memory);
        wire.ack(20);
        wire.ack(34);
        wire.lose(1);
        assert_eq!(wire.state(), State::SafeRetreat, "{name}");
        let retreat = (20 + 34) / 2 * MTU;
        assert_eq!(wire.cwnd(), retreat, "{name}");
        assert_eq!(memory.contents().saved, None, "{name}");
        while wire.packets() > 1 {
            wire.ack(1);
            assert_eq!(wire.cwnd(), retreat, "{name}");
        }
        assert_eq!(wire.state(), State::SafeRetreat, "{name}");
        wire.ack(1);
        // 20 packets before the jump, 34 and 95 unvalidated ones, and a Beta of 0.5.
        let threshold = (20 + 34 + 95) * MTU / 2;
        assert_eq!(wire.controller.ssthresh(), Some(threshold), "{name}");
        assert_eq!(wire.cwnd(), retreat, "{name}");
        assert_eq!(wire.state(), State::SlowStart, "{name}");
        let events = [ResumeEvent::Jumped, ResumeEvent::Retreated];
        assert_eq!(memory.events(), events, "{name}");
        for _ in 0..8 {
            wire.round();
        }
        assert_eq!(wire.state(), State::CongestionAvoidance, "{name}");
    }
}

#[test]
fn further_losses_do_not_change_the_window_of_a_retreat() {
    for algorithm in loss_based() {
        let name = algorithm.name;
        let memory = saved();
        let mut wire = validating(&algorithm, &memory);
        wire.ack(20);
        wire.lose(1);
        let retreat = wire.cwnd();
        assert_eq!(retreat, 10 * MTU, "{name}");
        for _ in 0..20 {
            wire.event(2, 1, 0);
            assert_eq!(wire.cwnd(), retreat, "{name}");
        }
        assert_eq!(memory.events().len(), 2, "{name}");
    }
}

#[test]
fn congestion_or_a_shorter_round_trip_ends_a_try_at_once() {
    for algorithm in loss_based() {
        let name = algorithm.name;
        for (lost, ce, rtt) in [(1, 0, RTT), (0, 1, RTT), (0, 0, RTT / 2)] {
            let memory = saved();
            let mut wire = unvalidated(&algorithm, &memory);
            wire.wait(ms(RTT));
            wire.rtt = ms(rtt);
            wire.event(lost, 1, ce);
            assert_eq!(wire.state(), State::SafeRetreat, "{name}");
            assert_eq!(wire.cwnd(), 10 * MTU, "{name}");
            assert_eq!(memory.contents().saved, None, "{name}");
        }
    }
}

#[test]
fn persistent_congestion_ends_careful_resume() {
    for algorithm in loss_based() {
        let name = algorithm.name;
        let memory = saved();
        let mut wire = validating(&algorithm, &memory);
        wire.lose(150);
        wire.controller.on_persistent_congestion(wire.now);
        assert_eq!(wire.state(), State::SlowStart, "{name}");
        assert_eq!(wire.cwnd(), 2 * MTU, "{name}");
        let threshold = wire.controller.ssthresh();
        assert_eq!(threshold, Some(20 / 2 * MTU), "{name}");
        let events = [ResumeEvent::Jumped, ResumeEvent::Retreated];
        assert_eq!(memory.events(), events, "{name}");
    }
}

#[test]
fn late_acknowledgements_do_not_undo_a_retreat() {
    for algorithm in loss_based() {
        let name = algorithm.name;
        let mut wire = validating(&algorithm, &saved());
        wire.ack(20);
        wire.lose(1);
        wire.ack(usize::MAX);
        let before = wire.cwnd();
        wire.acknowledge_late(..);
        assert_eq!(wire.cwnd(), before, "{name}");
    }
}

#[test]
fn try_that_ends_early_is_undecided() {
    let events = [ResumeEvent::Jumped, ResumeEvent::Undecided];
    for algorithm in loss_based() {
        let name = algorithm.name;
        for begin in [unvalidated, validating] {
            let memory = saved();
            let wire = begin(&algorithm, &memory);
            drop(wire);
            assert_eq!(memory.events(), events, "{name}");
            assert!(!memory.contents().is_claimed, "{name}");

            let memory = saved();
            let mut wire = begin(&algorithm, &memory);
            wire.controller.on_path_changed(wire.now, PathChange::Address);
            drop(wire);
            assert_eq!(memory.events(), events, "{name}: once");
        }
    }
}

#[test]
fn capacity_is_tried_by_one_connection_at_a_time() {
    for algorithm in loss_based() {
        let name = algorithm.name;
        let memory = saved();
        let first = validating(&algorithm, &memory);
        let jumps = |memory: &Memory| {
            let events = memory.events();
            events.iter().filter(|e| **e == ResumeEvent::Jumped).count()
        };
        let second = || {
            let mut wire = wire(&algorithm, &memory);
            reconnoitre(&mut wire);
            wire.send(20);
            wire
        };
        assert_eq!(second().cwnd(), 20 * MTU, "{name}");
        assert_eq!(jumps(&memory), 1, "{name}");
        drop(first);
        assert_eq!(second().cwnd(), 150 * MTU, "{name}");
        assert_eq!(jumps(&memory), 2, "{name}");
    }
}

#[test]
fn another_address_ends_careful_resume_and_another_port_does_not() {
    for algorithm in loss_based() {
        let name = algorithm.name;
        let memory = saved();
        let mut wire = validating(&algorithm, &memory);
        let change = |wire: &mut Wire, change| {
            wire.controller.on_path_changed(wire.now, change);
        };
        change(&mut wire, PathChange::Port);
        assert_eq!(wire.state(), State::Validating, "{name}");
        change(&mut wire, PathChange::Address);
        assert_eq!(wire.cwnd(), IW as u64 * MTU, "{name}");
        let contents = memory.contents();
        assert!(!contents.is_claimed && contents.saved.is_some(), "{name}");
    }
}

#[test]
fn algorithm_with_a_model_does_not_resume() {
    let memory = saved();
    let mut wire = wire(&named("bbr3"), &memory);
    reconnoitre(&mut wire);
    wire.fill();
    assert_eq!(memory.events(), []);
    assert!(!memory.contents().is_claimed);
}
