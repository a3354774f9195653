//! Compares the instructions of common work with the figures in the repository.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, thread};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use sluicegate_benches::counts::{Baseline, Callgrind, Figure, Report, all, made_by};
use sluicegate_benches::jobs;

/// Counts the instructions of common work by callgrind, and compares them with benches/instructions.toml
#[derive(Debug, Parser)]
#[command(name = "counts")]
struct Arguments {
    /// Writes the figures to the file instead
    #[arg(long)]
    accept: bool,
    /// Only workloads whose names have this in them
    #[arg(long, conflicts_with = "accept")]
    only: Option<String>,
    /// Folder for callgrind's output, for callgrind_annotate
    #[arg(long, default_value = "target/counts")]
    folder: PathBuf,
    /// Workloads at a time [default: the number of cores]
    #[arg(long)]
    jobs: Option<usize>,
    /// The command valgrind
    #[arg(long, default_value = "valgrind")]
    valgrind: OsString,
    /// Runs a workload and prints the number of its units: what callgrind is given to do
    #[arg(long, hide = true)]
    run: Option<String>,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    if let Some(name) = &arguments.run {
        let workload = all().into_iter().find(|workload| workload.name == *name);
        println!("{}", workload.context("no such workload")?.run()?);
        return Ok(ExitCode::SUCCESS);
    }
    let callgrind = Callgrind {
        valgrind: arguments.valgrind.clone(),
        program: env::current_exe()?,
        folder: arguments.folder.clone(),
    };
    fs::create_dir_all(&callgrind.folder)?;
    let figures = figures(&callgrind, &arguments)?;
    let made_by = made_by(&callgrind.program, &callgrind.valgrind);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.toml");
    if arguments.accept {
        let instructions = figures.into_iter().map(|now| (now.name, now.instructions));
        let baseline = Baseline { made_by, instructions: instructions.collect() };
        fs::write(&file, baseline.to_string())?;
        print!("{baseline}");
        return Ok(ExitCode::SUCCESS);
    }
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let baseline = Baseline::parse(&text).with_context(|| file.display().to_string())?;
    let report = Report::new(&baseline, &made_by, figures);
    print!("{report}");
    Ok(if report.is_refused() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Returns the figures of the workloads that are asked for.
fn figures(callgrind: &Callgrind, arguments: &Arguments) -> Result<Vec<Figure>> {
    let only = arguments.only.as_deref().unwrap_or_default();
    let workloads: Vec<_> =
        all().into_iter().filter(|workload| workload.name.contains(only)).collect();
    ensure!(!workloads.is_empty(), "no workload is named `{only}`");
    let cores = thread::available_parallelism().map_or(1, usize::from);
    jobs::run(workloads.len(), arguments.jobs.unwrap_or(cores), |number, _| {
        let workload = &workloads[number];
        Ok(Figure {
            name: workload.name.clone(),
            unit: workload.unit,
            allowed: workload.allowed,
            instructions: callgrind.count(&workload.name)?,
        })
    })
}
