//! The beginning of an upgrade, and of the way back.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use sluicegate_base::clock;
use sluicegate_base::secrets::generations_since;
use sluicegate_config::{Config, Scheduler};
use sluicegate_dataplane::Backend;

use super::super::control_socket::Reply;
use super::super::events::OLDER;
use super::super::reload::Reloader;
use super::super::takeover::{Takeover, VARIABLE, fingerprint};
use super::Upgrades;
use super::child::{Offer, follow, spawn};
use super::other::{Kind, OtherProcess, refuse};
use super::sockets::{ListeningSockets, gather};
use crate::handover::message::{Hello, PROTOCOL};
use crate::handover::{Bequest, Channel, Message, Stage};

/// Time for the newer process to serve: more than its workers have.
const START: Duration = Duration::from_secs(45);
/// Time for the older process to make ready to serve again.
const PREPARE: Duration = Duration::from_secs(10);

/// Returns why no process was started, and the remedy where the error of the system is none by itself.
fn reason(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::MFILE | Errno::NFILE) => format!(
            "no descriptors are left for another process ({error}): raise the limit (ulimit -n, LimitNOFILE), or try again with fewer connections"
        ),
        _ => error.to_string(),
    }
}

impl Upgrades {
    /// Starts the newer process. `reply` gets the verdict once it serves, or has failed.
    pub(in crate::boot) fn begin(
        &mut self,
        program: Option<PathBuf>,
        mut reply: Option<Reply>,
        reloader: &Reloader<'_>,
    ) {
        let begun = match Self::refusal(reloader) {
            Some(refusal) => Err(refusal),
            None => self.start(program, reloader).map_err(|error| reason(&error)),
        };
        match begun {
            Ok(mut newer) => {
                tracing::info!(process = newer.process, "upgrade: the new process starts");
                newer.reply = reply;
                self.current = Some(newer);
            }
            Err(reason) => refuse(&mut reply, &reason),
        }
    }

    /// Returns why there can be no upgrade now.
    fn refusal(reloader: &Reloader<'_>) -> Option<String> {
        let Config { groups, server, .. } = &reloader.config;
        if server.state_dir.is_none() {
            return Some(
                "an upgrade needs `state_dir` in [server], by which the new process has the same secrets: set it and restart".to_owned(),
            );
        }
        if let Some(group) = groups.iter().find(|group| group.scheduler != Scheduler::Normal) {
            return Some(format!(
                "group `{}` runs in real time, where one process would keep the other from its cores: restart instead",
                group.name
            ));
        }
        if std::process::id() == 1 {
            return Some(
                "process 1 of a container cannot be replaced: its end is that of the container"
                    .to_owned(),
            );
        }
        if let Some(group) = groups.iter().find(|group| group.backend == Backend::Dpdk) {
            return Some(format!(
                "group `{}` drives a device by DPDK, whose queues have one owner: restart instead",
                group.name
            ));
        }
        let drains = !reloader.removed.is_empty();
        drains.then(|| {
            "connections of a listener that a reload removed still drain: try again".to_owned()
        })
    }

