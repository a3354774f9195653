//! Runs the collapse on real sockets, many times.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::Parser;
use sluicegate_benches::collapse::{self, LossOn};
use sluicegate_benches::jobs;
use sluicegate_benches::linkem::{End, end_with_signals, notation};
use sluicegate_benches::real_net::{Attempt, Attempted, Series, product_program, progress};
use sluicegate_benches::virtual_net::Control;

/// Longest download where the round trip is longer than that of the collapse.
const LONG_LIMIT: Duration = Duration::from_secs(60);

/// The collapse on real sockets over linkem: the product beside quiche's own CUBIC, with its fix and without
///
/// 10 MB over HTTP/3, 30 % loss in the first two seconds, none after. Needs root, the product's program, and a client; quic-go's is
/// installed by `go install github.com/quic-go/quic-go/example/client@v0.65.0`.
#[derive(Debug, Parser)]
#[command(name = "story")]
struct Arguments {
    /// Client, as a shell command: CLIENT -q -insecure {url}. It must end with 0 once it has the body
    #[arg(long, value_parser = client)]
    client: String,
    /// Controls of the server, ours and those of quiche
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "bbr3,cubic,reno,quiche-cubic,quiche-cubic-unfixed"
    )]
    controls: Vec<String>,
    /// Round-trip times
    #[arg(long, value_delimiter = ',', default_value = "10ms,200ms", value_parser = notation::time)]
    rtt: Vec<Duration>,
    /// Runs of each control on each link
    #[arg(long, default_value_t = 20)]
    runs: usize,
    /// The product's program [default: beside this one]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Puts an SVG for each link there, with the bytes delivered over time
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Runs at the same time
    #[arg(long, default_value_t = 1)]
    jobs: usize,
}

/// Checks that the command contains `{url}`.
fn client(command: &str) -> Result<String, &'static str> {
    if command.contains("{url}") {
        Ok(command.to_owned())
    } else {
        Err("it has no {url}, which stands for the URL: CLIENT -q -insecure {url}")
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    end_with_signals()?;
    let program = product_program(arguments.program.as_deref())?;
    let controls = arguments
        .controls
        .iter()
        .map(|name| Control::named(name).ok_or_else(|| anyhow!("no control is named `{name}`")));
    let controls = controls.collect::<Result<Vec<_>>>()?;
    if let Some(folder) = &arguments.plots {
        fs::create_dir_all(folder)?;
    }
    println!("| link | control | done | mean | longest | lost at the ends | late at 99.9 % |");
    println!("|---|---|---|---|---|---|---|");
    for &rtt in &arguments.rtt {
        for (loss_on, ways) in [(LossOn::Down, "down"), (LossOn::BothWays, "both ways")] {
            let name = format!("{} ms, loss {ways}", rtt.as_millis());
            let limit = if rtt > Duration::from_millis(10) { LONG_LIMIT } else { collapse::LIMIT };
            let mut series = Vec::new();
            for &control in &controls {
                let attempt = Attempt {
                    control,
                    loss_on,
                    rtt,
                    limit,
                    seed: 0,
                    program: &program,
                    core: 0,
                    client: &arguments.client,
                };
                let runs = attempts(&attempt, &arguments)?;
                println!("| {name} | {control} | {} |", row(&runs));
                series.push(Series {
                    name: control.to_string(),
                    lines: runs.iter().map(Attempted::progress).collect(),
                });
            }
            if let Some(folder) = &arguments.plots {
                plot(folder, &name, &series, limit)?;
            }
        }
    }
    Ok(())
}

fn attempts(attempt: &Attempt<'_>, arguments: &Arguments) -> Result<Vec<Attempted>> {
    let done = jobs::run(arguments.runs, arguments.jobs, |number, core| {
        let seed = u64::try_from(number).unwrap_or(u64::MAX);
        Attempt { seed, core, ..*attempt }.run()
    })?;
    Ok(done)
}

/// Returns how many finished, the mean and the longest time of those, the packets that the ends lost, and how late the emulator
/// delivered all but one in a thousand packets of the run where it was latest.
fn row(runs: &[Attempted]) -> String {
    let times: Vec<_> = runs.iter().filter_map(|run| run.completed).collect();
    let overflow: u64 = runs.iter().map(|run| run.overflow).sum();
    let (mean, longest) = match times.iter().max() {
        Some(longest) => {
            let sum: Duration = times.iter().sum();
            let mean = sum.as_secs_f64() / times.len() as f64;
            (format!("{mean:.2} s"), format!("{:.2} s", longest.as_secs_f64()))
        }
        None => ("–".to_owned(), "–".to_owned()),
    };
    let late = runs.iter().filter_map(|run| {
        let down = run.ended.link.towards(End::Client).tally();
        down.late.percentile(99.9)
    });
    format!(
        "{} of {} | {mean} | {longest} | {overflow} | {:.2} ms",
        times.len(),
        runs.len(),
        late.max().unwrap_or_default().as_secs_f64() * 1e3
    )
}

fn plot(folder: &Path, name: &str, series: &[Series], limit: Duration) -> Result<()> {
    let file = name.replace([',', ' '], "-").replace("--", "-");
    let path = folder.join(format!("collapse-{file}.svg"));
    let lines = series.iter().flat_map(|series| &series.lines);
    let last = lines.filter_map(|line| line.last()).map(|point| point.0);
    let end = last.fold(1.0, f64::max).min(limit.as_secs_f64());
    let title = format!("10 MB, 30 % loss for 2 s: {name}");
    progress(&path, &title, series, end)?;
    Ok(())
}
