//! What the scenarios share: algorithms by the registry, links by their numbers.
#![allow(dead_code, reason = "every test file uses its own part")]

pub(crate) mod wire;

use std::time::Duration;

use sluicegate_cc::sim::{Flow, FlowOutcome, Link, Simulation, Source};
use sluicegate_cc::{Algorithm, Controller, Init, Registry};

pub(crate) const MTU: u64 = 1_200;
pub(crate) const MBIT: u64 = 1_000_000;

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) fn algorithms() -> Vec<Algorithm> {
    Registry::builtin().iter().copied().collect()
}

pub(crate) fn init(seed: u64) -> Init {
    Init {
        mtu: MTU,
        initial_window_packets: 10,
        seed,
    }
}

pub(crate) fn controller(algorithm: &Algorithm, seed: u64) -> Box<dyn Controller> {
    algorithm.controller(&init(seed), &algorithm.defaults())
}

/// One flow alone on a link.
pub(crate) fn alone(
    algorithm: &Algorithm,
    link: &Link,
    source: Source,
    limit: Duration,
    seed: u64,
) -> FlowOutcome {
    run_one(controller(algorithm, seed), link, source, limit, seed)
}

pub(crate) fn run_one(
    controller: Box<dyn Controller>,
    link: &Link,
    source: Source,
    limit: Duration,
    seed: u64,
) -> FlowOutcome {
    let mut outcomes = Simulation::new(link.clone(), seed)
        .sampled_every(ms(10))
        .with(Flow::new(source), controller)
        .run(limit);
    outcomes.remove(0)
}
