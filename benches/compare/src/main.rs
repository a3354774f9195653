//! Compares HTTP/3 servers on one machine: the same files, the same upstream, the same load, in turn.
//!
//! `benches/README.md` says how to run it and how to read the report.

mod measure;
mod peer;
mod report;
mod running;
mod site;
mod workload;

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser;
use sluicegate_compare::generator::Generator;

use crate::measure::{Bench, Contestant};
use crate::peer::{Peer, UPSTREAM, UPSTREAM_NAME};
use crate::report::Samples;
use crate::running::{Port, Server};
use crate::site::Site;
use crate::workload::Workload;

/// Compares HTTP/3 servers under the same load, in turn; needs root, for a network namespace
#[derive(Debug, Parser)]
#[command(name = "compare")]
struct Arguments {
    /// Servers, as KIND=PROGRAM or NAME:KIND=PROGRAM; kinds are sluicegate, nginx, caddy, h2o and haproxy. Ratios are to the first
    #[arg(required = true)]
    servers: Vec<String>,
    /// Workloads [default: all]
    #[arg(long, value_delimiter = ',', value_parser = Workload::ALL.map(|workload| workload.name))]
    only: Vec<String>,
    /// Rounds, in each of which every server has its turn
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Length of each measurement
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Load generator: h2load with HTTP/3, or a program with its options and output
    #[arg(long, default_value = "h2load")]
    generator: String,
    /// nginx, as the upstream
    #[arg(long, default_value = "nginx")]
    upstream: PathBuf,
    /// Core of the servers
    #[arg(long, default_value_t = 0)]
    server_core: usize,
    /// Core of the load generator and the upstream
    #[arg(long, default_value_t = 1)]
    client_core: usize,
    /// File for the report [default: standard output]
    #[arg(long)]
    report: Option<PathBuf>,
    /// It is in a network namespace of its own already
    #[arg(long, hide = true)]
    within: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if arguments.within {
        return compare(&arguments);
    }
    // All ports are free there, its loopback can have the MTU of an Ethernet, and all processes end with it.
    let flags = "--net --pid --fork --mount-proc --kill-child".split(' ');
    let cause = Command::new("unshare")
        .args(flags)
        .arg(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .arg("--within")
        .exec();
    Err(cause).context("unshare, of util-linux, does not start")
}

fn compare(arguments: &Arguments) -> Result<()> {
    ensure!(
        arguments.seconds > 0.0 && arguments.seconds <= 3600.0,
        "--seconds {} is out of its range, above 0 and up to 3600",
        arguments.seconds
    );
    ensure!(
        arguments.server_core != arguments.client_core,
        "servers and load need cores of their own: --server-core and --client-core are both {}",
        arguments.server_core
    );
    let status = Command::new("ip")
        .args("link set lo mtu 1500 up".split(' '))
        .status();
    ensure!(
        status.context("ip, of iproute2, does not start")?.success(),
        "the loopback of a network namespace cannot be set up: `unshare -n ip link set lo mtu 1500 up` says why"
    );
    if let Some(file) = &arguments.report {
        fs::write(file, "").with_context(|| file.display().to_string())?;
    }
    let folder = tempfile::tempdir()?;
    let site = Site::write(folder.path())?;
    let bench = Bench {
        generator: Generator::new(
            &arguments.generator,
            arguments.client_core,
            site.folder.join("requests.log"),
        )?,
        server_core: arguments.server_core,
        client_core: arguments.client_core,
        seconds: arguments.seconds,
        site,
    };
    let _upstream = upstream(arguments, &bench.site)?;
    let contestants = start(arguments, &bench)?;
    let mut measured = Vec::new();
    for workload in Workload::ALL {
        if arguments.only.is_empty() || arguments.only.iter().any(|name| name == workload.name) {
            measured.push((
                workload,
                rounds(arguments, &bench, &workload, &contestants)?,
            ));
        }
    }
    let report = report::text(&contestants, &measured, &bench.site, arguments.seconds)?;
    match &arguments.report {
        Some(file) => fs::write(file, report).with_context(|| file.display().to_string())?,
        None => print!("{report}"),
    }
    Ok(())
}

fn upstream(arguments: &Arguments, site: &Site) -> Result<Server> {
    let text = peer::nginx(site, UPSTREAM_NAME, &peer::upstream(site));
    let file = site.folder.join("upstream.conf").display().to_string();
    let command = peer::Command {
        program: arguments.upstream.clone(),
        arguments: vec!["-c".to_owned(), file],
        file: ("upstream.conf".to_owned(), text),
    };
    Server::start(
        UPSTREAM_NAME,
        &command,
        &site.folder,
        arguments.client_core,
        Port::Tcp(UPSTREAM),
    )
}

fn start(arguments: &Arguments, bench: &Bench) -> Result<Vec<Contestant>> {
    let mut contestants: Vec<Contestant> = Vec::new();
    for (number, text) in (0..).zip(&arguments.servers) {
        let peer = Peer::parse(text, number)?;
        let named = |contestant: &Contestant| contestant.peer.name == peer.name;
        if contestants.iter().any(named) {
            bail!(
                "two servers are named `{}`: name one of them by NAME:KIND=PROGRAM",
                peer.name
            );
        }
        contestants.push(bench.start(peer)?);
    }
    Ok(contestants)
}

/// Measures a workload on each server that has it, round by round, after one request that does not count.
fn rounds(
    arguments: &Arguments,
    bench: &Bench,
    workload: &Workload,
    contestants: &[Contestant],
) -> Result<Samples> {
    let serves = |contestant: &Contestant| contestant.peer.serves(workload.resource);
    let mut samples: Samples = contestants
        .iter()
        .map(|one| serves(one).then(Vec::new))
        .collect();
    let place = |contestant: &Contestant| format!("{}, {}", contestant.peer.name, workload.name);
    for contestant in contestants.iter().filter(|one| serves(one)) {
        let checked = bench.check(workload, contestant);
        checked.with_context(|| place(contestant))?;
    }
    for round in 1..=arguments.rounds {
        // None always follows the same one.
        let first = round as usize % contestants.len();
        for number in (first..contestants.len()).chain(0..first) {
            let contestant = &contestants[number];
            let Some(samples) = &mut samples[number] else {
                continue;
            };
            let sample = bench.sample(workload, contestant);
            let sample = sample.with_context(|| place(contestant))?;
            eprintln!(
                "{}, round {round}: {} {:.2} {}{}",
                workload.name,
                contestant.peer.name,
                sample.value,
                workload.figure.unit(),
                if sample.disturbed { ", disturbed" } else { "" }
            );
            samples.push(sample);
        }
    }
    Ok(samples)
}
