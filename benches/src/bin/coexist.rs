//! Prints the product's share of a bottleneck beside the kernel's flows.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use clap::builder::PossibleValuesParser;
use sluicegate_benches::jobs;
use sluicegate_benches::linkem::{End, end_with_signals, notation};
use sluicegate_benches::real_net::{Pair, Sender, coexist, product_program};
use sluicegate_cc::Registry;

/// Algorithms of the kernel to run beside.
const BESIDE: [&str; 2] = ["cubic", "bbr"];

/// Share of the link below which a flow starves: a fifth of its fair share.
const STARVED: f64 = 0.1;

/// The product's share of a bottleneck beside one flow of Linux CUBIC and one of Linux BBR, over linkem
///
/// Needs root, and the product's program, release build. Beside each share stands, in brackets, that of the control: the kernel's
/// own flow of the same kind in the product's place; the kernel has none for Prague. What starves although its control does not is bold.
#[derive(Debug, Parser)]
#[command(name = "coexist")]
struct Arguments {
    /// Algorithms of the product [default: all]
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(Registry::builtin().names()))]
    algorithm: Vec<String>,
    /// Algorithms of the kernel to run beside
    #[arg(long, value_delimiter = ',', default_values = BESIDE, value_parser = BESIDE)]
    beside: Vec<String>,
    /// Rates of the bottleneck
    #[arg(long, value_delimiter = ',', default_value = "20mbit,100mbit", value_parser = notation::rate)]
    rate: Vec<u64>,
    /// Round-trip times of the empty path
    #[arg(long, value_delimiter = ',', default_value = "20ms,100ms", value_parser = notation::time)]
    rtt: Vec<Duration>,
    /// Rooms in the queue, as multiples of rate times round trip
    #[arg(long, value_delimiter = ',', default_value = "0.5,1,4")]
    queue: Vec<f64>,
    /// Length of each run, of which the first ten seconds do not count
    #[arg(long, default_value = "60s", value_parser = notation::time)]
    length: Duration,
    /// The product's program [default: beside this one]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Runs at the same time
    #[arg(long, default_value_t = 1)]
    jobs: usize,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    end_with_signals()?;
    let program = product_program(arguments.program.as_deref())?;
    let registry = Registry::builtin();
    let chosen = |name: &&str| {
        arguments.algorithm.is_empty() || arguments.algorithm.iter().any(|a| a == name)
    };
    let judged: Vec<_> = registry.names().filter(chosen).map(Sender::Product).collect();
    let mut senders = judged.clone();
    senders.extend(judged.iter().filter_map(|sender| sender.control()));
    let mut pairs = Vec::new();
    for &rate in &arguments.rate {
        for &rtt in &arguments.rtt {
            for &queue_bdp in &arguments.queue {
                for beside in besides(&arguments) {
                    pairs.extend(senders.iter().map(|&judged| Pair {
                        rate,
                        rtt,
                        queue_bdp,
                        judged,
                        beside,
                        length: arguments.length,
                    }));
                }
            }
        }
    }
    let done = run_all(&pairs, &arguments, &program)?;
    print(&done, &judged, &besides(&arguments).collect::<Vec<_>>());
    Ok(())
}

fn besides(arguments: &Arguments) -> impl Iterator<Item = &'static str> {
    BESIDE.into_iter().filter(|name| arguments.beside.iter().any(|chosen| chosen == name))
}

/// A pair with the share of its judged flow.
type Done = (Pair, f64);

fn run_all(pairs: &[Pair], arguments: &Arguments, program: &Path) -> Result<Vec<Done>> {
    let done = jobs::run(pairs.len(), arguments.jobs, |number, core| {
        let pair = pairs[number];
        let shared = coexist::run(&pair, program, core)?;
        eprintln!("{}", line(&pair, &shared));
        anyhow::Ok((pair, shared.share()))
    })?;
    Ok(done)
}

fn line(pair: &Pair, shared: &coexist::Shared) -> String {
    let down = shared.ended.link.towards(End::Client).tally();
    let ms = |time: Option<Duration>| time.unwrap_or_default().as_secs_f64() * 1e3;
    format!(
        "{} beside Linux {}: {:.2} and {:.2} Mbit/s, {:.1} ms in the queue at the median; {} packets lost at the ends, delivered \
         late by {:.3} ms at 99.9 %, {:.3} ms at most",
        pair.judged,
        pair.beside,
        shared.judged / 1e6,
        shared.beside / 1e6,
        ms(down.queueing.percentile(50.0)),
        shared.overflow,
        ms(down.late.percentile(99.9)),
        ms(down.late.max()),
    )
}

fn print(done: &[Done], judged: &[Sender], besides: &[&str]) {
    let heads = besides
        .iter()
        .flat_map(|beside| judged.iter().map(move |sender| format!("{sender} beside {beside}")));
    let heads: Vec<_> = heads.collect();
    println!("| link | {} |", heads.join(" | "));
    println!("|---|{}", "---|".repeat(heads.len()));
    let mut rows: Vec<Pair> = Vec::new();
    for (pair, _) in done {
        if !rows.iter().any(|row| same_link(row, pair)) {
            rows.push(*pair);
        }
    }
    rows.sort_by(|a, b| {
        let key = |pair: &Pair| (pair.rate, pair.rtt);
        key(a).cmp(&key(b)).then(a.queue_bdp.total_cmp(&b.queue_bdp))
    });
    for row in rows {
        let share = |sender, beside: &str| {
            let mut found = done.iter().filter(|(pair, _)| same_link(pair, &row));
            let found = found.find(|(pair, _)| pair.judged == sender && pair.beside == beside);
            found.map(|(_, share)| *share)
        };
        let cells = besides.iter().flat_map(|beside| {
            judged.iter().map(move |&sender| {
                let control = sender.control();
                cell(
                    share(sender, beside).unwrap_or(f64::NAN),
                    control.and_then(|control| share(control, beside)),
                )
            })
        });
        println!(
            "| {} Mbit/s, {} ms, {} BDP | {} |",
            row.rate as f64 / 1e6,
            row.rtt.as_secs_f64() * 1e3,
            row.queue_bdp,
            cells.collect::<Vec<_>>().join(" | ")
        );
    }
}

fn same_link(a: &Pair, b: &Pair) -> bool {
    (a.rate, a.rtt) == (b.rate, b.rtt) && a.queue_bdp.total_cmp(&b.queue_bdp).is_eq()
}

/// Returns a share in percent with that of the control, bold if a flow starves that does not in the control.
fn cell(share: f64, control: Option<f64>) -> String {
    let starves = |share: f64| !(STARVED..=1.0 - STARVED).contains(&share);
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let text = match control {
        Some(control) => format!("{} ({})", percent(share), percent(control)),
        None => percent(share),
    };
    if starves(share) && !control.is_some_and(starves) {
        return format!("**{text}**");
    }
    text
}
