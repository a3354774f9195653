//! The older process's side of an upgrade: it starts the newer one and leaves the service to it.

mod child;
mod sockets;

use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sluicegate_base::clock;
use sluicegate_config::{Config, Scheduler};
use sluicegate_dataplane::Backend;
use sluicegate_quic::cid::CidSchemes;

use self::child::{Offer, follow, spawn};
use self::sockets::{ListeningSockets, gather};
use super::control_socket::{ControlVerdict, Reply};
use super::events::{Event, NewerNews};
use super::lanes::lanes;
use super::reload::Reloader;
use super::takeover::{Takeover, VARIABLE, fingerprint, layout};
use super::worker_replies::{ask, set_receiving};
use crate::handover::message::PROTOCOL;
use crate::handover::relay::Relay;
use crate::handover::{Action, Channel, Message, News, Stage};
use crate::worker::{Command, Side, WorkerHandle};

/// Time between two looks at the handshakes that are open.
const LOOK: Duration = Duration::from_millis(20);
/// Time for the newer process to serve: more than its workers have.
const START: Duration = Duration::from_secs(45);
/// Time for it to read the sockets once nobody does.
const CHANGE: Duration = Duration::from_secs(10);

/// Upgrades of this process, of which there is one at a time.
pub(super) struct Upgrades {
    /// Program to start, unless another is asked for: the file of this one.
    program: io::Result<PathBuf>,
    events: Sender<Event>,
    /// Layout of the connection IDs.
    layout: String,
    /// Kind of those that this process makes.
    kind: Option<String>,
    current: Option<Upgrade>,
    /// Number of upgrades so far.
    begun: u64,
    /// Sockets that were handed over to the process that serves. This process needs them again if that one ends first: workers that have
    /// drained have closed theirs.
    handed_over: Option<ListeningSockets>,
}

/// An upgrade under way.
struct Upgrade {
    number: u64,
    stage: Stage,
    channel: Arc<Channel>,
    /// Stream of datagrams, until it is used.
    stream: Option<UnixStream>,
    /// Other descriptors of what is handed over, until the newer process serves.
    sockets: ListeningSockets,
    process: u32,
    /// Time at which the newer process is ended, or open handshakes are no longer waited for.
    patience: Instant,
    /// Why the newer process is ended: all that is awaited is its end.
    ended_for: Option<String>,
    reply: Option<Reply>,
}

/// Step of the main thread that follows from an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    GoOn,
    /// The other process, of this number, serves: drain.
    Drain(u32),
    /// There is no other process any more: open the control socket again, which it may have replaced.
    Undone,
    /// Close all connections.
    Stop,
}

impl Upgrades {
    pub(super) fn new(events: Sender<Event>, cids: &CidSchemes) -> Upgrades {
        // As it was started: a link may lead to another version by now. The kernel's link would lead to a file that is gone.
        let named = std::env::args_os().next().map(PathBuf::from).filter(|path| path.is_absolute());
        let program = named.map_or_else(std::env::current_exe, Ok);
        Upgrades {
            program,
            events,
            layout: layout(cids),
            kind: cids.kinds().into_iter().next(),
            current: None,
            begun: 0,
            handed_over: None,
        }
    }

    /// Starts the newer process. `reply` gets the verdict once it serves, or has failed.
    pub(super) fn begin(
        &mut self,
        program: Option<PathBuf>,
        mut reply: Option<Reply>,
        reloader: &Reloader<'_>,
    ) {
        let begun = match Self::refusal(reloader) {
            Some(refusal) => Err(refusal),
            None => self.start(program, reloader).map_err(|error| error.to_string()),
        };
        match begun {
            Ok(mut upgrade) => {
                tracing::info!(process = upgrade.process, "upgrade: the new process starts");
                upgrade.reply = reply;
                self.current = Some(upgrade);
            }
            Err(reason) => refuse(&mut reply, &reason),
        }
    }

    /// Returns whether there is one that has not ended.
    pub(super) fn are_under_way(&self) -> bool {
        self.current.is_some()
    }

