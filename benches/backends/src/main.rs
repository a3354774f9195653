//! Compares the backends of the dataplane over one veth pair between two network namespaces, which it makes and removes:
//! datagrams without QUIC, the whole server under HTTP/3 load, flame graphs of it, and idle servers.
//!
//! `benches/README.md` says how to run it and how to read the figures.

mod contender;
mod datagrams;
mod flame;
mod network;
mod node;
mod server;
mod whole;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, ensure};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::contender::Contender;
use crate::node::NodeArguments;
use sluicegate_compare::figures::Table;
use sluicegate_compare::generator::Generator;

/// Compares the backends over one veth pair; needs root, for network namespaces and devices
#[derive(Debug, Parser)]
#[command(name = "backends", args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(flatten)]
    run: RunArguments,
    #[command(subcommand)]
    step: Option<Step>,
}

#[derive(Args, Debug)]
struct RunArguments {
    /// Parts to run, one after the other
    #[arg(long, value_enum, value_delimiter = ',', default_value = "datagrams,server,flame,idle")]
    parts: Vec<Part>,
    /// Backends to compare, the first of them with the others [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Rounds, in each of which every backend has its turn; half as many for datagrams without QUIC
    #[arg(long, default_value_t = 8)]
    rounds: usize,
    /// Length of each measurement
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Time for which idle servers are measured
    #[arg(long, default_value_t = 60.0)]
    idle_seconds: f64,
    /// Load generator
    #[arg(long, default_value = "h2load")]
    h2load: String,
    /// Server [default: the `sluicegate` beside this program]
    #[arg(long)]
    server: Option<PathBuf>,
    /// Core of the server's worker
    #[arg(long, default_value_t = 0)]
    server_core: usize,
    /// Core of the clients
    #[arg(long, default_value_t = 1)]
    client_core: usize,
    /// Keys for the servers' group, such as 'spin = "1ms"'; may be given several times
    #[arg(long)]
    group: Vec<String>,
    /// Folder for flame graphs and the servers' files
    #[arg(long, default_value = "target/backends")]
    folder: PathBuf,
    /// It is in a network namespace of its own already
    #[arg(long, hide = true)]
    within: bool,
}

/// A part of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Floods and ping-pong without QUIC
    Datagrams,
    /// The whole server
    Server,
    /// Flame graphs of the server
    Flame,
    /// Servers without load
    Idle,
}

impl Part {
    /// Returns whether it needs the load generator.
    fn loads(self) -> bool {
        matches!(self, Self::Server | Self::Flame)
    }
}

/// A task of a process that this program starts.
#[derive(Debug, Subcommand)]
enum Step {
    #[command(hide = true)]
    Node(NodeArguments),
    #[command(hide = true)]
    Checksums { interface: String, state: String },
}

/// Settings of a run.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) contenders: Vec<Contender>,
    pub(crate) rounds: usize,
    pub(crate) seconds: f64,
    pub(crate) idle_seconds: f64,
    /// This program, and the server's.
    pub(crate) program: PathBuf,
    pub(crate) server: PathBuf,
    pub(crate) server_core: usize,
    pub(crate) client_core: usize,
    /// None where there is no h2load with HTTP/3.
    pub(crate) load: Option<Generator>,
    /// Keys of the servers' group.
    pub(crate) group: Vec<String>,
    pub(crate) folder: PathBuf,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    match arguments.step {
        Some(Step::Node(node)) => node::run(&node)?,
        Some(Step::Checksums { interface, state }) => {
            network::set_checksum_offload(&interface, state == "on")?;
        }
        None if arguments.run.within => compare(arguments.run)?,
        None => {
            // What it makes there ends with it.
            let status = Command::new("unshare")
                .arg("-n")
                .arg(std::env::current_exe()?)
                .args(std::env::args_os().skip(1))
                .arg("--within")
                .status()
                .context("unshare")?;
            return Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn compare(run: RunArguments) -> Result<()> {
    let program = std::env::current_exe()?;
    fs::create_dir_all(&run.folder)?;
    let folder = run.folder.canonicalize()?;
    let mut bench = Bench {
        contenders: Contender::named(&run.only)?,
        rounds: run.rounds.max(1),
        seconds: run.seconds,
        idle_seconds: run.idle_seconds,
        server: run.server.unwrap_or_else(|| program.with_file_name("sluicegate")),
        program,
        server_core: run.server_core,
        client_core: run.client_core,
        load: load(&run.h2load, run.client_core, &folder),
        group: run.group,
        folder,
    };
    bench.examine()?;
    ensure!(!bench.contenders.is_empty(), "no backend can be opened");
    let loads = bench.load.is_some();
    let has = |part| run.parts.contains(&part) && (loads || !part.loads());
    let mut table = Table::new(bench.contenders.iter().map(|contender| contender.name));
    if has(Part::Server) {
        whole::run(&bench, &mut table)?;
    }
    if has(Part::Datagrams) {
        datagrams::run(&bench, &mut table)?;
    }
    if has(Part::Idle) {
        whole::idle(&bench, &mut table)?;
    }
    if has(Part::Flame) {
        whole::graphs(&bench)?;
    }
    table.print();
    Ok(())
}

/// Returns the load generator; without one, says why.
fn load(h2load: &str, core: usize, folder: &Path) -> Option<Generator> {
    let command: Vec<&str> = h2load.split_whitespace().collect();
    match Generator::new(&command, core, folder.join("requests.log")) {
        Ok(generator) => Some(generator),
        Err(cause) => {
            eprintln!("without load: {cause}");
            None
        }
    }
}
