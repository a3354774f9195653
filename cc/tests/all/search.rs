//! The first slow start with SEARCH (draft-chung-ccwg-search-09), beside the other kinds.

use std::time::Duration;

use sluicegate_cc::{Algorithm, PathChange, State};
use sluicegate_sim::{Bottleneck, FlowOutcome, Source};

use crate::test_support::wire::Wire;
use crate::test_support::{MBIT, MTU, loss_based, ms, run_one, secs, slow_starts, with_slow_start};

const SEARCH: &str = "search";
const HYSTART: &str = "hystart++";
const STANDARD: &str = "standard";

const RTT: Duration = ms(40);

/// Returns a path of that rate, Mbit/s, with a queue of so many BDPs; and its BDP, bytes.
fn path(mbit: u64, queue: f64) -> (Bottleneck, u64) {
    let bdp = mbit * MBIT / 8 * 40 / 1_000;
    (Bottleneck::new(mbit * MBIT, RTT, queue), bdp)
}

fn run(
    algorithm: &Algorithm,
    kind: &'static str,
    bottleneck: &Bottleneck,
    seed: u64,
) -> FlowOutcome {
    let controller = with_slow_start(algorithm, kind);
    run_one(controller, bottleneck, Source::Endless, secs(2), seed)
}

/// Returns the state after the first slow start, and the bytes in flight at its end.
fn end(outcome: &FlowOutcome) -> (State, u64) {
    let left = outcome.transitions.iter().find(|t| {
        let starts = |state| matches!(state, State::SlowStart | State::ConservativeSlowStart);
        starts(t.from) && !starts(t.to)
    });
    let left = left.expect("a full path ends it");
    let before = outcome.samples.iter().rfind(|s| s.at <= left.at);
    (left.to, before.expect("sampled").in_flight)
}

// The draft's abstract: after the congestion point is reached, but before packets are lost.

#[test]
fn path_with_a_deep_queue_is_found_full_and_drained_before_anything_is_lost() {
    for algorithm in loss_based() {
        for mbit in [20, 100] {
            let name = format!("{}, {mbit} Mbit/s", algorithm.name);
            let (bottleneck, bdp) = path(mbit, 8.0);
            let outcome = run(&algorithm, SEARCH, &bottleneck, 1);
            let (state, in_flight) = end(&outcome);
            println!("{name}: {in_flight} bytes in flight, BDP {bdp}");
            assert_eq!(state, State::Drain, "{name}");
            assert!(in_flight >= bdp, "{name}: {in_flight}");
            assert_eq!(outcome.lost_packets, 0, "{name}");
            let drained = outcome.transitions.iter().find(|t| t.from == State::Drain);
            let drained = drained.expect("the drain ends");
            assert_eq!(drained.to, State::CongestionAvoidance, "{name}");
            let sample = outcome.samples.iter().find(|s| s.at > drained.at);
            let snapshot = sample.expect("sampled").snapshot;
            // Three bins of 0.35 round trips.
            let threshold = snapshot.ssthresh.expect("set") as f64 / bdp as f64;
            assert!((0.95..=1.15).contains(&threshold), "{name}: {threshold}");
        }
    }
}

#[test]
fn less_is_lost_than_with_standard_slow_start_if_the_queue_holds_two_round_trips() {
    for algorithm in loss_based() {
        for (mbit, queue) in [(20, 1.0), (20, 2.0), (20, 4.0), (100, 1.0), (100, 2.0), (100, 4.0)] {
            let (bottleneck, bdp) = path(mbit, queue);
            let outcomes =
                [STANDARD, HYSTART, SEARCH].map(|kind| run(&algorithm, kind, &bottleneck, 1));
            let [standard, hystart, search] = outcomes.each_ref().map(|o| o.lost_packets);
            let name = format!("{}, {mbit} Mbit/s, {queue} BDP", algorithm.name);
            println!("{name}: {standard} lost, hystart++ {hystart}, search {search}");
            assert!(end(&outcomes[2]).1 >= bdp, "{name}");
            // The loss of a shorter queue is found before the path is.
            let fewer = search < standard || queue == 1.0 && search == standard;
            assert!(fewer, "{name}: {search} for {standard}");
        }
    }
}

// The draft's introduction: HyStart leaves early on wireless links, whose delay varies without load.

#[test]
fn delay_that_rises_without_load_ends_hystart_and_not_search() {
    for algorithm in loss_based() {
        let (plain, bdp) = path(100, 1.0);
        let longer = Bottleneck { delay_steps: vec![(3 * RTT, RTT * 3 / 4)], ..plain };
        let [hystart, search] = [HYSTART, SEARCH].map(|kind| run(&algorithm, kind, &longer, 1));
        let name = algorithm.name;
        // The longer delay makes the BDP 3/2.
        assert!(end(&hystart).1 < bdp * 3 / 2, "{name}: {:?}", end(&hystart));
        assert!(end(&search).1 >= bdp * 3 / 2, "{name}: {:?}", end(&search));
        let [early, late] = [&hystart, &search].map(|o| o.throughput(ms(0), secs(2)));
        println!("{name}: {early} and {late} bit/s");
        assert!(late > early, "{name}: {late} and {early}");
    }
}

