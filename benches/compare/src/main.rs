//! Compares HTTP/3 servers on one machine: the same files, the same upstream, the same load, in turn; and the product's backends, over
//! a veth pair for each.
//!
//! `benches/README.md` says how to run it and how to read the report.

mod arguments;
mod backend;
mod building;
mod configuration;
mod cpu;
mod datagrams;
mod figures;
mod flame;
mod generator;
mod kind;
mod measure;
mod network;
mod node;
mod peer;
mod report;
mod running;
mod site;
mod upstream;
mod workload;

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::Parser as _;

use crate::arguments::{Arguments, Part, Step};
use crate::building::Builds;
use crate::figures::Samples;
use crate::generator::{Generator, Handshake};
use crate::kind::Kind;
use crate::measure::{Bench, Contestant, Sample};
use crate::peer::Peer;
use crate::report::Measured;
use crate::site::{Key, Site};
use crate::workload::Workload;

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let Some(Step::Node(node)) = &arguments.step {
        return node::run(node);
    }
    let program = std::env::current_exe()?;
    let builds = Builds::new(program.parent().context("a folder")?.to_owned());
    let peers = arguments.peers(&builds)?;
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

fn compare(arguments: &Arguments, peers: Vec<Peer>, builds: &Builds) -> Result<()> {
    arguments.check()?;
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
        net: arguments.net,
        generator: generator(arguments, builds, &site)?,
        server_core: arguments.server_core,
        client_core: arguments.client_core,
        rounds: arguments.rounds.into(),
        seconds: arguments.seconds(),
        site,
    };
    let mut workloads = arguments.workloads();
    workloads.retain(|workload| {
        let can = bench.generator.can(workload.handshake());
        if !can {
            eprintln!("left out: {}, as the load generator cannot resume sessions", workload.name);
        }
        can
    });
    if workloads.iter().any(|workload| workload.key == Key::Rsa) {
        bench.site.certify(Key::Rsa)?;
    }
    let (mut upstream, mut note) = (None, None);
    match upstream::find(arguments.upstream.as_deref())? {
        Some(program) => {
            let core = arguments.client_core;
            upstream = upstream::start(program, core, &bench.site, &workloads)?;
        }
        None if upstream::do_without(&mut workloads)? => note = Some(upstream::MISSING),
        None => {}
    }
    let contestants = start(&bench, peers)?;
    let mut measured = Measured::default();
    if arguments.has(Part::Idle) {
        measured.idle = Some(bench.idle(&contestants, arguments.idle_seconds)?);
    }
    if arguments.has(Part::Server) {
        for workload in &workloads {
            measured.workloads.push((*workload, rounds(&bench, workload, &contestants)?));
        }
    }
    if arguments.has(Part::Flame) {
        flame::graphs(&bench, &workloads, &contestants, &arguments.folder)?;
    }
    drop(upstream);
    if arguments.has(Part::Datagrams) {
        measured.datagrams = Some(datagrams::run(&bench, &contestants));
    }
    let report = report::text(&contestants, &measured, &bench, arguments.details, note)?;
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

/// Starts the servers. Leaves out those whose backend cannot be opened here, and says why.
fn start(bench: &Bench, peers: Vec<Peer>) -> Result<Vec<Contestant>> {
    let mut contestants = Vec::new();
    for (number, peer) in (0..).zip(peers) {
        let has_backend = peer.backend.is_some();
        match bench.start(peer, number) {
            Ok(contestant) => contestants.push(contestant),
            Err(cause) if has_backend => eprintln!("left out: {cause:#}"),
            Err(cause) => return Err(cause),
        }
    }
    ensure!(!contestants.is_empty(), "no backend can be opened");
    Ok(contestants)
}

/// Measures a workload on each server that has it, round by round, after one request that does not count.
fn rounds(
    bench: &Bench,
    workload: &Workload,
    contestants: &[Contestant],
) -> Result<Samples<Sample>> {
    let serves = |contestant: &Contestant| contestant.peer.serves(workload);
    let mut samples: Samples<Sample> =
        contestants.iter().map(|one| serves(one).then(Vec::new)).collect();
    let place = |contestant: &Contestant| format!("{}, {}", contestant.peer.name, workload.name);
    for (contestant, samples) in contestants.iter().zip(&mut samples) {
        if !serves(contestant) {
            continue;
        }
        let checked = bench.check(workload, contestant);
        let checked = checked.with_context(|| place(contestant));
        match checked {
            // Not every TLS library has the group.
            Err(cause) if workload.handshake() == Handshake::PostQuantum => {
                eprintln!("left out: {cause:#}");
                *samples = None;
            }
            checked => checked?,
        }
    }
    for round in 1..=bench.rounds {
        // None always follows the same one.
        let first = round % contestants.len();
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
                sample.value(workload.figure),
                workload.figure.unit(),
                if sample.disturbed { ", disturbed" } else { "" }
            );
            samples.push(sample);
        }
    }
    Ok(samples)
}
