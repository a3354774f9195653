//! The peer's address changes while a controller serves the path.

use sluicegate_cc::PathChange;
use sluicegate_sim::{Bottleneck, Flow, FlowOutcome, Simulation, Source};

use crate::test_support::{MBIT, MTU, algorithms, controller, init, ms, secs};

/// Twenty seconds at 20 Mbit/s, with a change after ten.
fn run(algorithm: &sluicegate_cc::Algorithm, change: Option<PathChange>) -> FlowOutcome {
    let flow = Flow {
        path_changes: change.map(|change| (secs(10), change)).into_iter().collect(),
        ..Flow::new(Source::Endless)
    };
    let mut outcomes = Simulation::new(Bottleneck::new(20 * MBIT, ms(40), 1.0), 1)
        .sampled_every(ms(10))
        .with(flow, controller(algorithm, 1))
        .run(secs(20));
    outcomes.remove(0)
}

fn cwnd_after(outcome: &FlowOutcome) -> u64 {
    let sample = outcome.samples.iter().find(|s| s.at > secs(10));
    sample.expect("sampled").snapshot.cwnd
}

#[test]
fn new_port_changes_nothing() {
    for algorithm in algorithms() {
        let (plain, moved) = (run(&algorithm, None), run(&algorithm, Some(PathChange::Port)));
        assert_eq!(plain.sent_packets, moved.sent_packets, "{}", algorithm.name);
        assert_eq!(plain.transitions, moved.transitions, "{}", algorithm.name);
    }
}

#[test]
fn new_address_starts_over_and_reaches_the_rate_again() {
    let initial = init(1).initial_window_packets * MTU;
    for algorithm in algorithms() {
        let moved = run(&algorithm, Some(PathChange::Address));
        assert!(cwnd_after(&run(&algorithm, None)) > 2 * initial);
        assert_eq!(cwnd_after(&moved), initial, "{}", algorithm.name);
        let restarted = |t: &&sluicegate_sim::Transition| t.at == secs(10);
        let state = moved.transitions.iter().find(restarted).map(|t| t.to);
        assert!(state.is_some_and(|state| state.is_starting()), "{}", algorithm.name);
        let late = moved.throughput(secs(15), secs(20)) / MBIT as f64;
        assert!(late >= 18.0, "{}: {late}", algorithm.name);
    }
}
