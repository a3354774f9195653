//! Cuts for losses that were none are undone, and no others.

use std::time::Duration;

use sluicegate_cc::{PathChange, State};
use sluicegate_sim::{Bottleneck, FlowOutcome, LossWindow, Reorder, Source};

use crate::test_support::wire::Wire;
use crate::test_support::{MBIT, MTU, algorithms, alone, controller, loss_based, ms, named, secs};

/// Returns every loss-based algorithm in avoidance, with a full window on its way whose ACKs are due.
fn full_wires() -> impl Iterator<Item = (&'static str, Wire)> {
    loss_based().into_iter().map(|algorithm| {
        let mut wire = Wire::new(controller(&algorithm, 0), ms(50));
        (0..4).for_each(|_| wire.round());
        wire.reach_avoidance();
        (0..20).for_each(|_| wire.round());
        wire.fill();
        wire.wait(wire.rtt);
        (algorithm.name, wire)
    })
}

#[test]
fn state_before_the_cut_returns_when_its_packets_arrive() {
    for (name, mut wire) in full_wires() {
        let before = wire.snapshot();
        assert_eq!(before.state, State::CongestionAvoidance, "{name}");
        wire.event(2, 3, 0);
        assert!(wire.snapshot().ssthresh < before.ssthresh.max(Some(before.cwnd)));
        assert_eq!(wire.state(), State::Recovery, "{name}");
        wire.acknowledge_late(..1);
        assert_eq!(wire.state(), State::Recovery, "{name}");
        wire.acknowledge_late(..);
        let after = wire.snapshot();
        assert_eq!(after.cwnd, before.cwnd, "{name}");
        assert_eq!(after.ssthresh, before.ssthresh, "{name}");
        assert_eq!(after.state, before.state, "{name}");
        assert_eq!(after.epoch, before.epoch, "{name}: the same curve");
    }
}

#[test]
fn growth_goes_on_as_if_there_had_been_no_cut() {
    for ((name, mut undone), (_, mut plain)) in full_wires().zip(full_wires()) {
        undone.event(1, 3, 0);
        undone.acknowledge_late(..);
        plain.ack(4);
        for wire in [&mut undone, &mut plain] {
            (0..10).for_each(|_| wire.round());
        }
        let off = undone.cwnd().abs_diff(plain.cwnd());
        assert!(off <= MTU, "{name}: {} for {}", undone.cwnd(), plain.cwnd());
    }
}

#[test]
fn first_slow_start_goes_on() {
    for algorithm in loss_based() {
        let mut wire = Wire::new(controller(&algorithm, 0), ms(50));
        (0..3).for_each(|_| wire.round());
        wire.fill();
        wire.wait(wire.rtt);
        let before = wire.cwnd();
        wire.event(1, 3, 0);
        wire.acknowledge_late(..);
        assert_eq!(wire.state(), State::SlowStart, "{}", algorithm.name);
        assert_eq!(wire.snapshot().ssthresh, None, "{}", algorithm.name);
        wire.round();
        assert!(wire.cwnd() > before * 3 / 2, "{}", algorithm.name);
    }
}

#[test]
fn loss_that_is_found_after_the_undo_cuts() {
    for (name, mut wire) in full_wires() {
        let before = wire.cwnd();
        wire.event(1, 3, 0);
        wire.acknowledge_late(..);
        assert_eq!(wire.cwnd(), before, "{name}");
        wire.event(1, 3, 0);
        assert_eq!(wire.state(), State::Recovery, "{name}");
        assert!(wire.snapshot().ssthresh < Some(before), "{name}");
    }
}

#[test]
fn sixteen_cuts_of_a_path_are_undone() {
    for (name, mut wire) in full_wires() {
        for _ in 0..16 {
            let before = wire.snapshot().ssthresh;
            wire.event(1, 3, 0);
            wire.acknowledge_late(..);
            assert_eq!(wire.snapshot().ssthresh, before, "{name}");
            wire.round();
            wire.fill();
            wire.wait(wire.rtt);
        }
        let before = wire.snapshot().ssthresh;
        wire.event(1, 3, 0);
        wire.acknowledge_late(..);
        assert_eq!(wire.state(), State::Recovery, "{name}");
        assert!(wire.snapshot().ssthresh < before, "{name}");
        // A new path starts with a full allowance.
        wire.controller.on_path_changed(wire.now, PathChange::Address);
        (0..3).for_each(|_| wire.round());
        wire.fill();
        wire.wait(wire.rtt);
        wire.event(1, 3, 0);
        wire.acknowledge_late(..);
        assert_eq!(wire.state(), State::SlowStart, "{name}");
    }
}

