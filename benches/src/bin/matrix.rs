//! Prints how every algorithm comes through every scenario.

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::thread;
use std::{env, fs};

use anyhow::{Context, Result, anyhow, ensure};
use clap::{Parser, ValueEnum};
use sluicegate_benches::matrix::{
    Choice, EXPECTED, Layout, Place, cells, control_named, document, known_failures, report,
    scenarios, surprises, tell,
};

/// Every congestion control algorithm in every scenario, in a simulator and through real connections in virtual time
///
/// Prints a table in Markdown, what fails its bound in bold, and ends with 1 where something fails that is not known to.
#[derive(Debug, Parser)]
#[command(name = "matrix")]
struct Arguments {
    /// One algorithm instead of all, with options such as cubic,slow_start=search where a scenario has them, or a control of quiche,
    /// such as quiche-cubic
    #[arg(long)]
    algorithm: Option<String>,
    /// One scenario instead of all, by the name in the table
    #[arg(long)]
    scenario: Option<String>,
    /// One place instead of both
    #[arg(long, value_enum)]
    place: Option<Where>,
    /// One run with this seed instead of each scenario's own seeds
    #[arg(long)]
    seed: Option<u64>,
    /// The part that every change is tested with
    #[arg(long)]
    core: bool,
    /// Writes the document of results, such as cc/RESULTS.md, there; only the whole matrix makes one
    #[arg(long, value_name = "FILE", conflicts_with_all = ["algorithm", "scenario", "place", "seed", "core"])]
    results: Option<PathBuf>,
    /// Puts an SVG of each cell's first run there, and the table with the known failures as matrix.md
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Puts three SVGs of one collapse there and does nothing else: CUBIC, Reno, and quiche's CUBIC with its fix off
    #[arg(long, value_name = "DIR", conflicts_with_all = ["algorithm", "scenario", "place", "core", "plots"])]
    story: Option<PathBuf>,
    /// Runs at the same time [default: as many as there are cores]
    #[arg(long)]
    threads: Option<usize>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Where {
    Simulator,
    EndToEnd,
}

impl From<Where> for Place {
    fn from(place: Where) -> Self {
        match place {
            Where::Simulator => Self::Simulator,
            Where::EndToEnd => Self::EndToEnd,
        }
    }
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    if let Some(folder) = &arguments.story {
        create(folder)?;
        for (path, title) in tell(folder, arguments.seed)? {
            println!("{}: {title}", path.display());
        }
        return Ok(ExitCode::SUCCESS);
    }
    let scenarios = scenarios();
    let control = match &arguments.algorithm {
        Some(name) => {
            let found = control_named(name, &scenarios);
            Some(found.ok_or_else(|| anyhow!("no control is named `{name}`"))?)
        }
        None => None,
    };
    if let Some(name) = &arguments.scenario {
        let known: Vec<_> = scenarios.iter().map(|scenario| scenario.name).collect();
        let found = known.contains(&name.as_str());
        ensure!(found, "no scenario is named `{name}`: {}", known.join(", "));
    }
    if let Some(folder) = &arguments.plots {
        create(folder)?;
    }
    let cells = cells(
        &scenarios,
        &Choice {
            control,
            scenario: arguments.scenario.as_deref(),
            place: arguments.place.map(Place::from),
            seed: arguments.seed,
            core: arguments.core,
            plots: arguments.plots.as_deref(),
            threads: arguments
                .threads
                .unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)),
        },
    )?;
    ensure!(!cells.is_empty(), "there is no such cell");
    print!("{}", report(&scenarios, &cells, Layout::Padded));
    if let Some(folder) = &arguments.plots {
        let path = folder.join("matrix.md");
        let table = report(&scenarios, &cells, Layout::Compact);
        let text = format!("{table}\n{}", known_failures(EXPECTED));
        fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    if let Some(path) = &arguments.results {
        let text = document(&scenarios, &cells, EXPECTED, &origin());
        fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    let surprises = surprises(&cells, EXPECTED);
    for surprise in &surprises {
        eprintln!("\n{surprise}");
    }
    Ok(ExitCode::from(u8::from(!surprises.is_empty())))
}

/// Returns a sentence that names the commit and the machine of this run.
fn origin() -> String {
    let described = Command::new("git").args(["describe", "--always", "--dirty"]).output();
    let commit = described.ok().filter(|output| output.status.success());
    let commit = commit.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processors.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    });
    format!(
        "The figures are of commit {}, in virtual time on {} {} ({}).",
        commit.as_deref().unwrap_or("unknown"),
        env::consts::OS,
        env::consts::ARCH,
        model.as_deref().unwrap_or("unknown processor")
    )
}

fn create(folder: &PathBuf) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())
}
