//! The same scenario over many seeds, on several threads.

use std::fmt;
use std::ops::Range;

use super::{Outcome, Scenario, SimulationError, run};
use crate::jobs;

/// Outcomes by seed, ascending.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Each seed with the outcome of each of its downloads.
    pub runs: Vec<(u64, Outcome)>,
}

/// Runs the scenario of each seed on `threads` threads. The result does not depend on their number.
///
/// # Errors
///
/// The first error that a thread met.
pub fn sweep(
    seeds: Range<u64>,
    threads: usize,
    scenario: impl Fn(u64) -> Scenario + Sync,
) -> Result<Sweep, SimulationError> {
    let seeds: Vec<u64> = seeds.collect();
    let runs = jobs::run(seeds.len(), threads, |number, _| {
        let seed = seeds[number];
        Ok::<_, SimulationError>(run(&scenario(seed))?.into_iter().map(move |one| (seed, one)))
    })?;
    Ok(Sweep { runs: runs.into_iter().flatten().collect() })
}

impl Sweep {
    /// Runs that finished in time.
    pub fn passed(&self) -> usize {
        self.times().count()
    }

    /// Returns the mean time of the runs that finished, seconds; NaN where none did.
    pub fn mean(&self) -> f64 {
        self.times().sum::<f64>() / self.passed() as f64
    }

    /// Returns the longest time of the runs that finished, seconds.
    pub fn longest(&self) -> f64 {
        self.times().fold(0.0, f64::max)
    }

    /// Seeds of the runs that did not finish.
    pub fn failed_seeds(&self) -> Vec<u64> {
        self.runs
            .iter()
            .filter(|(_, outcome)| outcome.completed.is_none())
            .map(|&(seed, _)| seed)
            .collect()
    }

    fn times(&self) -> impl Iterator<Item = f64> {
        self.runs.iter().filter_map(|(_, outcome)| outcome.completed).map(|time| time.as_secs_f64())
    }
}

impl fmt::Display for Sweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} in time, mean {:.3} s, longest {:.3} s",
            self.passed(),
            self.runs.len(),
            self.mean(),
            self.longest()
        )?;
        let failed = self.failed_seeds();
        if !failed.is_empty() {
            write!(f, ", failed seeds {failed:?}")?;
        }
        Ok(())
    }
}
