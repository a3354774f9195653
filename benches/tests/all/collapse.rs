//! The collapse on real connections: our algorithms come back, and the scenario catches one that does not.
//!
//! A failing seed replays with `cargo run -p sluicegate-benches --bin collapse -- --algorithm <name> --seed <seed>`.

use sluicegate_benches::collapse::{BYTES, LossOn, scenario};
use sluicegate_benches::virtual_net::{Control, Sweep, sweep};

const SEEDS: u64 = 100;
const THREADS: usize = 2;

fn collapse(control: Control, loss_on: LossOn) -> Sweep {
    let sweep = sweep(0..SEEDS, THREADS, |seed| scenario(control, loss_on, seed))
        .expect("both ends can be set up");
    println!("{control}, loss {loss_on:?}: {sweep}");
    for (seed, outcome) in &sweep.runs {
        let whole = outcome.received == BYTES;
        assert!(
            whole || outcome.completed.is_none(),
            "{control}, seed {seed}: done with {} bytes",
            outcome.received
        );
    }
    sweep
}

#[test]
fn every_algorithm_is_done_in_time_from_every_seed_and_cubic_keeps_up_with_reno() {
    let mut means = Vec::new();
    for control in Control::ours() {
        let sweep = collapse(control, LossOn::Down);
        assert_eq!(
            sweep.failed_seeds(),
            [0; 0],
            "{control}: replay these seeds"
        );
        means.push((control, sweep.mean()));
    }
    let mean = |name| {
        means
            .iter()
            .find(|&&(control, _)| control == Control::of(name))
            .map(|&(_, mean)| mean)
            .expect("built in")
    };
    let (cubic, reno) = (mean("cubic"), mean("reno"));
    assert!(cubic <= 1.15 * reno, "{cubic} s against {reno} s");
}

#[test]
fn loss_of_acks_too_is_survived() {
    for control in Control::ours() {
        let sweep = collapse(control, LossOn::BothWays);
        assert_eq!(
            sweep.failed_seeds(),
            [0; 0],
            "{control}: replay these seeds with --both-ways"
        );
    }
}

#[test]
fn quiche_cubic_without_its_fix_is_caught() {
    let unfixed = collapse(Control::QuicheCubic { idle_fix: false }, LossOn::Down);
    let failed = unfixed.failed_seeds().len();
    assert!(failed >= 25, "the scenario misses the defect: {unfixed}");
    for (seed, outcome) in &unfixed.runs {
        let pinned = outcome.final_cwnd < 6_000;
        assert!(
            outcome.completed.is_some() || pinned,
            "seed {seed}: not done for another reason, window {}",
            outcome.final_cwnd
        );
    }
}
