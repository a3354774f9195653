//! The whole server under HTTP/3 load, its flame graphs, and servers without load.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use sluicegate_compare::cpu::Cpu;
use sluicegate_compare::figures::{Table, median, short};
use sluicegate_compare::generator::{Generator, Load, Outcome};

use crate::Bench;
use crate::contender::Contender;
use crate::flame;
use crate::network::Network;
use crate::server::Server;

/// A load of whole servers.
struct Workload {
    name: &'static str,
    /// Length of a response's body, bytes.
    body: usize,
    load: fn(f64) -> Load,
    /// Whether the times of its requests are the figure, not their rate.
    is_light: bool,
}

/// Workloads that keep the server or the client busy all the time, and the one that does not.
const WORKLOADS: [Workload; 3] = [SMALL, LARGE, LIGHT];
const SMALL: Workload =
    Workload { name: "1 KiB requests", body: 1 << 10, load: Load::small, is_light: false };
const LARGE: Workload =
    Workload { name: "1 MiB bodies", body: 1 << 20, load: Load::large, is_light: false };
const LIGHT: Workload =
    Workload { name: "light load", body: 1 << 10, load: Load::light, is_light: true };

impl Workload {
    fn url(&self, server: SocketAddr) -> String {
        format!("https://{server}/bytes/{}", self.body)
    }
}

/// Samples of the call stacks per second: not a divisor of anything that happens regularly.
const SAMPLES: u32 = 997;

/// Figures of a workload on a server.
#[derive(Clone, Copy, Debug)]
struct Sample {
    outcome: Outcome,
    seconds: f64,
    cpu: Cpu,
}

impl Bench {
    fn generator(&self) -> Result<&Generator> {
        self.load.as_ref().context("there is no load generator")
    }

    fn start(&self, network: &Network, contender: &Contender) -> Result<Server> {
        Server::start(
            &self.server,
            network,
            contender,
            (self.server_core, &self.group),
            &self.folder,
        )
    }

    /// Leaves out the contenders that cannot be opened here, and says why.
    pub(crate) fn examine(&mut self) -> Result<()> {
        let network = Network::new(0)?;
        let mut there = Vec::new();
        for contender in &self.contenders {
            match self.start(&network, contender) {
                Ok(_) => there.push(*contender),
                Err(cause) => eprintln!("left out: {cause}"),
            }
        }
        self.contenders = there;
        Ok(())
    }
}

/// Runs the workloads in turn and adds their rows to the table.
#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
pub(crate) fn run(bench: &Bench, table: &mut Table) -> Result<()> {
    let network = Network::new(0)?;
    let mut samples = WORKLOADS.map(|_| vec![Vec::new(); bench.contenders.len()]);
    for round in 1..=bench.rounds {
        for (number, contender) in bench.contenders.iter().enumerate() {
            let server = bench.start(&network, contender)?;
            for (workload, samples) in WORKLOADS.iter().zip(&mut samples) {
                let (before, start) = (server.cpu()?, Instant::now());
                let url = workload.url(network.server());
                let outcome = bench.generator()?.run(&(workload.load)(bench.seconds), &url)?;
                if outcome.failed > 0.0 {
                    eprintln!("{}: {} requests failed", contender.name, outcome.failed);
                }
                let sample = Sample {
                    outcome,
                    seconds: start.elapsed().as_secs_f64(),
                    cpu: server.cpu()?.since(before),
                };
                eprintln!(
                    "round {round}: {}, {}: {:.0} requests, CPU {:.2} s, machine {:.2} s, of {:.2} s",
                    contender.name,
                    workload.name,
                    outcome.succeeded,
                    sample.cpu.process,
                    sample.cpu.machine,
                    sample.seconds
                );
                samples[number].push(sample);
            }
        }
    }
    report(table, &samples);
    Ok(())
}

fn report(table: &mut Table, samples: &[Vec<Vec<Sample>>]) {
    for (workload, samples) in WORKLOADS.iter().zip(samples) {
        let cells = |figure: fn(&Sample) -> f64| -> Vec<String> {
            let cell = |samples: &Vec<Sample>| short(median(samples.iter().map(figure)));
            samples.iter().map(cell).collect()
        };
        if workload.is_light {
            table.row("light load, p50, µs", cells(|sample| sample.outcome.p50));
            table.row("– p99, µs", cells(|sample| sample.outcome.p99));
        } else {
            let title = format!("{} per server-CPU-second", workload.name);
            let rate = |sample: &Sample| sample.outcome.succeeded / sample.cpu.process;
            let rates = samples.iter().map(|samples| samples.iter().map(rate).collect());
            table.rates(&title, &rates.collect::<Vec<_>>());
            let rate = |sample: &Sample| sample.outcome.succeeded / sample.seconds;
            table.row("– per second", cells(rate));
        }
        table.row(
            "– CPU-seconds of the server per second",
            cells(|sample| sample.cpu.process / sample.seconds),
        );
        table.row(
            "– CPU-seconds of the machine per second",
            cells(|sample| sample.cpu.machine / sample.seconds),
        );
    }
}

/// Draws a flame graph of each server under each of the heavy workloads.
pub(crate) fn graphs(bench: &Bench) -> Result<()> {
    let network = Network::new(0)?;
    for contender in &bench.contenders {
        for (workload, suffix) in [(&SMALL, "1KiB"), (&LARGE, "1MiB")] {
            let server = bench.start(&network, contender)?;
            let url = workload.url(network.server());
            let load = (workload.load)(bench.seconds + 1.0);
            let load = bench.generator()?.start(&load, &url)?;
            // The handshakes are not what is asked for.
            thread::park_timeout(Duration::from_millis(300));
            let name = format!("{}-{suffix}", contender.name);
            let title = format!("{}, {}", contender.name, workload.name);
            let drawn =
                flame::draw(&bench.folder, &name, &title, &server.id(), (SAMPLES, bench.seconds));
            bench.generator()?.finish(load)?;
            match drawn {
                Ok(file) => eprintln!("flame graph: {}", file.display()),
                Err(cause) => {
                    eprintln!("no flame graphs: {cause:#}");
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// Measures servers that nobody asks for anything, each with a network of its own, all at the same time.
pub(crate) fn idle(bench: &Bench, table: &mut Table) -> Result<()> {
    let mut servers = Vec::new();
    for (number, contender) in (0..).zip(&bench.contenders) {
        let network = Network::new(number)?;
        let server = bench.start(&network, contender)?;
        servers.push((server, network));
    }
    // What the start leaves to do is done after that.
    thread::park_timeout(Duration::from_secs(1));
    let read = |(server, _): &(Server, Network)| server.cpu();
    let before = servers.iter().map(read).collect::<Result<Vec<_>>>()?;
    thread::park_timeout(Duration::from_secs_f64(bench.idle_seconds));
    let after = servers.iter().map(read).collect::<Result<Vec<_>>>()?;
    let minutes = bench.idle_seconds / 60.0;
    let used = before.iter().zip(after).map(|(before, after)| {
        let used = after.since(*before).process;
        format!("{:.2}", used / minutes)
    });
    table.row("idle: CPU-seconds in a minute", used.collect::<Vec<_>>());
    Ok(())
}
