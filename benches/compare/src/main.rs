//! Compares HTTP/3 servers on one machine: the same files, the same upstream, the same load, in turn.
//!
//! `benches/README.md` says how to run it and how to read the report.

mod building;
mod configuration;
mod kind;
mod measure;
mod peer;
mod report;
mod running;
mod site;
mod upstream;
mod workload;

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser;
use sluicegate_compare::generator::Generator;

use crate::building::Builds;
use crate::kind::Kind;
use crate::measure::{Bench, Contestant};
use crate::peer::Peer;
use crate::report::Samples;
use crate::site::Site;
use crate::workload::Workload;

/// Compares HTTP/3 servers under the same load, in turn; needs root, for a network namespace
#[derive(Debug, Parser)]
#[command(name = "compare")]
struct Arguments {
    #[arg(required = true, help = servers_help())]
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
    /// Load generator: h2load with HTTP/3, or a program with its options and output [default: `sluicegate load`, built beside this program]
    #[arg(long)]
    generator: Option<String>,
    /// nginx, as the upstream [default: the one in PATH; without it, proxied workloads are left out]
    #[arg(long)]
    upstream: Option<PathBuf>,
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

fn servers_help() -> String {
    let built = Kind::ALL.into_iter().filter(|kind| kind.recipe().is_some());
    format!(
        "Servers, as KIND=PROGRAM, or as KIND to build one of {}, or to take the sluicegate beside this program; NAME:KIND \
         names it in tables. Kinds are {}. Ratios are to the first",
        built.map(Kind::name).collect::<Vec<_>>().join(", "),
        Kind::ALL.map(Kind::name).join(", ")
    )
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let program = std::env::current_exe()?;
    let builds = Builds::new(program.parent().context("a folder")?.to_owned());
    let peers = peers(&arguments, &builds)?;
    if arguments.within {
        return compare(&arguments, peers, &builds);
    }
    // Registries cannot be reached from within.
    for peer in peers.iter().filter(|peer| peer.is_built) {
        builds.build(peer.kind)?;
    }
    // All ports are free there, its loopback can have the MTU of an Ethernet, and all processes end with it.
    let flags = "--net --pid --fork --mount-proc --kill-child".split(' ');
    let cause = Command::new("unshare")
        .args(flags)
        .arg(program)
        .args(std::env::args_os().skip(1))
        .arg("--within")
        .exec();
    Err(cause).context("unshare, of util-linux, does not start")
}

/// Returns the servers that are named.
fn peers(arguments: &Arguments, builds: &Builds) -> Result<Vec<Peer>> {
    let mut peers: Vec<Peer> = Vec::new();
    for (number, text) in (0..).zip(&arguments.servers) {
        let peer = Peer::parse(text, number, builds)?;
        if peers.iter().any(|other| other.name == peer.name) {
            bail!("two servers are named `{}`: name one of them by NAME:KIND=PROGRAM", peer.name);
        }
        peers.push(peer);
    }
    Ok(peers)
}

fn compare(arguments: &Arguments, peers: Vec<Peer>, builds: &Builds) -> Result<()> {
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
    let status = Command::new("ip").args("link set lo mtu 1500 up".split(' ')).status();
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
        generator: generator(arguments, builds, &site)?,
        server_core: arguments.server_core,
        client_core: arguments.client_core,
        seconds: arguments.seconds,
        site,
    };
    let mut workloads: Vec<Workload> = Workload::ALL.into();
    workloads
        .retain(|one| arguments.only.is_empty() || arguments.only.iter().any(|o| o == one.name));
    let (mut upstream, mut note) = (None, None);
    match upstream::find(arguments.upstream.as_deref())? {
        Some(program) => {
            let core = arguments.client_core;
            upstream = upstream::start(program, core, &bench.site, &workloads)?;
        }
        None if upstream::do_without(&mut workloads)? => note = Some(upstream::MISSING),
        None => {}
    }
    let contestants: Result<Vec<Contestant>> =
        peers.into_iter().map(|peer| bench.start(peer)).collect();
    let contestants = contestants?;
    let mut measured = Vec::new();
    for workload in workloads {
        let samples = rounds(arguments, &bench, &workload, &contestants)?;
        measured.push((workload, samples));
    }
    drop(upstream);
    let report = report::text(&contestants, &measured, &bench, note)?;
    match &arguments.report {
        Some(file) => fs::write(file, report).with_context(|| file.display().to_string())?,
        None => print!("{report}"),
    }
    Ok(())
}

/// Returns the load generator, by default the product's own.
fn generator(arguments: &Arguments, builds: &Builds, site: &Site) -> Result<Generator> {
    let own = builds.program(Kind::Sluicegate).unwrap_or_default();
    let own = own.display().to_string();
    let command: Vec<&str> = match &arguments.generator {
        Some(command) => command.split_whitespace().collect(),
        None => vec![&own, "load"],
    };
    let log = site.folder.join("requests.log");
    Generator::new(&command, arguments.client_core, log)
}

/// Measures a workload on each server that has it, round by round, after one request that does not count.
fn rounds(
    arguments: &Arguments,
    bench: &Bench,
    workload: &Workload,
    contestants: &[Contestant],
) -> Result<Samples> {
    let serves = |contestant: &Contestant| contestant.peer.kind.serves(workload.resource);
    let mut samples: Samples = contestants.iter().map(|one| serves(one).then(Vec::new)).collect();
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
