//! Rounds of measurements in turn, on a machine that is quiet.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::configuration;
use crate::cpu::{self, Core, Cpu};
use crate::figures::Samples;
use crate::generator::{Generator, Load, Outcome};
use crate::network::{Host, Net};
use crate::peer::Peer;
use crate::running::{Port, Server};
use crate::site::Site;
use crate::workload::{Figure, Workload};

/// Length of a look at the machine, and how many there are at most before a measurement.
const LOOK: Duration = Duration::from_millis(200);
const LOOKS: usize = 50;
/// Part of a core's time above which other work disturbs a measurement.
const OTHERS: f64 = 0.05;
/// Time after which memory is read, seconds. The load goes on for one more.
const MEMORY: u32 = 5;

/// Distance of a server's number to that of its twin, and largest number of servers.
pub(crate) const TWIN: u8 = 100;

/// A running server and what it is.
#[derive(Debug)]
pub(crate) struct Contestant {
    pub(crate) peer: Peer,
    pub(crate) server: Server,
    pub(crate) host: Host,
}

impl Contestant {
    pub(crate) fn url(&self, workload: &Workload) -> String {
        format!("https://{}/{}", self.host.address(), workload.path)
    }
}

/// A measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) outcome: Outcome,
    pub(crate) seconds: f64,
    /// CPU time of the server and of the machine.
    pub(crate) cpu: Cpu,
    /// KiB of memory that a connection added; NaN where that is not measured.
    memory: f64,
    /// Part of the time that the server's core was busy.
    pub(crate) busy: f64,
    /// Whether the cores were not quiet before, other work took more than a twentieth of the server's core, or the hypervisor of both.
    pub(crate) disturbed: bool,
}

impl Sample {
    pub(crate) fn value(&self, figure: Figure) -> f64 {
        match figure {
            Figure::Requests | Figure::Gbit => self.amount(figure) / self.cpu.process,
            Figure::Times => self.outcome.p50,
            Figure::Memory => self.memory,
        }
    }

    /// Returns what was delivered, in the unit of the figure.
    pub(crate) fn amount(&self, figure: Figure) -> f64 {
        match figure {
            Figure::Gbit => self.outcome.bytes * 8e-9,
            Figure::Requests | Figure::Times | Figure::Memory => self.outcome.succeeded,
        }
    }
}

/// Settings of the measurements.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) net: Net,
    pub(crate) generator: Generator,
    pub(crate) server_core: usize,
    pub(crate) client_core: usize,
    pub(crate) rounds: usize,
    pub(crate) seconds: f64,
    pub(crate) site: Site,
}

impl Bench {
    /// Starts a server.
    pub(crate) fn start(&self, peer: Peer, number: u8) -> Result<Contestant> {
        let host = Host::new(self.net, number, peer.backend.as_ref())?;
        let program = configuration::program(&peer, &host, &self.site);
        let port = Port::Udp(host.address());
        let server = Server::start(&program, &host, &self.site.folder, self.server_core, port)?;
        Ok(Contestant { peer, server, host })
    }

    /// Waits until other work leaves both cores alone. Returns whether it does.
    fn wait_for_quiet(&self) -> Result<bool> {
        for _ in 0..LOOKS {
            let before = self.cores()?;
            thread::park_timeout(LOOK);
            let after = self.cores()?;
            let used = |(after, before): (Core, Core)| {
                let used = after.since(before);
                (used.busy + used.stolen) / LOOK.as_secs_f64()
            };
            // A tick of the clock is a twentieth of the look.
            let quiet = |used: f64| used < 2.5 * OTHERS;
            if after.into_iter().zip(before).map(used).all(quiet) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn cores(&self) -> Result<[Core; 2]> {
        Ok([Core::read(self.server_core)?, Core::read(self.client_core)?])
    }

    /// Measures a workload on a server.
    #[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
    pub(crate) fn sample(&self, workload: &Workload, contestant: &Contestant) -> Result<Sample> {
        let twin;
        let contestant = if workload.needs_twin() {
            twin = self.twin(workload, contestant)?;
            &twin
        } else {
            contestant
        };
        let quiet = self.wait_for_quiet()?;
        let url = contestant.url(workload);
        let process = contestant.server.id();
        let before = (self.cores()?, Cpu::read(&process)?, Instant::now());
        let (memory, outcome) = if workload.figure == Figure::Memory {
            self.memory(workload, &url, &process)?
        } else {
            (f64::NAN, self.generator.run(&workload.load(self.seconds), &url)?)
        };
        contestant.server.check()?;
        let cpu = Cpu::read(&process)?.since(before.1);
        let seconds = before.2.elapsed().as_secs_f64();
        let [own, client] = self.cores()?;
        let (own, client) = (own.since(before.0[0]), client.since(before.0[1]));
        ensure!(cpu.process > 0.0, "the server used no CPU time");
        let others = (own.busy - cpu.process).max(own.stolen + client.stolen) / seconds;
        let disturbed = !quiet || others > OTHERS;
        Ok(Sample { outcome, seconds, cpu, memory, busy: own.busy / seconds, disturbed })
    }

    /// Starts a fresh server with the workload's certificate that has served one client: one that has served others may have kept their
    /// memory.
    fn twin(&self, workload: &Workload, contestant: &Contestant) -> Result<Contestant> {
        let twin =
            self.start(contestant.peer.twin(workload.key), contestant.host.number() + TWIN)?;
        self.check(workload, &twin)?;
        Ok(twin)
    }

    /// Sends one request.
    ///
    /// # Errors
    ///
    /// It does not succeed.
    pub(crate) fn check(&self, workload: &Workload, contestant: &Contestant) -> Result<()> {
        let (protocol, handshake) = (workload.protocol(), workload.handshake());
        let one = Load { protocol, handshake, ..Load::handshakes(1, 1) };
        self.generator.run(&one, &contestant.url(workload)).map(drop)
    }

    /// Returns the memory that each connection adds, and what came of the load.
    fn memory(&self, workload: &Workload, url: &str, process: &str) -> Result<(f64, Outcome)> {
        let before = cpu::memory_of_tree(process)?;
        let load = workload.load(f64::from(MEMORY + 1));
        let connections = load.connections as f64;
        let load = self.generator.start(&load, url)?;
        thread::park_timeout(Duration::from_secs(u64::from(MEMORY)));
        let after = cpu::memory_of_tree(process);
        let outcome = self.generator.finish(load)?;
        // Each has had a request by then.
        ensure!(
            outcome.succeeded >= connections,
            "{} requests of {connections} connections succeeded",
            outcome.succeeded
        );
        Ok(((after? - before) / connections, outcome))
    }
    /// Returns the CPU time that each server uses in a minute without requests, all at the same time, seconds.
    pub(crate) fn idle(&self, contestants: &[Contestant], seconds: f64) -> Result<Samples<f64>> {
        let read = || -> Result<Vec<f64>> {
            let used = |one: &Contestant| Ok(Cpu::read(&one.server.id())?.process);
            contestants.iter().map(used).collect()
        };
        // What the start leaves to do is done after that.
        thread::park_timeout(Duration::from_secs(1));
        let before = read()?;
        thread::park_timeout(Duration::from_secs_f64(seconds));
        let used = read()?.into_iter().zip(before);
        Ok(used.map(|(after, before)| Some(vec![(after - before) * 60.0 / seconds])).collect())
    }
}
