//! The round trip after a cut, with data always waiting: no sender falls silent, and the bytes in flight end at the
//! threshold.

use std::time::Duration;

use sluicegate_cc::{Controller, State};
use sluicegate_sim::{Bottleneck, Flow, FlowOutcome, Simulation, Source};

use crate::test_support::wire::Wire;
use crate::test_support::{MBIT, MTU, algorithms, controller, loss_based, ms, named, secs};

fn sampled_finely(controller: Box<dyn Controller>, bottleneck: &Bottleneck) -> FlowOutcome {
    let mut outcomes = Simulation::new(bottleneck.clone(), 1)
        .sampled_every(ms(1))
        .with(Flow::new(Source::Endless), controller)
        .run(secs(30));
    outcomes.remove(0)
}

/// Returns the longest time without a packet in the `within` after each beginning of recovery.
fn longest_silence(outcome: &FlowOutcome, within: Duration) -> Duration {
    let begun = outcome.transitions.iter().filter(|t| t.to == State::Recovery);
    let mut longest = Duration::ZERO;
    for start in begun.map(|t| t.at) {
        let mut since = start;
        let mut sent = None;
        let samples = outcome.samples.iter();
        for sample in samples.filter(|s| s.at >= start && s.at < start + within) {
            if sent != Some(sample.sent_packets) {
                since = sample.at;
            }
            sent = Some(sample.sent_packets);
            longest = longest.max(sample.at.saturating_sub(since));
        }
    }
    longest
}

#[test]
fn no_sender_falls_silent_after_a_loss() {
    for algorithm in loss_based() {
        for queue_bdp in [0.5, 1.0] {
            let bottleneck = Bottleneck::new(50 * MBIT, ms(40), queue_bdp);
            let outcome = sampled_finely(controller(&algorithm, 1), &bottleneck);
            let silence = longest_silence(&outcome, ms(40));
            println!("{}, queue {queue_bdp} BDP: silent for {silence:?} at most", algorithm.name);
            assert!(outcome.lost_packets > 0, "{}", algorithm.name);
            assert!(silence <= ms(8), "{}: {silence:?}", algorithm.name);
        }
    }
}

/// Returns every loss-based algorithm in its fifth round, with a full window on its way whose ACKs are due.
fn full_wires() -> impl Iterator<Item = (&'static str, Wire)> {
    loss_based().into_iter().map(|algorithm| {
        let mut wire = Wire::new(controller(&algorithm, 0), ms(50));
        (0..4).for_each(|_| wire.round());
        wire.fill();
        wire.wait(wire.rtt);
        (algorithm.name, wire)
    })
}

#[test]
fn another_controller_goes_on_at_what_a_cut_left() {
    for next in algorithms() {
        for (name, mut wire) in full_wires() {
            wire.event(1, 2, 0);
            let cut = wire.snapshot().ssthresh.expect("a cut");
            assert!(wire.cwnd() > cut, "{name}: the window comes down in steps");
            wire.switch(controller(&next, 1));
            assert!(wire.cwnd() <= cut, "{name} to {}: {} of {cut}", next.name, wire.cwnd());
        }
    }
}

#[test]
fn first_lost_packet_goes_again_at_once_whatever_is_in_flight() {
    for (name, mut wire) in full_wires() {
        wire.event(1, 3, 0);
        assert!(wire.in_flight + MTU <= wire.cwnd(), "{name}");
    }
}

#[test]
fn flight_comes_down_to_the_threshold_over_the_round() {
    for (name, mut wire) in full_wires() {
        let packets = wire.packets();
        wire.event(1, 3, 0);
        let threshold = wire.controller.ssthresh().expect("cut");
        let mut sent = 0;
        for _ in 0..(packets - 4) / 2 {
            assert_eq!(wire.state(), State::Recovery, "{name}");
            let before = wire.packets();
            wire.fill();
            sent += wire.packets() - before;
            assert!(wire.packets() - before <= 3, "{name}: a burst");
            wire.ack(2);
        }
        wire.fill();
        assert!(sent > packets / 3, "{name}");
        let off = wire.in_flight.abs_diff(threshold);
        assert!(off <= 2 * MTU, "{name}: {} for {threshold}", wire.in_flight);
    }
}

#[test]
fn marks_cut_at_once_unless_the_response_is_scalable() {
    for (name, mut wire) in full_wires().filter(|(name, _)| !named(name).scalable) {
        wire.event(0, 2, 1);
        assert_eq!(wire.state(), State::Recovery, "{name}");
        assert_eq!(Some(wire.cwnd()), wire.controller.ssthresh(), "{name}");
    }
}

#[test]
fn flight_that_losses_took_below_the_threshold_regains_no_more_than_was_delivered() {
    for (name, mut wire) in full_wires() {
        let most = wire.packets() * 4 / 5;
        wire.event(most, 3, 0);
        let room = wire.cwnd() - wire.in_flight;
        assert_eq!(room, 3 * MTU, "{name}: with losses");
        wire.fill();
        wire.ack(2);
        let room = wire.cwnd() - wire.in_flight;
        assert_eq!(room, 3 * MTU, "{name}: without, one more");
    }
}
