//! The collapse on real connections: our algorithms come back, and the scenario catches one that does not.
//!
//! A failing seed replays with `cargo run -p sluicegate-benches --bin collapse -- --algorithm <name> --seed <seed>`.

use sluicegate_benches::collapse::{BYTES, LossOn, scenario};
use sluicegate_benches::virtual_net::{Control, Sweep, sweep};

const SEEDS: u64 = 100;
/// Seeds with which ACKs are lost, too, in tests of each change.
const FEWER_SEEDS: u64 = 30;
const THREADS: usize = 2;

fn collapse(control: Control, loss_on: LossOn, seeds: u64) -> Sweep {
    let sweep = sweep(0..seeds, THREADS, |seed| scenario(control, loss_on, seed))
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

/// Takes long: a collapse depends on which packets are lost, so each algorithm downloads 10 MB with each of a hundred seeds.
#[test]
fn every_algorithm_is_done_in_time_from_every_seed_and_cubic_keeps_up_with_reno() {
    let mut means = Vec::new();
    for control in Control::ours() {
        let sweep = collapse(control, LossOn::Down, SEEDS);
        assert_eq!(sweep.failed_seeds(), [0; 0], "{control}: replay these seeds");
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

/// Takes long: a collapse depends on which packets are lost, so each algorithm downloads 10 MB with each of thirty seeds.
#[test]
fn loss_of_acks_too_is_survived() {
    survives_loss_of_acks(FEWER_SEEDS);
}

#[test]
#[ignore = "long: each algorithm downloads 10 MB with each of a hundred seeds"]
fn loss_of_acks_too_is_survived_from_every_seed() {
    survives_loss_of_acks(SEEDS);
}

fn survives_loss_of_acks(seeds: u64) {
    for control in Control::ours() {
        let sweep = collapse(control, LossOn::BothWays, seeds);
        assert_eq!(sweep.failed_seeds(), [0; 0], "{control}: replay these seeds with --both-ways");
    }
}

#[test]
fn quiche_cubic_without_its_fix_is_caught() {
    let unfixed = collapse(Control::QuicheCubic { idle_fix: false }, LossOn::Down, SEEDS);
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
