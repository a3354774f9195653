//! The state of the server for an operator: that of this process, and of those that drain beside it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sluicegate_base::clock;
use sluicegate_base::observe::lifecycle::Phase;
use sluicegate_base::observe::metrics::Label as _;

use super::reload::Reloader;
use super::worker_commands::{ask, ask_each};
use crate::handover::message::DrainingProcess;
use crate::snapshot::Protocols;
use crate::tcp::FrontCommand;
use crate::worker::{Command, WorkerConnections};

/// Time for which a process that drains is shown after its last word.
const SILENCE: Duration = Duration::from_secs(1);

/// Processes that drain beside this one, by their numbers, and when they have last said so.
#[derive(Debug, Default)]
pub(super) struct DrainingProcesses(BTreeMap<u32, (DrainingProcess, Instant)>);

impl DrainingProcesses {
    /// Notes what a process has said.
    pub(super) fn note(&mut self, process: DrainingProcess, now: Instant) {
        self.forget_silent(now);
        self.0.insert(process.process, (process, now));
    }

    /// Drops those that have said nothing for a while: they have ended, or serve again.
    fn forget_silent(&mut self, now: Instant) {
        self.0.retain(|_, (_, at)| now.saturating_duration_since(*at) < SILENCE);
    }

    /// Returns those that drain now.
    fn now(&mut self, now: Instant) -> impl Iterator<Item = &DrainingProcess> {
        self.forget_silent(now);
        self.0.values().map(|(process, _)| process)
    }
}

/// Connections of this process.
pub(super) struct Connections {
    of_workers: Vec<WorkerConnections>,
    /// Those over TCP.
    pub(super) tcp: u64,
    /// All workers and fronts have drained.
    pub(super) have_drained: bool,
}

impl Connections {
    /// Asks all workers and fronts.
    ///
    /// # Errors
    /// One does not reply.
    pub(super) fn count(reloader: &Reloader<'_>) -> io::Result<Connections> {
        let of_workers = ask(&reloader.workers, Command::Count)?;
        let fronts = ask_each(&reloader.workers, |worker, reply| {
            worker.front.send(FrontCommand::Count(reply)).is_ok()
        })?;
        let have_drained =
            of_workers.iter().all(|one| one.is_drained) && fronts.iter().all(Option::is_none);
        let tcp = fronts.into_iter().flatten().sum();
        Ok(Connections { of_workers, tcp, have_drained })
    }

    pub(super) fn quic(&self) -> u64 {
        self.of_workers.iter().map(|one| one.open).sum()
    }
}

/// What the main thread knows of this process.
pub(super) struct ProcessFacts<'a> {
    pub(super) phase: Phase,
    /// Time since 1970 at which it began to serve.
    pub(super) since: Duration,
    /// Time until it ends, if it drains.
    pub(super) left: Option<Duration>,
    pub(super) draining: &'a mut DrainingProcesses,
}

/// Returns the state as JSON.
///
/// # Errors
/// A worker does not reply.
pub(super) fn status(facts: ProcessFacts<'_>, reloader: &Reloader<'_>) -> io::Result<Value> {
    let connections = Connections::count(reloader)?;
    let listeners = reloader.snapshot.bound_listeners.iter().map(|bound| {
        let at = &bound.at;
        let all = connections.of_workers.iter().flat_map(|one| &one.by_listener);
        let own = all.filter(|(id, _)| *id == at.id).map(|(_, count)| count);
        let protocols: &[&str] = match at.protocols {
            Protocols::Quic => &["quic"],
            Protocols::QuicAndTcp => &["quic", "tcp"],
            Protocols::Http => &["http"],
        };
        json!({
            "name": bound.name, "address": at.local.to_string(), "protocols": protocols,
            "quic_connections": own.sum::<u64>(),
        })
    });
    let draining = facts.draining.now(clock::now()).map(|one| {
        json!({
            "process": one.process, "generation": one.generation, "connections": one.connections,
            "seconds_left": one.seconds_left,
        })
    });
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "process": std::process::id(),
        "phase": facts.phase.name(),
        "since": clock::date(facts.since),
        "generation": reloader.generation(),
        "config": reloader.source.as_deref().map(absolute),
        "config_generation": reloader.snapshot.generation,
        "quic_connections": connections.quic(),
        "tcp_connections": connections.tcp,
        "seconds_left": facts.left.map(|left| left.as_secs()),
        "listeners": listeners.collect::<Vec<_>>(),
        "draining": draining.collect::<Vec<_>>(),
    }))
}

/// Returns the path as it is from any folder.
pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_shown_until_it_has_been_silent_for_a_while() {
        let process =
            |process| DrainingProcess { process, generation: 1, connections: 2, seconds_left: 3 };
        let start = clock::now();
        let mut all = DrainingProcesses::default();
        all.note(process(7), start);
        all.note(process(8), start + SILENCE / 2);
        assert_eq!(all.now(start + SILENCE / 2).count(), 2);
        let left: Vec<_> = all.now(start + SILENCE).map(|one| one.process).collect();
        assert_eq!(left, [8]);
    }
}
