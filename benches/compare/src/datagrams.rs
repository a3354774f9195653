//! Datagrams without QUIC: a backend floods, receives a flood and returns pings, one thread each side. The peer always is
//! `mio`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::backend::Backend;
use crate::figures::{Samples, Table};
use crate::measure::{Bench, Contestant};
use crate::network::Host;
use crate::node::{Measured, Role};

/// The tests: what the backend does and what its peer does.
const TESTS: [(Role, Role); 3] =
    [(Role::Flood, Role::Sink), (Role::Sink, Role::Flood), (Role::Echo, Role::Ping)];

/// Outcome of a test: of the backend and of its peer.
type Pair = (Measured, Measured);

/// Outcomes of the tests.
pub(crate) type Outcomes = [Samples<Pair>; 3];

/// Ends the servers and runs the tests on their hosts in turn. The backends are those of this program, so each has its turn once.
pub(crate) fn run(bench: &Bench, contestants: &[Contestant]) -> Outcomes {
    contestants.iter().for_each(|contestant| contestant.server.stop());
    let mut backends = Vec::new();
    for (number, contestant) in contestants.iter().enumerate() {
        if let Some(backend) = &contestant.peer.backend
            && backends.iter().all(|(_, _, other): &(_, _, &Backend)| other.name != backend.name)
        {
            backends.push((number, &contestant.host, backend));
        }
    }
    let mut outcomes: Outcomes = TESTS.map(|_| vec![None; contestants.len()]);
    for round in 1..=bench.rounds.div_ceil(2) {
        backends.retain(|&(number, host, backend)| {
            let mut tests = TESTS.iter().zip(&mut outcomes);
            let done = tests.try_for_each(|(roles, outcomes)| -> Result<()> {
                let pair = measure(bench, host, backend, *roles)?;
                print(round, backend, roles.0, pair);
                outcomes[number].get_or_insert_default().push(pair);
                Ok(())
            });
            if let Err(cause) = &done {
                eprintln!("no further datagrams by {}: {cause:#}", backend.name);
            }
            done.is_ok()
        });
    }
    outcomes
}

fn print(round: usize, backend: &Backend, role: Role, (own, peer): Pair) {
    eprintln!(
        "round {round}: {} {role:?}: {:.0} datagrams/s, CPU {:.2} s, machine {:.2} s; peer {:.0} datagrams/s, p50 {:.0} µs",
        backend.name,
        own.datagrams / own.seconds,
        own.cpu.process,
        own.cpu.machine,
        peer.datagrams / peer.seconds,
        peer.p50,
    );
}

/// Adds their rows to the table.
pub(crate) fn report(table: &mut Table, [sends, receives, pings]: &Outcomes) {
    table.compare_with_first();
    rates(table, "datagrams sent", sends);
    table.medians("– part of them that the peer received", sends, |(own, peer)| {
        (peer.datagrams / peer.seconds) / (own.datagrams / own.seconds)
    });
    rates(table, "datagrams received", receives);
    table.medians("ping-pong of datagrams, p50, µs", pings, |(_, peer)| peer.p50);
    table.medians("– p99, µs", pings, |(_, peer)| peer.p99);
    table.medians("– CPU time per round trip, µs", pings, |(own, _)| {
        own.cpu.process / own.datagrams * 1e6
    });
}

fn rates(table: &mut Table, what: &str, tests: &Samples<Pair>) {
    table.rates(&format!("{what} per CPU-second, thousand"), tests, |(own, _)| {
        own.datagrams / own.cpu.process / 1e3
    });
    table.medians("– per second, thousand", tests, |(own, _)| own.datagrams / own.seconds / 1e3);
    table.medians("– CPU-seconds of the machine per second", tests, |(own, _)| {
        own.cpu.machine / own.seconds
    });
}

fn measure(bench: &Bench, host: &Host, backend: &Backend, roles: (Role, Role)) -> Result<Pair> {
    let server = host.address();
    let client = SocketAddr::new(host.client(), server.port());
    let start = |host: &Host, core, dataplane: &str, ends: [SocketAddr; 2], role| {
        let words = [
            format!("--dataplane={dataplane}"),
            format!("--local={}", ends[0]),
            format!("--peer={}", ends[1]),
        ];
        Node::start(host.on_core(core), &words, role, bench.seconds)
    };
    let device = backend.on(&host.interface());
    let mut own = start(host, bench.server_core, &device, [server, client], roles.0)?;
    let clients = Host::local(host.number());
    let mut peer = start(&clients, bench.client_core, "mio", [client, server], roles.1)?;
    // The end that only reacts begins first.
    let pinged = roles.0 == Role::Echo || roles.0 == Role::Sink;
    for node in if pinged { [&mut own, &mut peer] } else { [&mut peer, &mut own] } {
        node.go()?;
    }
    Ok((own.measured()?, peer.measured()?))
}

/// A process with one end of a test.
struct Node {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Node {
    /// Starts a node and waits until it is ready.
    fn start(mut command: Command, words: &[String], role: Role, seconds: f64) -> Result<Self> {
        let role = format!("{role:?}").to_lowercase();
        let mut child = command
            .arg(std::env::current_exe()?)
            .arg("node")
            .args(words)
            .args([format!("--role={role}"), format!("--seconds={seconds}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().context("a node's output")?;
        let mut node = Self { child, output: BufReader::new(output) };
        ensure!(node.line()? == "ready", "a node did not start");
        Ok(node)
    }

    /// Has it begin.
    fn go(&mut self) -> Result<()> {
        let input = self.child.stdin.as_mut().context("a node's input")?;
        Ok(input.write_all(b"go\n")?)
    }

    fn measured(mut self) -> Result<Measured> {
        Measured::parse(&self.line()?)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
