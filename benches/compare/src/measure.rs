//! Rounds of measurements in turn, on a machine that is quiet.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use sluicegate_compare::cpu::{self, Core};
use sluicegate_compare::generator::{Generator, Load, Outcome};

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

/// A running server and what it is.
#[derive(Debug)]
pub(crate) struct Contestant {
    pub(crate) peer: Peer,
    pub(crate) server: Server,
}

/// A measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// The figure of the workload.
    pub(crate) value: f64,
    /// The time at 99 %, where times are measured.
    pub(crate) p99: f64,
    /// Requests that failed.
    pub(crate) failed: f64,
    /// Part of the time that the server's core was busy.
    pub(crate) busy: f64,
    /// Whether the cores were not quiet before, other work took more than a twentieth of the server's core, or the hypervisor of both.
    pub(crate) disturbed: bool,
}

/// Generator, cores and length of the measurements.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) generator: Generator,
    pub(crate) server_core: usize,
    pub(crate) client_core: usize,
    pub(crate) seconds: f64,
    pub(crate) site: Site,
}

impl Bench {
    /// Starts a server.
    pub(crate) fn start(&self, peer: Peer) -> Result<Contestant> {
        let server = Server::start(
            &peer.name,
            &peer.command(&self.site),
            &self.site.folder,
            self.server_core,
            Port::Udp(peer.port),
        )?;
        Ok(Contestant { peer, server })
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
        let contestant = if workload.figure == Figure::Memory {
            twin = self.twin(workload, &contestant.peer)?;
            &twin
        } else {
            contestant
        };
        let quiet = self.wait_for_quiet()?;
        let url = contestant.peer.url(workload.path);
        let process = contestant.server.id();
        let before = (self.cores()?, cpu::of_tree(&process)?, Instant::now());
        let mut memory = f64::NAN;
        let outcome = if workload.figure == Figure::Memory {
            let (added, outcome) = self.memory(workload, &url, &process)?;
            memory = added;
            outcome
        } else {
            self.generator.run(&(workload.load)(self.seconds), &url)?
        };
        contestant.server.check()?;
        let cpu = cpu::of_tree(&process)? - before.1;
        let seconds = before.2.elapsed().as_secs_f64();
        let [own, client] = self.cores()?;
        let (own, client) = (own.since(before.0[0]), client.since(before.0[1]));
        ensure!(cpu > 0.0, "the server used no CPU time");
        let others = (own.busy - cpu).max(own.stolen + client.stolen) / seconds;
        Ok(Sample {
            value: match workload.figure {
                Figure::Requests => outcome.succeeded / cpu,
                Figure::Gbit => outcome.bytes * 8e-9 / cpu,
                Figure::Times => outcome.p50,
                Figure::Memory => memory,
            },
            p99: outcome.p99,
            failed: outcome.failed,
            busy: own.busy / seconds,
            disturbed: !quiet || others > OTHERS,
        })
    }

    /// Starts a fresh server that has served one client: one that has served others may have kept their memory.
    fn twin(&self, workload: &Workload, peer: &Peer) -> Result<Contestant> {
        let twin = self.start(peer.twin())?;
        self.check(workload, &twin)?;
        Ok(twin)
    }

    /// Sends one request.
    ///
    /// # Errors
    ///
    /// It does not succeed.
    pub(crate) fn check(&self, workload: &Workload, contestant: &Contestant) -> Result<()> {
        let one = Load::handshakes(1, 1);
        let url = contestant.peer.url(workload.path);
        self.generator.run(&one, &url).map(drop)
    }

    /// Returns the memory that each connection adds, and what came of the load.
    fn memory(&self, workload: &Workload, url: &str, process: &str) -> Result<(f64, Outcome)> {
        let before = cpu::memory_of_tree(process)?;
        let load = (workload.load)(f64::from(MEMORY + 1));
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
}
