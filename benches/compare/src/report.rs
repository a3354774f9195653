//! The report, in Markdown.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use anyhow::Result;

use crate::configuration;
use crate::datagrams::{self, Outcomes};
use crate::figures::{Samples, Table, median, middle, ratios};
use crate::kind::Recipe;
use crate::measure::{Bench, Contestant, Sample};
use crate::network::Net;
use crate::peer::{Peer, references};
use crate::workload::{Figure, Workload};

/// All that was measured.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    pub(crate) workloads: Vec<(Workload, Samples<Sample>)>,
    pub(crate) datagrams: Option<Outcomes>,
    /// CPU time in a minute without requests, seconds.
    pub(crate) idle: Option<Samples<f64>>,
}

/// Returns the report, with rates per second and CPU times if `details` is set.
pub(crate) fn text(
    contestants: &[Contestant],
    measured: &Measured,
    bench: &Bench,
    details: bool,
    note: Option<&str>,
) -> Result<String> {
    let mut text = format!("# Comparison\n\n{}\n\n", machine());
    let peers = || contestants.iter().map(|contestant| &contestant.peer);
    let names = peers().map(|peer| peer.name.as_str());
    let mut table = Table::new(names, references(peers()));
    let network = match bench.net {
        Net::Loopback => "the loopback has an MTU of 1,500 bytes",
        Net::Veth => "each server has a veth pair to them",
    };
    writeln!(
        text,
        "All servers run on one core, load and upstream on another; {network}. {} rounds, in each of\n\
         which every server has its turn for {} s. A cell has the median of the rounds. {} the median of the ratios to\n\
         the first server{} in the same round, with the smallest and the largest of them.\n",
        bench.rounds,
        bench.seconds,
        if details { "A ratio is" } else { "In brackets stands" },
        table.scope()
    )?;
    for (workload, samples) in &measured.workloads {
        if details {
            rows(&mut table, workload, samples);
        } else {
            row(&mut table, workload, samples);
        }
    }
    if let Some(outcomes) = &measured.datagrams {
        datagrams::report(&mut table, outcomes);
    }
    if let Some(used) = &measured.idle {
        table.medians("idle: CPU-seconds in a minute", used, |used| *used);
    }
    write!(text, "{table}")?;
    text.push_str(&remarks(contestants, &measured.workloads));
    if let Some(note) = note {
        writeln!(text, "\n{note}")?;
    }
    text.push_str("\n## Versions\n\n");
    for peer in peers() {
        writeln!(text, "- {}: {}", peer.name, version(peer))?;
    }
    writeln!(text, "- load generator: {}", bench.generator.version())?;
    text.push_str("\n## Configurations\n");
    for Contestant { peer, host, .. } in contestants {
        let program = configuration::program(peer, host, &bench.site);
        let configuration = match program.file {
            Some((_, text)) => text,
            None => format!("{} {}\n", peer.kind.name(), program.arguments.join(" ")),
        };
        // The folder differs from run to run.
        let configuration =
            configuration.replace(&bench.site.folder.display().to_string(), "FOLDER");
        write!(text, "\n{}:\n\n```\n{configuration}```\n", peer.name)?;
    }
    Ok(text)
}

fn version(peer: &Peer) -> String {
    // Caddy does not know its version when Go installs it.
    if let (true, Some(Recipe::GoInstall { package, version })) =
        (peer.is_built, peer.kind.recipe())
    {
        return format!("{package}@{version}");
    }
    let said = Command::new(&peer.program).args(peer.kind.version()).output();
    let said = said.map(|output| [output.stdout, output.stderr].concat());
    let said = String::from_utf8_lossy(&said.unwrap_or_default()).into_owned();
    said.lines().next().unwrap_or("unknown").to_owned()
}

/// Adds the row of a workload, with ratios in brackets.
fn row(table: &mut Table, workload: &Workload, samples: &Samples<Sample>) {
    let value = |sample: &Sample| sample.value(workload.figure);
    let p99 = |sample: &Sample| sample.outcome.p99;
    let has_times = workload.figure == Figure::Times;
    let title = format!("{}, {}", workload.title(), workload.figure.unit());
    table.row(&title, samples, |own, first| {
        let mut cell = middle(own, value);
        if has_times {
            cell += &format!(" / {}", middle(own, p99));
        }
        if let Some(first) = first {
            cell += &format!(" ({})", ratios(own, first, value));
        }
        if let (true, Some(first)) = (has_times, first) {
            cell += &format!(" ({})", ratios(own, first, p99));
        }
        cell
    });
}

/// Adds rows of all that is measured under a workload.
fn rows(table: &mut Table, workload: &Workload, samples: &Samples<Sample>) {
    let (title, figure) = (workload.title(), workload.figure);
    if figure == Figure::Times {
        table.rates(&format!("{title}, p50, µs"), samples, |sample| sample.outcome.p50);
        table.medians("– p99, µs", samples, |sample| sample.outcome.p99);
    } else {
        let title = format!("{title}, {}", figure.unit());
        table.rates(&title, samples, |sample| sample.value(figure));
        table.medians("– per second", samples, |sample| sample.amount(figure) / sample.seconds);
    }
    table.medians("– CPU-seconds of the server per second", samples, |sample| {
        sample.cpu.process / sample.seconds
    });
    table.medians("– CPU-seconds of the machine per second", samples, |sample| {
        sample.cpu.machine / sample.seconds
    });
}

/// Says what a reader has to know to trust the figures.
fn remarks(contestants: &[Contestant], measured: &[(Workload, Samples<Sample>)]) -> String {
    let mut text = String::new();
    for (workload, samples) in measured {
        for (contestant, samples) in contestants.iter().zip(samples) {
            let samples = samples.as_deref().unwrap_or_default();
            let name = format!("{}, {}", contestant.peer.name, workload.name);
            let failed: f64 = samples.iter().map(|sample| sample.outcome.failed).sum();
            if failed > 0.0 {
                text += &format!("- {name}: {failed} requests failed.\n");
            }
            let disturbed = samples.iter().filter(|sample| sample.disturbed).count();
            if disturbed > 0 {
                let all = samples.len();
                text += &format!(
                    "- {name}: {disturbed} of {all} rounds were disturbed by other work.\n"
                );
            }
            let busy = median(samples.iter().map(|sample| sample.busy));
            if workload.figure.is_rate() && busy < 0.9 {
                let percent = busy * 100.0;
                text += &format!(
                    "- {name}: the server's core was busy for {percent:.0} % only; the load was the limit.\n"
                );
            }
        }
    }
    if !text.is_empty() {
        text.insert(0, '\n');
    }
    text
}

fn machine() -> String {
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processor.lines().find(|line| line.starts_with("model name"));
    let model = model.and_then(|line| line.split_once(": ")).map_or("unknown", |(_, name)| name);
    let cores = processor.lines().filter(|line| line.starts_with("processor")).count();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{model}, {cores} cores, Linux {}.", kernel.trim())
}