#[test]
fn jitter_and_acks_in_batches_do_not_end_it_before_the_path_is_full() {
    for algorithm in loss_based() {
        for (jitter, hold) in [(5, 0), (10, 0), (15, 0), (0, 10), (0, 20), (5, 10)] {
            for (mbit, queue) in [(20, 1.0), (100, 1.0), (20, 8.0), (100, 8.0)] {
                let (plain, bdp) = path(mbit, queue);
                let varying = Bottleneck { jitter: ms(jitter), ack_hold: ms(hold), ..plain };
                for seed in 1..=5 {
                    let (_, in_flight) = end(&run(&algorithm, SEARCH, &varying, seed));
                    assert!(
                        in_flight >= bdp,
                        "{}, {mbit} Mbit/s, {queue} BDP, jitter {jitter} ms, ACKs held {hold} ms, seed {seed}: {in_flight}",
                        algorithm.name
                    );
                }
            }
        }
    }
}

#[test]
fn application_that_pauses_ends_no_slow_start() {
    let periodic = |bytes, every| Source::Periodic { bytes, every: ms(every), times: 1_000 };
    let growing = (0..60u32).map(|i| (ms(u64::from(i * i * 3)), 10_000 * u64::from(i)));
    let sources = [
        periodic(1_000, 7),
        periodic(1_000, 90),
        periodic(20_000, 30),
        periodic(100_000, 100),
        periodic(300_000, 250),
        Source::Bursts(growing.collect()),
    ];
    for algorithm in loss_based() {
        for (place, source) in sources.iter().enumerate() {
            let (bottleneck, _) = path(100, 8.0);
            let controller = with_slow_start(&algorithm, SEARCH);
            let outcome = run_one(controller, &bottleneck, source.clone(), secs(10), 1);
            let name = algorithm.name;
            assert!(outcome.delivered > 100_000, "{name}, source {place}");
            assert_eq!(outcome.transitions, [], "{name}, source {place}");
        }
    }
}

/// Returns a wire of 40 ms in a first slow start with SEARCH.
fn wires() -> impl Iterator<Item = (&'static str, Wire)> {
    loss_based().into_iter().map(|algorithm| {
        assert!(slow_starts(&algorithm).contains(&SEARCH));
        let wire = Wire::new(with_slow_start(&algorithm, SEARCH), RTT);
        (algorithm.name, wire)
    })
}

/// Round trips in each of which `capacity` packets are acknowledged, until the path is found full. Returns their number.
fn fill_up(wire: &mut Wire, capacity: usize) -> usize {
    for round in 0..40 {
        if wire.state() != State::SlowStart {
            return round;
        }
        wire.fill();
        wire.wait(wire.rtt);
        wire.ack(capacity);
    }
    panic!("never found full");
}

#[test]
fn new_address_starts_over_and_a_new_port_does_not() {
    for (name, mut wire) in wires() {
        fill_up(&mut wire, 50);
        assert_eq!(wire.state(), State::Drain, "{name}");
        let before = wire.cwnd();
        let now = wire.now;
        wire.controller.on_path_changed(now, PathChange::Port);
        assert_eq!((wire.state(), wire.cwnd()), (State::Drain, before), "{name}");
        wire.controller.on_path_changed(now, PathChange::Address);
        assert_eq!(wire.state(), State::SlowStart, "{name}");
        assert_eq!(wire.cwnd(), 10 * MTU, "{name}");
        // What is left of the old path does not count.
        wire.ack(usize::MAX);
        wire.rtt = ms(10);
        fill_up(&mut wire, 200);
        assert_eq!(wire.state(), State::Drain, "{name}");
    }
}

#[test]
fn loss_while_the_queue_drains_is_a_signal_and_undone_if_it_was_none() {
    for (name, mut wire) in wires() {
        fill_up(&mut wire, 50);
        let before = wire.snapshot();
        wire.event(1, 3, 0);
        assert_eq!(wire.state(), State::Recovery, "{name}");
        assert!(wire.snapshot().ssthresh < Some(before.cwnd), "{name}");
        wire.acknowledge_late(..);
        let after = wire.snapshot();
        assert_eq!((after.state, after.cwnd), (State::Drain, before.cwnd), "{name}");
        assert_eq!(after.ssthresh, None, "{name}");
    }
}

#[test]
fn slow_start_that_an_undo_returns_to_knows_what_was_sent_and_delivered_meanwhile() {
    for (name, mut wire) in wires() {
        (0..5).for_each(|_| wire.round());
        wire.fill();
        wire.wait(wire.rtt);
        wire.event(1, 100, 0);
        for _ in 0..2 {
            wire.wait(wire.rtt);
            wire.ack(usize::MAX);
            wire.fill();
        }
        wire.acknowledge_late(..);
        assert_eq!(wire.state(), State::SlowStart, "{name}");
        wire.wait(wire.rtt);
        wire.ack(usize::MAX);
        for round in 0..4 {
            wire.round();
            assert_eq!(wire.state(), State::SlowStart, "{name}: round {round}");
        }
        fill_up(&mut wire, 2_000);
        assert_eq!(wire.state(), State::Drain, "{name}");
    }
}

#[test]
fn persistent_congestion_ends_it_for_good() {
    for (name, mut wire) in wires() {
        (0..4).for_each(|_| wire.round());
        wire.congest_persistently();
        for round in 0..20 {
            wire.round();
            assert_ne!(wire.state(), State::Drain, "{name}: round {round}");
        }
    }
}
