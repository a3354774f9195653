//! The command line.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use clap::{Parser, Subcommand, ValueEnum};

use crate::backend::Backend;
use crate::building::Builds;
use crate::kind::{Kind, Resource};
use crate::measure::TWIN;
use crate::network::Net;
use crate::node::NodeArguments;
use crate::peer::{Peer, on_backends};
use crate::workload::Workload;

/// Compares HTTP/3 servers, and the product's backends, under the same load, in turn; needs root, for network namespaces
#[derive(Debug, Parser)]
#[command(name = "compare", args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[arg(help = servers_help())]
    servers: Vec<String>,
    /// Network between servers and load
    #[arg(long, value_enum, default_value_t = Net::Loopback)]
    pub(crate) net: Net,
    /// Parts to run [default: server; with --net veth all]
    #[arg(long, value_enum, value_delimiter = ',')]
    parts: Vec<Part>,
    /// Workloads [default: all without a generated body; with --net veth the others]
    #[arg(long, value_delimiter = ',', value_parser = Workload::ALL.map(|workload| workload.name))]
    only: Vec<String>,
    /// Backends on each of which the product runs [default: the product's choice; with --net veth all]
    #[arg(long, value_delimiter = ',', value_parser = Backend::ALL.map(|backend| backend.name))]
    backends: Vec<String>,
    /// Keys for the product's group, such as 'spin = "1ms"'; may be given several times
    #[arg(long)]
    group: Vec<String>,
    /// Rounds, in each of which every server has its turn; half as many for datagrams without QUIC
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) rounds: u16,
    /// Length of each measurement [default: 2; with --net veth 1]
    #[arg(long)]
    seconds: Option<f64>,
    /// Time for which idle servers are measured
    #[arg(long, default_value_t = 60.0)]
    pub(crate) idle_seconds: f64,
    /// Load generator: h2load with HTTP/3, or a program with its options and output [default: `sluicegate load`, built beside this program]
    #[arg(long, visible_alias = "h2load")]
    pub(crate) generator: Option<String>,
    /// nginx, as the upstream [default: the one in PATH; without it, proxied workloads are left out]
    #[arg(long)]
    pub(crate) upstream: Option<PathBuf>,
    /// Core of the servers
    #[arg(long, default_value_t = 0)]
    pub(crate) server_core: usize,
    /// Core of the load generator and the upstream
    #[arg(long, default_value_t = 1)]
    pub(crate) client_core: usize,
    /// Rates per second and CPU times in the table
    #[arg(long)]
    pub(crate) details: bool,
    /// File for the report [default: standard output]
    #[arg(long)]
    pub(crate) report: Option<PathBuf>,
    /// Folder for flame graphs
    #[arg(long, default_value = "target/compare")]
    pub(crate) folder: PathBuf,
    /// It is in a network namespace of its own already
    #[arg(long, hide = true)]
    pub(crate) within: bool,
    #[command(subcommand)]
    pub(crate) step: Option<Step>,
}

/// A part of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Servers under load
    Server,
    /// Floods and ping-pong without QUIC, by the backends of this program
    Datagrams,
    /// Flame graphs of servers under load
    Flame,
    /// Servers without load
    Idle,
}

/// A task of a process that this program starts.
#[derive(Debug, Subcommand)]
pub(crate) enum Step {
    #[command(hide = true)]
    Node(NodeArguments),
}

fn servers_help() -> String {
    let built = Kind::ALL.into_iter().filter(|kind| kind.recipe().is_some());
    format!(
        "Servers, as KIND=PROGRAM, or as KIND to build one of {}, or to take the sluicegate beside this program, which is the \
         default; NAME:KIND names it in tables. Kinds are {}. Ratios are to the first column, or to the first with the same backend",
        built.map(Kind::name).collect::<Vec<_>>().join(", "),
        Kind::ALL.map(Kind::name).join(", ")
    )
}

impl Arguments {
    /// Checks what the parser does not.
    pub(crate) fn check(&self) -> Result<()> {
        for (name, seconds) in
            [("--seconds", self.seconds()), ("--idle-seconds", self.idle_seconds)]
        {
            ensure!(
                seconds > 0.0 && seconds <= 3600.0,
                "{name} {seconds} is out of its range, above 0 and up to 3600"
            );
        }
        ensure!(
            self.server_core != self.client_core,
            "servers and load need cores of their own: --server-core and --client-core are both {}",
            self.server_core
        );
        ensure!(
            self.net == Net::Veth || !self.has(Part::Datagrams),
            "--parts datagrams needs --net veth"
        );
        Ok(())
    }

    /// Returns whether a part runs.
    pub(crate) fn has(&self, part: Part) -> bool {
        match self.net {
            Net::Loopback if self.parts.is_empty() => part == Part::Server,
            Net::Loopback | Net::Veth => self.parts.is_empty() || self.parts.contains(&part),
        }
    }

    /// Returns the length of a measurement.
    pub(crate) fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(match self.net {
            Net::Loopback => 2.0,
            Net::Veth => 1.0,
        })
    }

    pub(crate) fn workloads(&self) -> Vec<Workload> {
        let generated = |workload: &Workload| workload.resource() == Resource::Generated;
        let chosen = |workload: &Workload| {
            if self.only.is_empty() {
                return generated(workload) == (self.net == Net::Veth);
            }
            self.only.iter().any(|name| name == workload.name)
        };
        Workload::ALL.into_iter().filter(chosen).collect()
    }

    /// Returns the servers, one for each backend.
    pub(crate) fn peers(&self, builds: &Builds) -> Result<Vec<Peer>> {
        let mut peers: Vec<Peer> = Vec::new();
        let own = [Kind::Sluicegate.name().to_owned()];
        for text in if self.servers.is_empty() { &own[..] } else { &self.servers } {
            peers.push(Peer { keys: self.group.clone(), ..Peer::parse(text, builds)? });
        }
        let all = self.backends.is_empty() && self.net == Net::Veth;
        let chosen = |backend: &Backend| all || self.backends.iter().any(|n| n == backend.name);
        let backends: Vec<Backend> = Backend::ALL.into_iter().filter(chosen).collect();
        for backend in &backends {
            ensure!(
                self.net == Net::Veth || !backend.needs_interface(),
                "--backends {} needs --net veth",
                backend.name
            );
        }
        if !backends.is_empty() {
            peers = on_backends(peers, &backends);
        }
        for (number, peer) in peers.iter().enumerate() {
            if peers[..number].iter().any(|other| other.name == peer.name) {
                bail!(
                    "two servers are named `{}`: name one of them by NAME:KIND=PROGRAM",
                    peer.name
                );
            }
        }
        ensure!(peers.len() <= usize::from(TWIN), "{} servers are too many", peers.len());
        Ok(peers)
    }
}
