//! The report, in Markdown.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use anyhow::Result;
use sluicegate_compare::figures::{Table, median, ratio, short};

use crate::kind::Recipe;
use crate::measure::{Bench, Contestant, Sample};
use crate::peer::Peer;
use crate::workload::{Figure, Workload};

/// Samples of a workload, by contestant and round; None for one that does not serve it.
pub(crate) type Samples = Vec<Option<Vec<Sample>>>;

/// Returns the report.
pub(crate) fn text(
    contestants: &[Contestant],
    measured: &[(Workload, Samples)],
    bench: &Bench,
    note: Option<&str>,
) -> Result<String> {
    let (site, seconds) = (&bench.site, bench.seconds);
    let mut text = String::from("# Comparison\n\n");
    writeln!(text, "{}\n", machine())?;
    let rounds = measured.iter().flat_map(|(_, samples)| samples);
    let rounds = rounds.flatten().map(Vec::len).max().unwrap_or(0);
    writeln!(
        text,
        "All servers run on one core, load and upstream on another; the loopback has an MTU of 1,500 bytes. {rounds} rounds, in each of\n\
         which every server has its turn for {seconds} s. A cell has the median of the rounds. In brackets stands the median of the ratios to\n\
         the first server in the same round, with the smallest and the largest of them.\n"
    )?;
    let mut table = Table::new(contestants.iter().map(|contestant| contestant.peer.name.as_str()));
    for (workload, samples) in measured {
        let cells = samples.iter().map(|own| cell(workload, own.as_deref(), samples[0].as_deref()));
        let title = format!("{}, {}", workload.title, workload.figure.unit());
        table.row(&title, cells.collect::<Vec<_>>());
    }
    write!(text, "{table}")?;
    text.push_str(&remarks(contestants, measured));
    if let Some(note) = note {
        writeln!(text, "\n{note}")?;
    }
    text.push_str("\n## Versions\n\n");
    for contestant in contestants {
        let peer = &contestant.peer;
        writeln!(text, "- {}: {}", peer.name, version(peer))?;
    }
    writeln!(text, "- load generator: {}", bench.generator.version())?;
    text.push_str("\n## Configurations\n");
    for contestant in contestants {
        let command = contestant.peer.command(site);
        let configuration = match command.file {
            Some((_, text)) => text,
            None => format!("{} {}\n", contestant.peer.kind.name(), command.arguments.join(" ")),
        };
        // The folder differs from run to run.
        let configuration = configuration.replace(&site.folder.display().to_string(), "FOLDER");
        write!(text, "\n{}:\n\n```\n{configuration}```\n", contestant.peer.name)?;
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

fn cell(workload: &Workload, own: Option<&[Sample]>, first: Option<&[Sample]>) -> String {
    let Some(own) = own else {
        return "–".to_owned();
    };
    let column = |samples: &[Sample], figure: fn(&Sample) -> f64| -> Vec<f64> {
        samples.iter().map(figure).collect()
    };
    let mut text = short(median(column(own, |sample| sample.value)));
    if workload.figure == Figure::Times {
        text += &format!(" / {}", short(median(column(own, |sample| sample.p99))));
    }
    let Some(first) = first else {
        return text;
    };
    let ratios = |figure: fn(&Sample) -> f64| {
        let (own, first) = (column(own, figure), column(first, figure));
        let each: Vec<f64> = own.iter().zip(&first).map(|(own, first)| own / first).collect();
        let smallest = each.iter().copied().fold(f64::INFINITY, f64::min);
        let largest = each.iter().copied().fold(0.0, f64::max);
        format!("{}, {} to {}", short(ratio(&own, &first)), short(smallest), short(largest))
    };
    text += &format!(" ({})", ratios(|sample| sample.value));
    if workload.figure == Figure::Times {
        text += &format!(" ({})", ratios(|sample| sample.p99));
    }
    text
}

/// Says what a reader has to know to trust the figures.
fn remarks(contestants: &[Contestant], measured: &[(Workload, Samples)]) -> String {
    let mut text = String::new();
    for (workload, samples) in measured {
        for (contestant, samples) in contestants.iter().zip(samples) {
            let samples = samples.as_deref().unwrap_or_default();
            let name = format!("{}, {}", contestant.peer.name, workload.name);
            let failed: f64 = samples.iter().map(|sample| sample.failed).sum();
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
