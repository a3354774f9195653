//! The way of the service to one other process, and back.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getppid, kill_process};
use sluicegate_base::clock;
use sluicegate_dataplane::ListenerId;

use super::super::control_socket::{ControlVerdict, Reply, send_verdict};
use super::super::lanes;
use super::super::reload::Reloader;
use super::super::worker_commands::{send_all, set_receiving};
use crate::handover::relay::AddressLabels;
use crate::handover::{Channel, Message, Stage};
use crate::worker::{Command, Side, WorkerHandle};

/// Time for the other process to read the sockets once nobody does. If one of its workers hangs, it learns that within ten seconds.
const CHANGE: Duration = Duration::from_secs(20);

/// Another process, to which this one leaves the service, or has left it.
pub(super) struct OtherProcess {
    /// Number of the upgrade that has started it; 0 for the process that has started this one.
    pub(super) number: u64,
    pub(super) kind: Kind,
    pub(super) process: u32,
    pub(super) stage: Stage,
    pub(super) channel: Arc<Channel>,
    /// Time at which the other process is ended, or open handshakes are no longer waited for.
    pub(super) patience: Instant,
    /// Why the other process is ended: all that is awaited is its end.
    pub(super) ended_for: Option<String>,
    pub(super) reply: Option<Reply>,
}

/// Kind of another process.
pub(super) enum Kind {
    /// This one has started it.
    Newer {
        /// Stream of datagrams, until it is used.
        stream: Option<UnixStream>,
        /// Numbers of the addresses of QUIC.
        labels: AddressLabels,
        /// Generation of its connection IDs, once it serves.
        generation: Option<u8>,
        /// Sockets that it has bound behind those of this process, until this one reads them.
        added: Vec<(ListenerId, OwnedFd)>,
    },
    /// It has started this one.
    Older,
}

impl OtherProcess {
    pub(super) fn is_older(&self) -> bool {
        matches!(self.kind, Kind::Older)
    }

    /// Returns the generation of a newer process that serves, or has served.
    pub(super) fn newer_generation(&self) -> Option<u8> {
        match self.kind {
            Kind::Newer { generation, .. } => generation,
            Kind::Older => None,
        }
    }

    pub(super) fn send(&self, message: &Message) {
        // It may have ended.
        let _ = self.channel.send(message);
    }

    /// Kills it. The thread at the channel reports its end.
    pub(super) fn end_process(&mut self, reason: &str) {
        if self.ended_for.is_some() {
            return;
        }
        self.ended_for = Some(reason.to_owned());
        let process = i32::try_from(self.process).ok().and_then(Pid::from_raw);
        // A newer one is not reaped before its end is read, and an older one is the parent as long as it lives: the number is its own.
        let process = process.filter(|process| !self.is_older() || getppid() == Some(*process));
        if let Some(process) = process {
            tracing::error!(process = self.process, reason, "upgrade: the other process is ended");
            let _ = kill_process(process, Signal::KILL);
        }
        // What it has started may have its end, too.
        self.channel.close();
    }

    /// Has workers leave new connections to it, whose connection IDs are of this generation, and pass its datagrams on to it.
    pub(super) fn forward(&mut self, generation: u8, reloader: &Reloader<'_>) -> io::Result<()> {
        self.patience = clock::now() + reloader.config.limits.handshake_timeout;
        let workers = &reloader.workers;
        let relay = match &mut self.kind {
            Kind::Older => None,
            Kind::Newer { stream, labels, generation: known, .. } => {
                *known = Some(generation);
                let side = Side::Newer(generation);
                let relay = lanes::connect(
                    workers,
                    &reloader.config,
                    side,
                    labels.clone(),
                    &reloader.losses,
                );
                stream.take().zip(Some(relay))
            }
        };
        send_all(workers, || Command::LeaveNew(Some(generation)));
        relay.map_or(Ok(()), |(stream, relay)| relay.start(stream, || {}))
    }

    /// Has the workers stop reading, and tells it to begin.
    pub(super) fn change(&mut self, workers: &[WorkerHandle]) -> io::Result<()> {
        self.patience = clock::now() + CHANGE;
        set_receiving(workers, false)?;
        self.channel.send(&Message::Read)
    }

    /// Notes that it serves.
    pub(super) fn succeed(&mut self, reloader: &Reloader<'_>) {
        let (process, own) = (self.process, std::process::id());
        let text = if self.is_older() {
            tracing::info!(process, "upgrade: the former process serves again; this one drains");
            format!("process {process} serves again, and process {own} drains")
        } else {
            self.send(&Message::Oldest { generation: reloader.oldest() });
            tracing::info!(process, "upgrade: the new process serves; this one drains");
            format!("process {process} serves, and process {own} drains")
        };
        send_verdict(self.reply.take(), &ControlVerdict::Taken(text));
    }

    /// Goes on as before: nothing was left to it.
    ///
    /// # Errors
    /// A worker cannot read.
    pub(super) fn undo(&mut self, workers: &[WorkerHandle], reason: &str) -> io::Result<()> {
        if let Some(generation) = self.newer_generation() {
            lanes::forget(workers, Side::Newer(generation));
        }
        let read = read_again(workers);
        let reason = self.ended_for.take().unwrap_or_else(|| reason.to_owned());
        refuse(&mut self.reply, &reason);
        read
    }
}

/// Has workers read, and take new connections.
///
/// # Errors
/// A worker cannot.
pub(super) fn read_again(workers: &[WorkerHandle]) -> io::Result<()> {
    send_all(workers, || Command::LeaveNew(None));
    set_receiving(workers, true)
}

/// Logs that there is no upgrade, and tells who asked.
pub(super) fn refuse(reply: &mut Option<Reply>, reason: &str) {
    tracing::error!(reason, "no upgrade; this process goes on as before");
    send_verdict(reply.take(), &ControlVerdict::Refused(reason.to_owned()));
}