    /// Returns why there can be no upgrade now.
    fn refusal(reloader: &Reloader<'_>) -> Option<String> {
        let Config { groups, server, .. } = &reloader.config;
        if reloader.takeover.as_ref().is_some_and(|takeover| !takeover.reads()) {
            return Some("this process has not taken over yet: try again".to_owned());
        }
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

    fn start(&mut self, program: Option<PathBuf>, reloader: &Reloader<'_>) -> io::Result<Upgrade> {
        let sockets = match &self.handed_over {
            Some(before) => before.try_clone()?,
            None => gather(reloader)?,
        };
        let ListeningSockets { sockets: offered, .. } = sockets.try_clone()?;
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
        if let Some(takeover) = &reloader.takeover {
            // If this process ends now, the next one reads: the one before must not.
            takeover.on_replaced();
        }
        self.begun += 1;
        let (number, channel, process) = (self.begun, Arc::new(channel), child.id());
        let generation = reloader.snapshot.secrets.generation();
        let oldest = reloader.takeover.as_ref().and_then(Takeover::oldest);
        let hello = Message::Hello {
            protocol: PROTOCOL,
            generation,
            oldest: oldest.unwrap_or(generation),
            layout: self.layout.clone(),
            kinds: reloader
                .takeover
                .iter()
                .flat_map(|takeover| takeover.kinds())
                .chain(&self.kind)
                .cloned()
                .collect(),
            secrets: fingerprint(reloader.snapshot.secrets.current()),
            sockets: offered.len(),
        };
        let offer = Offer { hello, stream: other_stream.into(), sockets: offered };
        let (theirs, events) = (Arc::clone(&channel), self.events.clone());
        std::thread::Builder::new().name("upgrade".into()).spawn(move || {
            follow(child, &theirs, offer, |news| events.send(Event::Newer(number, news)).is_ok());
        })?;
        Ok(Upgrade {
            number,
            stage: Stage::Starting,
            channel,
            stream: Some(stream),
            sockets,
            process,
            patience: clock::now() + START,
            ended_for: None,
            reply: None,
        })
    }

    /// Tells the newer process, if there is one, which process is the oldest now.
    pub(super) fn tell_oldest(&self, generation: u8) {
        let draining = self
            .current
            .as_ref()
            .filter(|upgrade| matches!(upgrade.stage, Stage::Draining | Stage::Passed));
        // Before that, it reads what is handed over.
        if let Some(upgrade) = draining {
            // It may have ended.
            let _ = upgrade.channel.send(&Message::Oldest { generation }, None);
        }
    }

    /// Returns the time of the next look.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        let upgrade = self.current.as_ref()?;
        match upgrade.stage {
            _ if upgrade.ended_for.is_some() => None,
            Stage::Forwarding => Some(now + LOOK),
            Stage::Starting | Stage::Changing => Some(upgrade.patience),
            Stage::Draining | Stage::Passed => None,
        }
    }

    /// Looks at the handshakes that are open.
    pub(super) fn on_time(&mut self, reloader: &mut Reloader<'_>, now: Instant) -> Next {
        let forwarding = self
            .current
            .as_ref()
            .filter(|upgrade| upgrade.stage == Stage::Forwarding && upgrade.ended_for.is_none());
        let Some(upgrade) = forwarding else {
            return Next::GoOn;
        };
        let (number, is_late) = (upgrade.number, now >= upgrade.patience);
        let half_open = ask(&reloader.workers, Command::HalfOpen);
        if is_late || half_open.is_ok_and(|all| all.iter().sum::<u64>() == 0) {
            let news = NewerNews::News(News::HandshakesDone);
            return self.on_news(number, &news, reloader, now);
        }
        Next::GoOn
    }

    /// Ends the newer process if it has taken too long. The main thread calls it when there are no other events.
    pub(super) fn on_silence(&mut self, now: Instant) {
        if let Some(upgrade) = &mut self.current
            && matches!(upgrade.stage, Stage::Starting | Stage::Changing)
            && now >= upgrade.patience
        {
            upgrade.end_process("the new process takes too long");
        }
    }

    /// Ends an upgrade under way, because this process is to stop, and lets go of sockets for another one.
    pub(super) fn cancel(&mut self) {
        self.handed_over = None;
        let under_way = self.current.as_mut().filter(|upgrade| {
            matches!(upgrade.stage, Stage::Starting | Stage::Forwarding | Stage::Changing)
        });
        if let Some(upgrade) = under_way {
            upgrade.end_process("the server was told to stop");
        }
    }

