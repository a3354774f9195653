//! Compares what the simulator, virtual time and real sockets say of the same downloads.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use clap::builder::PossibleValuesParser;
use sluicegate_benches::agree::{Comparison, Place, comparisons};
use sluicegate_benches::jobs;
use sluicegate_benches::linkem::{End, end_with_signals};
use sluicegate_benches::real_net::product_program;
use sluicegate_cc::Registry;

/// Largest deviation from the real link.
const TOLERANCE: f64 = 0.1;

/// The same downloads in the simulator, in virtual time and over linkem: their mean times, and how far they are apart
///
/// Needs root, and the product's program. Ends with 1 if a mean is off that over linkem by more than a tenth.
#[derive(Debug, Parser)]
#[command(name = "agree")]
struct Arguments {
    /// One of the downloads alone
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(comparisons().iter().map(|one| one.name)))]
    only: Option<String>,
    /// Algorithms
    #[arg(long, value_delimiter = ',', default_value = "cubic,bbr3", value_parser = PossibleValuesParser::new(Registry::builtin().names()))]
    algorithms: Vec<String>,
    /// The product's program [default: beside this one]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Runs at the same time
    #[arg(long, default_value_t = 1)]
    jobs: usize,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    end_with_signals()?;
    let program = product_program(arguments.program.as_deref())?;
    let mut comparisons = comparisons();
    comparisons.retain(|one| arguments.only.as_ref().is_none_or(|name| name == one.name));
    println!(
        "| download | algorithm | simulator | connection | endpoint | linkem | farthest | lost at the ends | late at 99.9 % |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut agree = true;
    for comparison in &comparisons {
        for algorithm in &arguments.algorithms {
            let algorithm: &'static str = algorithm.clone().leak();
            agree &= compare(comparison, algorithm, &program, arguments.jobs)?;
        }
    }
    Ok(if agree { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints a row. Returns whether all places agree with the real link.
fn compare(
    comparison: &Comparison,
    algorithm: &'static str,
    program: &std::path::Path,
    jobs: usize,
) -> Result<bool> {
    let runs = usize::try_from(comparison.seeds)?;
    let mut means = Vec::new();
    for place in Place::ALL {
        let times = jobs::run(runs, jobs, |seed, _| comparison.run(place, algorithm, seed as u64))?;
        means.push(mean(&times));
    }
    let real = jobs::run(runs, jobs, |seed, core| {
        comparison.run_real(algorithm, seed as u64, program, core)
    })?;
    let times: Vec<_> = real.iter().map(|run| run.completed).collect();
    let measured = mean(&times);
    let overflow: u64 = real.iter().map(|run| run.overflow).sum();
    let late = real.iter().filter_map(|run| {
        let down = run.ended.link.towards(End::Client).tally();
        down.late.percentile(99.9)
    });
    let deviations = means.iter().map(|time| time / measured - 1.0);
    let farthest =
        deviations.fold(0.0, |far: f64, one| if one.abs() > far.abs() { one } else { far });
    let cells: Vec<_> = means.iter().map(|time| format!("{time:.2} s")).collect();
    println!(
        "| {} | {algorithm} | {} | {measured:.2} s | {:+.1} % | {overflow} | {:.2} ms |",
        comparison.parameters,
        cells.join(" | "),
        farthest * 100.0,
        late.max().unwrap_or_default().as_secs_f64() * 1e3,
    );
    Ok(measured.is_finite() && farthest.abs() <= TOLERANCE)
}

/// Returns the mean, seconds; infinite if a run did not finish.
fn mean(times: &[Option<Duration>]) -> f64 {
    let seconds = times.iter().map(|time| time.map_or(f64::INFINITY, |time| time.as_secs_f64()));
    seconds.sum::<f64>() / times.len() as f64
}
