//! Shows the incident as its operator would see it today, and draws what three controllers do on the same path.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Parser;
use sluicegate_benches::linkem::end_with_signals;
use sluicegate_benches::real_net::Incident;
use sluicegate_benches::unfixed_cubic::UNFIXED_CUBIC;

/// Seeds that are tried: three in five downloads get stuck.
const SEEDS: u64 = 10;

/// The incident on real sockets: 10 MB, RTT 10 ms, 30 % loss in the first 2 s, CUBIC with the idle accounting of then
///
/// Prints what `sluicegate why` and `sluicegate qlog summary` say of a download that is stuck, and draws it beside CUBIC and Reno of
/// today. Needs root.
#[derive(Debug, Parser)]
#[command(name = "incident")]
struct Arguments {
    /// Folder of traces and pictures
    #[arg(long, value_name = "DIR", default_value = "target/incident")]
    output: PathBuf,
    /// Program with the algorithm [default: `unfixed` beside this one]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    end_with_signals()?;
    let program = match arguments.program {
        Some(program) => program,
        None => std::env::current_exe()?.with_file_name("unfixed"),
    };
    let unfixed = UNFIXED_CUBIC.name;
    let named = first_stuck(|seed| {
        let folder = arguments.output.join(format!("recorder-{seed}"));
        Ok(incident(&program, unfixed, seed, &folder).watch()?)
    })?;
    println!("$ sluicegate why\n{}\n$ sluicegate why ID\n{}", named.list, named.story);
    println!("$ sluicegate qlog summary {}\n{}", named.file.display(), named.summary);
    let (seed, picture) = first_stuck(|seed| {
        let folder = arguments.output.join(format!("{unfixed}-{seed}"));
        let drawn = incident(&program, unfixed, seed, &folder).draw()?;
        Ok(drawn.is_stuck.then_some((seed, drawn.picture)))
    })?;
    println!("{}", picture.display());
    for algorithm in ["cubic", "reno"] {
        let folder = arguments.output.join(algorithm);
        println!("{}", incident(&program, algorithm, seed, &folder).draw()?.picture.display());
    }
    Ok(())
}

fn incident<'a>(
    program: &'a Path,
    algorithm: &'a str,
    seed: u64,
    folder: &'a Path,
) -> Incident<'a> {
    Incident { program, algorithm, seed, core: 0, folder }
}

/// Returns what the first seed gives whose download gets stuck.
fn first_stuck<T>(mut attempt: impl FnMut(u64) -> Result<Option<T>>) -> Result<T> {
    for seed in 0..SEEDS {
        if let Some(outcome) = attempt(seed)? {
            return Ok(outcome);
        }
    }
    bail!("none of {SEEDS} downloads got stuck")
}
