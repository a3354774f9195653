//! A receiver that acknowledges what it never received soon gets no more than one that tells the truth.

use sluicegate_cc::Algorithm;
use sluicegate_sim::{Bottleneck, LossWindow, Source};

use crate::test_support::forged::Forged;
use crate::test_support::{MBIT, algorithms, controller, ms, run_one, secs};

/// Returns the mean rate, bits per second, and the mean window, bytes, of the last 40 seconds of a minute.
fn means(algorithm: &Algorithm, bottleneck: &Bottleneck, forged: bool) -> [f64; 2] {
    const SEEDS: u64 = 3;
    let (from, until) = (secs(20), secs(60));
    let mut means = [0.0; 2];
    for seed in 0..SEEDS {
        let controller = controller(algorithm, seed);
        let controller = if forged { Forged::new(controller) } else { controller };
        let outcome = run_one(controller, bottleneck, Source::Endless, until, seed);
        means[0] += outcome.throughput(from, until) / SEEDS as f64;
        means[1] += outcome.mean_cwnd(from, until) / SEEDS as f64;
    }
    means
}

#[test]
fn forged_acknowledgements_raise_rate_and_window_for_a_short_time_only() {
    let path = |loss| Bottleneck {
        loss: vec![LossWindow::always(loss)],
        ..Bottleneck::new(20 * MBIT, ms(40), 1.0)
    };
    for loss in [0.0, 0.003, 0.02] {
        for algorithm in algorithms() {
            let name = algorithm.name;
            let honest = means(&algorithm, &path(loss), false);
            let forged = means(&algorithm, &path(loss), true);
            println!("{name}, loss {loss}: {honest:.0?}, forged {forged:.0?}");
            for (honest, forged) in honest.iter().zip(forged) {
                assert!(forged < 1.1 * honest, "{name}, loss {loss}");
            }
        }
    }
}
