//! Support for the tests: algorithms from the registry, one flow in the simulator, a transport in the test's hand.

pub(crate) mod forged;
pub(crate) mod memory;
pub(crate) mod misjudged;
pub(crate) mod record;
pub(crate) mod wire;

use std::time::Duration;

use sluicegate_cc::{Algorithm, Controller, Init, OptionKind, Options, Registry, Value};
use sluicegate_sim::{Bottleneck, Flow, FlowOutcome, Simulation, Source};

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

/// Returns the algorithms whose window follows losses and nothing else.
pub(crate) fn loss_based() -> Vec<Algorithm> {
    let mut algorithms = algorithms();
    algorithms.retain(|a| a.has_window_law);
    algorithms
}

pub(crate) fn named(name: &str) -> Algorithm {
    let registry = Registry::builtin();
    *registry.find(name).expect("built in")
}

pub(crate) fn init(seed: u64) -> Init {
    Init { mtu: MTU, initial_window_packets: 10, seed }
}

/// Returns the algorithm's options with some of them given.
pub(crate) fn options(algorithm: &Algorithm, given: &[(&str, Value)]) -> Options {
    let mut options = algorithm.defaults();
    for (name, value) in given {
        options.set(name, *value).expect("valid");
    }
    options
}

pub(crate) fn controller(algorithm: &Algorithm, seed: u64) -> Box<dyn Controller> {
    algorithm.controller(&init(seed), &algorithm.defaults())
}

/// Returns the algorithm at its defaults, with each option at each end of its range, and with each word of a choice.
pub(crate) fn variants(algorithm: &Algorithm) -> Vec<(String, Options)> {
    let mut variants = vec![("defaults".to_owned(), algorithm.defaults())];
    for spec in algorithm.options {
        let ends = match spec.kind {
            OptionKind::Integer { min, max, .. } => vec![Value::Integer(min), Value::Integer(max)],
            OptionKind::Number { min, max, .. } => vec![Value::Number(min), Value::Number(max)],
            OptionKind::Boolean { .. } => vec![Value::Boolean(false), Value::Boolean(true)],
            OptionKind::Choice { among, .. } => among.iter().map(|w| Value::Choice(w)).collect(),
        };
        for value in ends {
            let options = options(algorithm, &[(spec.name, value)]);
            variants.push((format!("{} = {value:?}", spec.name), options));
        }
    }
    variants
}

/// Returns a loss-based algorithm's kinds of slow start.
pub(crate) fn slow_starts(algorithm: &Algorithm) -> &'static [&'static str] {
    let spec = algorithm.options.iter().find(|o| o.name == "slow_start");
    match spec.map(|spec| spec.kind) {
        Some(OptionKind::Choice { among, .. }) => among,
        _ => panic!("{} has no choice of slow start", algorithm.name),
    }
}

/// Returns a controller with that kind of slow start, and all else at its default.
pub(crate) fn with_slow_start(algorithm: &Algorithm, kind: &'static str) -> Box<dyn Controller> {
    let options = options(algorithm, &[("slow_start", Value::Choice(kind))]);
    algorithm.controller(&init(0), &options)
}

pub(crate) fn alone(
    algorithm: &Algorithm,
    bottleneck: &Bottleneck,
    source: Source,
    limit: Duration,
    seed: u64,
) -> FlowOutcome {
    run_one(controller(algorithm, seed), bottleneck, source, limit, seed)
}

pub(crate) fn run_one(
    controller: Box<dyn Controller>,
    bottleneck: &Bottleneck,
    source: Source,
    limit: Duration,
    seed: u64,
) -> FlowOutcome {
    let mut outcomes = Simulation::new(bottleneck.clone(), seed)
        .sampled_every(ms(10))
        .with(Flow::new(source), controller)
        .run(limit);
    outcomes.remove(0)
}