    /// Takes news of the newer process, and does what follows from them.
    pub(super) fn on_news(
        &mut self,
        number: u64,
        news: &NewerNews,
        reloader: &mut Reloader<'_>,
        now: Instant,
    ) -> Next {
        let Some(mut upgrade) = self.current.take_if(|upgrade| upgrade.number == number) else {
            return Next::GoOn;
        };
        if upgrade.ended_for.is_some() && !matches!(news, NewerNews::Ended(_)) {
            // It was ended after it said that.
            self.current = Some(upgrade);
            return Next::GoOn;
        }
        let (stage, action) = upgrade.stage.on(news.news());
        let mut next = Next::GoOn;
        match action {
            Action::Forward(generation) => {
                upgrade.patience = now + reloader.config.limits.handshake_timeout;
                if let Err(error) = upgrade.forward(generation, reloader) {
                    upgrade.end_process(&format!("datagrams cannot be forwarded: {error}"));
                }
            }
            Action::Change => {
                if let Err(error) = upgrade.change(&reloader.workers) {
                    upgrade.end_process(&format!("a worker cannot stop reading: {error}"));
                }
                upgrade.patience = clock::now() + CHANGE;
            }
            Action::Drain => {
                upgrade.succeed(reloader);
                self.handed_over = Some(std::mem::take(&mut upgrade.sockets));
                next = Next::Drain(upgrade.process);
            }
            Action::Undo => {
                upgrade.undo(reloader, news.reason());
                return Next::Undone;
            }
            Action::ReadAgain => {
                tracing::error!(
                    reason = news.reason(),
                    "the new process is gone while this one drains: nobody takes new connections; run `sluicegate upgrade` again"
                );
                upgrade.read_again(&reloader.workers);
                return Next::Undone;
            }
            Action::Stop => {
                tracing::warn!("the process after this one is gone, by which its datagrams came");
                return Next::Stop;
            }
            Action::Nothing => {}
        }
        if let Some(stage) = stage {
            upgrade.stage = stage;
            self.current = Some(upgrade);
        }
        next
    }

    /// Returns whether the process that took over has ended while this one still drains.
    pub(super) fn is_orphaned(&self) -> bool {
        self.handed_over.is_some() && self.current.is_none()
    }
}

impl Upgrade {
    /// Kills the newer process. The thread at the channel reports its end.
    fn end_process(&mut self, reason: &str) {
        if self.ended_for.is_some() {
            return;
        }
        self.ended_for = Some(reason.to_owned());
        let process = i32::try_from(self.process).ok().and_then(Pid::from_raw);
        if let Some(process) = process {
            tracing::error!(process = self.process, reason, "upgrade: the new process is ended");
            // It is not reaped before its end is read, so the number is its own.
            let _ = kill_process(process, Signal::KILL);
        }
        // What it has started may have its end, too.
        self.channel.close();
    }

    /// Has workers pass datagrams of the newer process on to it.
    fn forward(&mut self, generation: u8, reloader: &Reloader<'_>) -> io::Result<()> {
        let notify = Arc::default();
        let (workers, config) = (&reloader.workers, &reloader.config);
        let lanes = lanes(workers, config, Side::Newer, generation, &notify);
        for worker in workers {
            worker.mailbox.send(Command::LeaveNew(Some(generation)));
        }
        let relay = Relay::new(lanes, self.sockets.labels.clone(), notify);
        match self.stream.take() {
            Some(stream) => relay.start(stream, || {}),
            None => Ok(()),
        }
    }

    /// Has the workers stop reading, and tells the newer process to begin.
    fn change(&self, workers: &[WorkerHandle]) -> io::Result<()> {
        set_receiving(workers, false)?;
        self.channel.send(&Message::Read, None)
    }

    /// Notes that the newer process serves.
    fn succeed(&mut self, reloader: &mut Reloader<'_>) {
        reloader.admin.close();
        let oldest = reloader.takeover.as_ref().and_then(Takeover::oldest);
        let generation = oldest.unwrap_or(reloader.snapshot.secrets.generation());
        // It may have ended.
        let _ = self.channel.send(&Message::Oldest { generation }, None);
        let process = self.process;
        tracing::info!(process, "upgrade: the new process serves; this one drains");
        if let Some(reply) = self.reply.take() {
            let text =
                format!("process {process} serves, and process {} drains", std::process::id());
            // The client may have gone.
            let _ = reply.send(ControlVerdict::Taken(text));
        }
    }

    /// Goes on as before the upgrade.
    fn undo(&mut self, reloader: &Reloader<'_>, reason: &str) {
        if let Some(takeover) = &reloader.takeover {
            takeover.tell_reading();
        }
        self.read_again(&reloader.workers);
        let reason = self.ended_for.take().unwrap_or_else(|| reason.to_owned());
        refuse(&mut self.reply, &reason);
    }

    fn read_again(&self, workers: &[WorkerHandle]) {
        for worker in workers {
            worker.mailbox.send(Command::LeaveNew(None));
            worker.mailbox.send(Command::Neighbour(Side::Newer, None));
        }
        if let Err(error) = set_receiving(workers, true) {
            tracing::error!(%error, "a worker cannot read again: restart the server");
        }
    }
}

/// Logs that there is no upgrade, and tells who asked.
fn refuse(reply: &mut Option<Reply>, reason: &str) {
    tracing::error!(reason, "no upgrade; this process goes on as before");
    if let Some(reply) = reply.take() {
        // The client may have gone.
        let _ = reply.send(ControlVerdict::Refused(reason.to_owned()));
    }
}
