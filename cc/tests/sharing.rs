//! Flows beside others, over minutes.

mod test_support;

use std::time::Duration;

use sluicegate_cc::Algorithm;
use sluicegate_cc::sim::{Bottleneck, Flow, FlowOutcome, LossWindow, Simulation, Source};
use test_support::{MBIT, algorithms, controller, ms, secs};

fn mbit(outcome: &FlowOutcome, from: Duration, until: Duration) -> f64 {
    outcome.throughput(from, until) / 1e6
}

#[test]
fn flows_of_one_kind_share_evenly() {
    for algorithm in algorithms() {
        for flows in [2, 6] {
            let mut simulation = Simulation::new(Bottleneck::new(50 * MBIT, ms(40), 1.0), 1);
            for i in 0..flows {
                let flow = Flow {
                    start: secs(2 * i),
                    ..Flow::new(Source::Endless)
                };
                simulation = simulation.with(flow, controller(&algorithm, i));
            }
            let outcomes = simulation.run(secs(120));
            let rates: Vec<_> = outcomes
                .iter()
                .map(|o| mbit(o, secs(20), secs(120)))
                .collect();
            let (sum, squares) = rates
                .iter()
                .fold((0.0, 0.0), |(s, q), r| (s + r, q + r * r));
            let jain = sum * sum / (flows as f64 * squares);
            println!(
                "{}: {flows} flows: Jain {jain:.3}, {rates:.1?}",
                algorithm.name
            );
            assert!(jain >= 0.95, "{}: {flows} flows: {jain}", algorithm.name);
        }
    }
}

/// A flow that never ends beside two that come and go, one after idle gaps; smallest rate of any 10 seconds, Mbit/s.
fn worst_stretch(algorithm: &Algorithm, minutes: u64, seed: u64) -> f64 {
    let limit = secs(60 * minutes);
    let visits = |first: u64, every: u64, bytes: u64| {
        let at = (first..60 * minutes).step_by(usize::try_from(every).expect("small"));
        Source::Bursts(at.map(|at| (secs(at), bytes)).collect())
    };
    let bottleneck = Bottleneck {
        jitter: ms(1),
        loss: vec![LossWindow::always(0.000_1)],
        ..Bottleneck::new(20 * MBIT, ms(40), 1.0)
    };
    let outcomes = Simulation::new(bottleneck, seed)
        .with(Flow::new(Source::Endless), controller(algorithm, seed))
        .with(
            Flow::new(visits(20, 60, 30_000_000)),
            controller(algorithm, seed + 1),
        )
        .with(
            Flow::new(visits(35, 90, 5_000_000)),
            controller(algorithm, seed + 2),
        )
        .run(limit);
    let windows = (1..6 * minutes).map(|i| mbit(&outcomes[0], secs(10 * i), secs(10 * (i + 1))));
    let worst = windows.fold(f64::MAX, f64::min);
    println!(
        "{}: {minutes} minutes: worst ten seconds {worst:.2} Mbit/s",
        algorithm.name
    );
    worst
}

#[test]
fn long_flow_beside_visitors_is_never_stuck() {
    for algorithm in algorithms() {
        assert!(worst_stretch(&algorithm, 5, 1) >= 2.0, "{}", algorithm.name);
    }
}

#[test]
#[ignore = "long: thirty simulated minutes for several seeds"]
fn half_an_hour_beside_visitors_is_never_stuck() {
    for algorithm in algorithms() {
        for seed in 0..5 {
            assert!(
                worst_stretch(&algorithm, 30, seed) >= 2.0,
                "{}",
                algorithm.name
            );
        }
    }
}