    fn start(
        &mut self,
        program: Option<PathBuf>,
        reloader: &Reloader<'_>,
    ) -> io::Result<OtherProcess> {
        let ListeningSockets { sockets, labels } = gather(reloader)?;
        let program = match (program, &self.program) {
            (Some(program), _) => program,
            (None, Ok(program)) => program.clone(),
            (None, Err(error)) => return Err(io::Error::new(error.kind(), error.to_string())),
        };
        let (channel, end) = Channel::pair()?;
        let (stream, other_stream) = UnixStream::pair()?;
        let mut command = std::process::Command::new(&program);
        command.args(std::env::args_os().skip(1)).env(VARIABLE, "1");
        // They name this process. The new one gets sockets by another way, and its own process number is not known yet.
        for name in ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "WATCHDOG_PID"] {
            command.env_remove(name);
        }
        let child = spawn(command.stdin(Stdio::from(end))).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot start {}: {error}", program.display()))
        })?;
        // If this process ends now, the next one reads: the others must not.
        self.tell_others(reloader, &Message::Replaced);
        self.begun += 1;
        let (number, channel, process) = (self.begun, Arc::new(channel), child.id());
        let beside = [other_stream.into()].into_iter().chain(self.bequest(number)).collect();
        let (generation, oldest) = (reloader.generation(), reloader.oldest());
        let hello = Hello {
            protocol: PROTOCOL,
            process: std::process::id(),
            generation,
            oldest,
            newest: self.newest(oldest, generation),
            layout: self.layout.clone(),
            kinds: reloader
                .takeover
                .iter()
                .flat_map(|takeover| takeover.kinds())
                .chain(&self.kind)
                .cloned()
                .collect(),
            secrets: fingerprint(reloader.snapshot.secrets.current()),
            sockets: sockets.len(),
        };
        let offer = Offer { hello, beside, sockets };
        let (theirs, events) = (Arc::clone(&channel), self.events.clone());
        let followed = std::thread::Builder::new().name("upgrade".into()).spawn(move || {
            follow(child, &theirs, offer, |event| events.send(event).is_ok(), number);
        });
        if let Err(error) = followed {
            // The new process ends with the way to it.
            self.bequests.end(number);
            self.tell_heir(reloader);
            return Err(error);
        }
        Ok(OtherProcess {
            number,
            kind: Kind::Newer { stream: Some(stream), labels, generation: None, added: Vec::new() },
            process,
            stage: Stage::Starting,
            channel,
            patience: clock::now() + START,
            ended_for: None,
            reply: None,
        })
    }

    /// Makes the file of what this process and the newer one leave each other, and returns it for that one. It does without one if there
    /// is no memory or descriptor: then its counters begin at 0.
    fn bequest(&self, number: u64) -> Option<OwnedFd> {
        let made = Bequest::create().and_then(|own| Ok((own.duplicate()?, own)));
        let (theirs, own) = made
            .inspect_err(|error| {
                tracing::warn!(%error, "upgrade: counters and used tokens are not handed over");
            })
            .ok()?;
        self.bequests.add(number, own);
        Some(theirs)
    }

    /// Leaves the service to the process that has started this one. `reply` gets the verdict.
    pub(in crate::boot) fn begin_back(
        &mut self,
        mut reply: Option<Reply>,
        reloader: &Reloader<'_>,
    ) {
        let older = match self.older(reloader) {
            Ok(older) => older,
            Err(reason) => return refuse(&mut reply, &reason),
        };
        let (channel, process) = (Arc::clone(older.channel()), older.process());
        tracing::info!(process, "upgrade: back to the former process");
        let older = OtherProcess {
            number: OLDER,
            kind: Kind::Older,
            process,
            stage: Stage::Starting,
            channel,
            patience: clock::now() + PREPARE,
            ended_for: None,
            reply,
        };
        // It takes them before it says that it is ready.
        self.bequests.leave_tokens(OLDER);
        older.send(&Message::Back);
        self.current = Some(older);
    }

    /// Returns the process to which this one can leave the service again, or why there is none.
    fn older<'r>(&self, reloader: &'r Reloader<'_>) -> Result<&'r Takeover, String> {
        let older = reloader.takeover.as_ref().filter(|older| older.lives());
        let older = older.ok_or(
            "no process from before the last upgrade is left: name the former program by `sluicegate upgrade --program FILE`",
        )?;
        if older.channel().has_waiting() {
            return Err(format!(
                "the former process {} does not respond: is it stopped?",
                older.process()
            ));
        }
        if let Some(other) = self.returned.first() {
            return Err(format!(
                "process {} still drains, whose datagrams pass through this one: try again once it has ended",
                other.process
            ));
        }
        if self.kind.as_ref().is_some_and(|kind| !older.reads_kind(kind)) {
            return Err(
                "the former process does not read the connection IDs of this one: name its program by `sluicegate upgrade --program FILE`, \
                 with a configuration that does"
                    .to_owned(),
            );
        }
        let current = reloader.snapshot.bound_listeners.iter();
        let mut all =
            current.chain(reloader.removed.in_use()).filter(|l| l.at.protocols.has_quic());
        all.find(|bound| !older.knows(bound)).map_or(Ok(older), |bound| {
            Err(format!(
                "the former process does not have the listener `{}` at {}, whose connections would be lost: remove it by a reload first, \
                 and try again once its connections have ended",
                bound.name, bound.at.configured
            ))
        })
    }

    /// Returns the newest generation of this process, of `own` generation, and of those that drain beside it.
    fn newest(&self, oldest: u8, own: u8) -> u8 {
        let all = self.returned.iter().filter_map(OtherProcess::newer_generation);
        all.chain([own]).max_by_key(|one| generations_since(oldest, *one)).unwrap_or(own)
    }
}
