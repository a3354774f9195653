//! Datagrams without QUIC: a backend floods, receives a flood and returns pings, one thread each side. The peer always is
//! `mio`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::Bench;
use crate::contender::Contender;
use crate::network::Network;
use crate::node::{Measured, Role};
use sluicegate_compare::figures::{Table, median, short};

/// The tests: what the backend does and what its peer does.
const TESTS: [(Role, Role); 3] =
    [(Role::Flood, Role::Sink), (Role::Sink, Role::Flood), (Role::Echo, Role::Ping)];

/// Outcome of a test: of the backend and of its peer.
type Pair = (Measured, Measured);

/// Runs the tests in turn and adds their rows to the table.
pub(crate) fn run(bench: &Bench, table: &mut Table) -> Result<()> {
    let network = Network::new(0)?;
    let mut results = vec![vec![Vec::new(); bench.contenders.len()]; TESTS.len()];
    for round in 1..=bench.rounds.div_ceil(2) {
        for (number, contender) in bench.contenders.iter().enumerate() {
            network.prepare(contender)?;
            for (test, roles) in TESTS.iter().enumerate() {
                let pair = measure(bench, &network, contender, *roles)?;
                let (own, peer) = pair;
                eprintln!(
                    "round {round}: {} {:?}: {:.0} datagrams/s, CPU {:.2} s, machine {:.2} s; peer {:.0} datagrams/s, p50 {:.0} µs",
                    contender.name,
                    roles.0,
                    own.datagrams / own.seconds,
                    own.cpu.process,
                    own.cpu.machine,
                    peer.datagrams / peer.seconds,
                    peer.p50,
                );
                results[test][number].push(pair);
            }
        }
    }
    report(table, &results);
    Ok(())
}

fn report(table: &mut Table, results: &[Vec<Vec<Pair>>]) {
    let [sends, receives, pings] = results else {
        return;
    };
    rates(table, "datagrams sent", sends);
    table.row(
        "– part of them that the peer received",
        cells(sends, |(own, peer)| (peer.datagrams / peer.seconds) / (own.datagrams / own.seconds)),
    );
    rates(table, "datagrams received", receives);
    table.row("ping-pong of datagrams, p50, µs", cells(pings, |(_, peer)| peer.p50));
    table.row("– p99, µs", cells(pings, |(_, peer)| peer.p99));
    table.row(
        "– CPU time per round trip, µs",
        cells(pings, |(own, _)| own.cpu.process / own.datagrams * 1e6),
    );
}

fn rates(table: &mut Table, what: &str, tests: &[Vec<Pair>]) {
    let rates = |pairs: &Vec<Pair>| -> Vec<f64> {
        let rate = |(own, _): &Pair| own.datagrams / own.cpu.process / 1e3;
        pairs.iter().map(rate).collect()
    };
    let all: Vec<Vec<f64>> = tests.iter().map(rates).collect();
    table.rates(&format!("{what} per CPU-second, thousand"), &all);
    table.row("– per second, thousand", cells(tests, |(own, _)| own.datagrams / own.seconds / 1e3));
    table.row(
        "– CPU-seconds of the machine per second",
        cells(tests, |(own, _)| own.cpu.machine / own.seconds),
    );
}

fn cells(tests: &[Vec<Pair>], figure: impl Fn(&Pair) -> f64) -> Vec<String> {
    let cell = |pairs: &Vec<Pair>| short(median(pairs.iter().map(&figure)));
    tests.iter().map(cell).collect()
}

fn measure(
    bench: &Bench,
    network: &Network,
    contender: &Contender,
    roles: (Role, Role),
) -> Result<Pair> {
    let program = bench.program.display().to_string();
    let own = [
        "--dataplane".to_owned(),
        contender.on(&network.interface()),
        format!("--local={}", network.server()),
        format!("--peer={}", network.peer()),
    ];
    let server_core = bench.server_core.to_string();
    let command = network.command(&["taskset", "-c", &server_core, &program]);
    let mut own = Node::start(command, &own, roles.0, bench.seconds)?;
    let peer = [
        "--dataplane=mio".to_owned(),
        format!("--local={}", network.peer()),
        format!("--peer={}", network.server()),
    ];
    let mut command = Command::new("taskset");
    command.args(["-c", &bench.client_core.to_string(), &program]);
    let mut peer = Node::start(command, &peer, roles.1, bench.seconds)?;
    // Whoever only reacts begins first.
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
            .arg("node")
            .args(words)
            .args([format!("--role={role}"), format!("--seconds={seconds}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().context("a node's output")?;
        let mut node = Self { child, output: BufReader::new(output) };
        if node.line()? != "ready" {
            bail!("a node did not start: {}", node.last_words());
        }
        Ok(node)
    }

    /// Has it begin.
    fn go(&mut self) -> Result<()> {
        let input = self.child.stdin.as_mut().context("a node's input")?;
        Ok(input.write_all(b"go\n")?)
    }

    fn measured(mut self) -> Result<Measured> {
        let line = self.line()?;
        let measured = Measured::parse(&line);
        measured.with_context(|| self.last_words())
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }

    fn last_words(&mut self) -> String {
        let mut said = String::new();
        if let Some(mut errors) = self.child.stderr.take() {
            let _ = errors.read_to_string(&mut said);
        }
        said
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
