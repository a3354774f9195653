//! Runs a server and a client with an emulated link between them.

use std::io;
use std::net::SocketAddr;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use signal_hook::consts::{SIGINT, SIGTERM};
use sluicegate_benches::linkem::{
    Emulator, Group, Link, LinkOptions, Network, Priority, prioritize, relay, wait,
};

/// Time that a server has to bind its port.
const START: Duration = Duration::from_secs(10);

const EXAMPLES: &str = "\
Examples:
  linkem --rate 20mbit --delay 50ms -- ping -c 5 198.18.0.1
  linkem --rate 10mbit --delay 20ms --queue 1bdp --server 'exec sluicegate run -c FILE' --port 443 -- CLIENT https://198.18.0.1/
  linkem --scenario rate-fall --relay 127.0.0.1:4433=192.0.2.1:443 --seconds 60

Client and server get network namespaces of their own, which only the link joins; the server has 198.18.0.1, the client 198.18.0.2.
They end with this program, which needs root, or `unshare --map-root-user`. The exit code is the client's.";

/// An emulated link for real traffic: runs a client, and a server if asked to, and prints what the link did
#[derive(Debug, Parser)]
#[command(name = "linkem", after_help = EXAMPLES)]
struct Arguments {
    #[command(flatten)]
    link: LinkOptions,
    /// Seed of everything random on the link
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Shell command to run in the server's namespace; it is ended after the client
    #[arg(long, value_name = "COMMAND")]
    server: Option<String>,
    /// Starts the client once the server has this port, of UDP or TCP
    #[arg(long, requires = "server")]
    port: Option<u16>,
    /// Relays UDP instead, without namespaces, for one client: listens here, and sends to the server there
    #[arg(long, value_name = "ADDRESS=SERVER", value_parser = addresses, conflicts_with_all = ["server", "client"])]
    relay: Option<(SocketAddr, SocketAddr)>,
    /// Runs client and server in real time, before all ordinary threads: for figures on a machine that has other work
    #[arg(long, conflicts_with = "relay")]
    realtime: bool,
    /// Ends after so many seconds
    #[arg(long)]
    seconds: Option<f64>,
    /// Client, with its arguments
    #[arg(last = true, required_unless_present = "relay")]
    client: Vec<String>,
}

fn addresses(text: &str) -> Result<(SocketAddr, SocketAddr), String> {
    let parts = text.split_once('=');
    let parts = parts.and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    parts.ok_or_else(|| "expected 127.0.0.1:4433=192.0.2.1:443".to_owned())
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let (down, up) = arguments.link.directions()?;
    let link = Link::new(&down, &up, arguments.seed);
    let limit = match arguments.seconds {
        Some(seconds) => Duration::try_from_secs_f64(seconds).context("--seconds")?,
        None => Duration::MAX,
    };
    let stopped = || stop.load(Ordering::Relaxed);
    match arguments.relay {
        Some((listen, server)) => {
            let (listener, upstream) = relay(listen, server)?;
            let emulator = Emulator::start(link, Box::new(listener), Box::new(upstream))?;
            wait(limit, stopped);
            eprintln!("\n{}", emulator.stop()?);
            Ok(ExitCode::SUCCESS)
        }
        None => between_namespaces(&arguments, link, limit, stopped),
    }
}

fn between_namespaces(
    arguments: &Arguments,
    link: Link,
    limit: Duration,
    stopped: impl FnMut() -> bool,
) -> Result<ExitCode> {
    let mut network = Network::new()?;
    let emulator = network.join(link)?;
    let mut server = None;
    if let Some(command) = &arguments.server {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]);
        let started = network.server.within(|| start(&mut shell, arguments))?;
        server = Some(started.context("sh")?);
    }
    if let Some(port) = arguments.port {
        let bound = network.await_server(port, START)?;
        ensure!(bound, "the server has not bound port {port} within {START:?}");
    }
    let [program, words @ ..] = arguments.client.as_slice() else {
        unreachable!("clap requires a client");
    };
    let mut client = Command::new(program);
    client.args(words);
    let started = network.client.within(|| start(&mut client, arguments))?;
    let client = started.with_context(|| program.clone())?;
    let ended = client.wait(limit, stopped)?;
    drop((client, server));
    let overflow = network.overflow()?;
    eprintln!("\n{}", emulator.stop()?);
    eprintln!("packets that the kernel dropped at the ends: {overflow}");
    let code = ended.map(|status| status.code().unwrap_or(1));
    Ok(ExitCode::from(u8::try_from(code.unwrap_or_default()).unwrap_or(1)))
}

fn start(command: &mut Command, arguments: &Arguments) -> io::Result<Group> {
    if arguments.realtime && !prioritize(Priority::Program) {
        return Err(io::Error::last_os_error());
    }
    Group::start(command)
}
