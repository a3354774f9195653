//! Scenarios that need more than the matrix of `benches/src/matrix/` measures, where every algorithm's rates and delays
//! are stated.

use std::time::Duration;

use sluicegate_cc::Algorithm;
use sluicegate_sim::{Bottleneck, LossWindow, Source};

use crate::test_support::{MBIT, MTU, algorithms, alone, ms, named, secs};

/// Returns the mean window at random loss `p`, datagrams.
fn mean_window(algorithm: &Algorithm, p: f64, duration: Duration, seeds: u64) -> f64 {
    let bottleneck = Bottleneck {
        loss: vec![LossWindow::always(p)],
        ..Bottleneck::new(1_000 * MBIT, ms(100), 1.0)
    };
    let run = |seed| {
        alone(algorithm, &bottleneck, Source::Endless, duration, seed).mean_cwnd(secs(20), duration)
    };
    (0..seeds).map(run).sum::<f64>() / seeds as f64 / MTU as f64
}

fn assert_response(name: &str, table: &[(f64, f64)], duration: Duration, seeds: u64) {
    let algorithm = named(name);
    for &(p, expected) in table {
        let window = mean_window(&algorithm, p, duration, seeds);
        println!("{name}: p = {p}: {window:.1} datagrams, expected {expected}");
        assert!((0.75..=1.25).contains(&(window / expected)), "{name}, p = {p}: {window}");
    }
}

#[test]
#[ignore = "long: a loss in 100,000 packets needs simulated hours"]
fn windows_at_rare_loss_follow_the_table_of_rfc_9438() {
    assert_response("cubic", &[(1e-5, 1_054.0)], secs(3_600), 2);
}

#[test]
fn blackout_is_one_persistent_congestion() {
    for algorithm in algorithms() {
        let loss = vec![LossWindow { from: secs(5), until: secs(7), probability: 1.0 }];
        let bottleneck = Bottleneck { loss, ..Bottleneck::new(20 * MBIT, ms(30), 1.0) };
        let outcome = alone(&algorithm, &bottleneck, Source::Endless, secs(15), 1);
        assert_eq!(outcome.persistent_congestions, 1, "{}", algorithm.name);
    }
}