#[test]
fn packets_of_an_earlier_cut_undo_no_later_one() {
    for (name, mut wire) in full_wires() {
        wire.event(1, usize::MAX, 0);
        wire.round();
        wire.round();
        wire.fill();
        wire.wait(wire.rtt);
        wire.event(1, usize::MAX, 0);
        let cut = wire.snapshot();
        wire.acknowledge_late(..1);
        assert_eq!(wire.snapshot().ssthresh, cut.ssthresh, "{name}");
        assert_eq!(wire.cwnd(), cut.cwnd, "{name}");
    }
}

#[test]
fn cut_with_a_mark_stays() {
    for (name, mut wire) in full_wires() {
        wire.event(1, 3, 1);
        let threshold = wire.snapshot().ssthresh;
        wire.acknowledge_late(..);
        assert_eq!(wire.snapshot().ssthresh, threshold, "{name}");
    }
    for (name, mut wire) in full_wires() {
        wire.event(1, 3, 0);
        wire.event(0, 2, 1);
        let threshold = wire.snapshot().ssthresh;
        wire.acknowledge_late(..);
        let after = wire.snapshot().ssthresh;
        assert_eq!(after, threshold, "{name}: a mark in recovery");
    }
}

#[test]
fn window_that_has_outgrown_the_old_one_stays() {
    for (name, mut wire) in full_wires() {
        let before = wire.cwnd();
        wire.event(1, usize::MAX, 0);
        while wire.cwnd() <= before {
            wire.round();
        }
        let grown = wire.snapshot();
        wire.acknowledge_late(..);
        assert_eq!(wire.cwnd(), grown.cwnd, "{name}");
        assert_eq!(wire.snapshot().ssthresh, grown.ssthresh, "{name}");
    }
}

#[test]
fn persistent_congestion_of_packets_that_arrive_is_undone() {
    for (name, mut wire) in full_wires() {
        let before = wire.snapshot();
        wire.event(5, 0, 0);
        wire.controller.on_persistent_congestion(wire.now);
        assert_eq!(wire.cwnd(), 2 * MTU, "{name}");
        wire.acknowledge_late(..);
        let after = wire.snapshot();
        assert_eq!(after.cwnd, before.cwnd, "{name}");
        assert_eq!(after.state, before.state, "{name}");
    }
}

#[test]
fn packets_of_another_address_undo_nothing() {
    for (name, mut wire) in full_wires() {
        wire.event(1, 3, 0);
        wire.controller.on_path_changed(wire.now, PathChange::Address);
        let initial = wire.cwnd();
        wire.acknowledge_late(..);
        assert_eq!(wire.cwnd(), initial, "{name}");
    }
}

/// Returns one flow at 50 Mbit/s and 40 ms for a minute, over a path on which some packets arrive `by` late.
fn reordered(name: &str, probability: f64, by: Duration) -> FlowOutcome {
    let bottleneck = Bottleneck {
        reorder: Some(Reorder { probability, by }),
        ..Bottleneck::new(50 * MBIT, ms(40), 1.0)
    };
    alone(&named(name), &bottleneck, Source::Endless, secs(60), 1)
}

/// Returns the packets lost between two times.
fn lost(outcome: &FlowOutcome, from: Duration, until: Duration) -> u64 {
    let until_then = |time| {
        let sample = outcome.samples.iter().find(|s| s.at >= time);
        sample.map_or(outcome.lost_packets, |s| s.lost_packets)
    };
    until_then(until) - until_then(from)
}

#[test]
fn reordering_costs_nothing_once_its_extent_is_learnt() {
    for algorithm in algorithms() {
        let name = algorithm.name;
        let (even, uneven) = (reordered(name, 0.0, ms(0)), reordered(name, 0.02, ms(4)));
        assert!(uneven.spurious_losses > 0, "{name}");
        let [even, uneven] = [even, uneven].map(|outcome| {
            let rate = outcome.throughput(secs(10), secs(60));
            (rate, lost(&outcome, secs(10), secs(60)))
        });
        println!("{name}: in order {even:?}, reordered {uneven:?}");
        assert!(uneven.0 > 0.99 * even.0, "{name}: {uneven:?}, {even:?}");
    }
}

#[test]
fn packets_later_than_any_threshold_cost_no_more_than_lost_ones() {
    for algorithm in algorithms() {
        let name = algorithm.name;
        let late = reordered(name, 0.000_1, ms(60));
        let lossy = Bottleneck {
            loss: vec![LossWindow::always(0.000_1)],
            ..Bottleneck::new(50 * MBIT, ms(40), 1.0)
        };
        let lost = alone(&algorithm, &lossy, Source::Endless, secs(60), 1);
        assert!(late.spurious_losses > 10, "{name}");
        let [late, lost] = [late, lost].map(|outcome| outcome.throughput(secs(10), secs(60)));
        println!("{name}: late {late:.0}, lost {lost:.0}");
        assert!(late > 0.95 * lost, "{name}: {late}, {lost}");
    }
}
