//! Prints how controllers come through the collapse, or one run of it over time.

use std::thread;

use anyhow::{Result, anyhow};
use clap::Parser;
use sluicegate_benches::collapse::{LossOn, scenario};
use sluicegate_benches::virtual_net::{Control, Outcome, run, sweep};

/// 10 MB over HTTP/3 in virtual time: RTT 10 ms, 30 % loss in the first 2 s, none after, limit 10 s
#[derive(Debug, Parser)]
#[command(name = "collapse")]
struct Arguments {
    /// One controller instead of all: cubic, reno, quiche-cubic, quiche-cubic-unfixed, quiche-reno, quiche-bbr2
    #[arg(long)]
    algorithm: Option<String>,
    /// Shows the run with this seed over time, instead of the table
    #[arg(long, requires = "algorithm")]
    seed: Option<u64>,
    /// Seeds of the table, from 0
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// ACKs and the request are lost too
    #[arg(long)]
    both_ways: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let loss_on = if arguments.both_ways { LossOn::BothWays } else { LossOn::Down };
    let controls: Vec<Control> = match &arguments.algorithm {
        Some(name) => {
            vec![Control::named(name).ok_or_else(|| anyhow!("no controller is named `{name}`"))?]
        }
        None => Control::ours().chain(Control::quic()).collect(),
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    for control in controls {
        if let Some(seed) = arguments.seed {
            run(&scenario(control, loss_on, seed))?.iter().for_each(print_run);
        } else {
            let sweep =
                sweep(0..arguments.seeds, threads, |seed| scenario(control, loss_on, seed))?;
            println!("{control:<21} {sweep}");
        }
    }
    Ok(())
}

fn print_run(outcome: &Outcome) {
    println!("{:>9} {:>10} {:>10}", "ms", "cwnd", "in flight");
    for sample in &outcome.trace {
        let ms = sample.at.as_secs_f64() * 1e3;
        println!("{ms:>9.1} {:>10} {:>10}", sample.cwnd, sample.in_flight);
    }
    match outcome.completed {
        Some(time) => println!("done after {:.3} s", time.as_secs_f64()),
        None => println!("not done: {} bytes", outcome.received),
    }
    println!("packets declared lost: {}", outcome.lost_packets);
}
