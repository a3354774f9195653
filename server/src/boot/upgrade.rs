//! A process leaves the service to another one: the older one to the newer one that it starts, and that one to the older one again.

mod added;
mod begin;
mod child;
mod other;
mod sockets;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use sluicegate_base::clock;
use sluicegate_quic::cid::CidSchemes;

use self::other::{OtherProcess, read_again};
use super::bequests::Bequests;
use super::error::one_line;
use super::events::{Event, OLDER, OtherNews};
use super::lanes;
use super::reload::Reloader;
use super::takeover::{Takeover, layout};
use super::worker_commands::{ask, send_all, set_receiving};
use crate::handover::{Action, Channel, Message, News, Stage};
use crate::worker::{Command, Side, WorkerConnections};

/// Time between two looks at the handshakes that are open.
const LOOK: Duration = Duration::from_millis(20);
/// Time between two attempts to send what waits until another process reads again.
const FLUSH: Duration = Duration::from_millis(100);
/// Time for a newer process to leave the service to this one, once its handshakes have had as much as those of this one.
const RETURN: Duration = Duration::from_secs(60);
/// Why a process does not serve again that is to stop.
const TOLD_TO_STOP: &str = "the former process was told to stop";

/// Processes to which this one leaves the service, one at a time, and those that have left it to this one.
pub(super) struct Upgrades {
    /// Program to start, unless another is asked for: the file of this one.
    program: io::Result<PathBuf>,
    events: Sender<Event>,
    bequests: Arc<Bequests>,
    /// Layout of the connection IDs.
    layout: String,
    /// Kind of those that this process makes.
    kind: Option<String>,
    current: Option<OtherProcess>,
    /// Processes that this one has started, and that drain beside it.
    returned: Vec<OtherProcess>,
    /// Number of upgrades so far.
    begun: u64,
    /// Why this process does not serve again, if so.
    ends_for: Option<&'static str>,
}

/// Step of the main thread that follows from an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    GoOn,
    /// The other process, of this number, serves: drain.
    Drain(u32),
    /// Nothing was left to another process: open the control socket again, which it may have replaced.
    Undone,
    /// Take new connections again, as others forward them.
    Resume,
    /// Take no new connections, as before that.
    DrainAgain,
    /// Serve again.
    Serve,
    /// Close all connections.
    Stop,
}

impl Upgrades {
    pub(super) fn new(
        events: Sender<Event>,
        cids: &CidSchemes,
        bequests: Arc<Bequests>,
    ) -> Upgrades {
        // As it was started: a link may lead to another version by now. The kernel's link would lead to a file that is gone.
        let named = std::env::args_os().next().map(PathBuf::from).filter(|path| path.is_absolute());
        let program = named.map_or_else(std::env::current_exe, Ok);
        Upgrades {
            program,
            events,
            bequests,
            layout: layout(cids),
            kind: cids.kinds().into_iter().next(),
            current: None,
            returned: Vec::new(),
            begun: 0,
            ends_for: None,
        }
    }

    /// Returns whether there is one that has not ended.
    pub(super) fn are_under_way(&self) -> bool {
        self.current.is_some()
    }

    /// Returns whether there are other processes of the server.
    pub(super) fn has_others(&self, reloader: &Reloader<'_>) -> bool {
        let older = reloader.takeover.as_ref();
        self.current.is_some() || !self.returned.is_empty() || older.is_some_and(Takeover::lives)
    }

    /// Sends the processes that drain beside this one a message.
    fn tell_others(&self, reloader: &Reloader<'_>, message: &Message) {
        if let Some(takeover) = &reloader.takeover {
            takeover.send(message);
        }
        for other in &self.returned {
            other.send(message);
        }
    }

    /// Tells the newer process, if there is one, which process is the oldest now.
    pub(super) fn tell_oldest(&self, generation: u8) {
        let newer = self.current.as_ref().filter(|other| !other.is_older());
        // Before that, it reads what is handed over.
        if let Some(newer) = newer.filter(|newer| newer.stage.drains()) {
            newer.send(&Message::Oldest { generation });
        }
    }

    /// Sends the other processes a message for all: of this one, or one that the process of number `from` has sent.
    pub(super) fn pass_on(&self, message: &Message, from: Option<u64>, reloader: &Reloader<'_>) {
        if let Some(takeover) = reloader.takeover.as_ref().filter(|_| from != Some(OLDER)) {
            takeover.send(message);
        }
        // Before it is ready, a newer one reads what is handed over.
        let newer = self.current.iter().chain(&self.returned);
        let newer = newer.filter(|other| other.newer_generation().is_some());
        for other in newer.filter(|other| from != Some(other.number)) {
            other.send(message);
        }
    }

    /// Takes the used tokens of the process before, which accepts no connections any more.
    pub(super) fn take_tokens(&self) {
        self.bequests.take_tokens(OLDER);
    }

    /// Returns the number of the process that serves in place of this one, or is to serve if this one ends without a word, if there is one.
    pub(super) fn heir(&self, reloader: &Reloader<'_>) -> Option<u64> {
        match (&self.current, self.returned.last(), &reloader.takeover) {
            (Some(other), ..) if other.stage.drains() => Some(other.number),
            (_, Some(other), _) => Some(other.number),
            (.., Some(older)) if older.reads() && older.lives() => Some(OLDER),
            _ => None,
        }
    }

    /// Returns whether another process serves, and may leave the service to this one again.
    pub(super) fn may_serve_again(&self) -> bool {
        self.ends_for.is_none() && self.current.as_ref().is_some_and(|other| other.stage.drains())
    }

    /// Notes that this process ends: it has drained, or had its time for that.
    pub(super) fn on_end(&mut self) {
        self.ends_for.get_or_insert("the former process has drained");
    }

    /// Returns why this process does not take the service from another one, at this stage.
    fn declines(&self, stage: Stage) -> Option<&'static str> {
        let drains = stage == Stage::Draining;
        self.ends_for.or((!drains).then_some("the former process does not drain"))
    }

    /// Returns whether datagrams of other processes pass through this one.
    pub(super) fn relays(&self, reloader: &Reloader<'_>) -> bool {
        let has_left_to_older =
            self.current.as_ref().is_some_and(|other| other.is_older() && other.stage.drains());
        let follows = reloader.takeover.as_ref().is_some_and(Takeover::is_connected);
        follows && !has_left_to_older || !self.returned.is_empty()
    }

    /// Returns the ways to all other processes.
    fn channels<'r>(&'r self, reloader: &'r Reloader<'_>) -> impl Iterator<Item = &'r Channel> {
        let newer = self.current.iter().chain(&self.returned).map(|other| &*other.channel);
        newer.chain(reloader.takeover.iter().map(|takeover| &**takeover.channel()))
    }

    /// Returns the time of the next look, or of the next attempt to send what waits.
    pub(super) fn next(&self, reloader: &Reloader<'_>, now: Instant) -> Option<Instant> {
        let flush = self.channels(reloader).any(Channel::has_waiting).then_some(now + FLUSH);
        flush.into_iter().chain(self.next_look(now)).min()
    }

    fn next_look(&self, now: Instant) -> Option<Instant> {
        let other = self.current.as_ref()?;
        match other.stage {
            _ if other.ended_for.is_some() => None,
            Stage::Forwarding => Some(now + LOOK),
            Stage::Starting | Stage::Changing | Stage::Returning => Some(other.patience),
            _ => None,
        }
    }

    /// Sends what waits, and looks at the handshakes that are open.
    pub(super) fn on_time(&mut self, reloader: &mut Reloader<'_>, now: Instant) -> Next {
        for channel in self.channels(reloader) {
            // The thread at the channel reports the end of the other process.
            let _ = channel.flush();
        }
        let forwarding = self
            .current
            .as_ref()
            .filter(|other| other.stage == Stage::Forwarding && other.ended_for.is_none());
        let Some(other) = forwarding else {
            return Next::GoOn;
        };
        let (number, is_late) = (other.number, now >= other.patience);
        let all = ask(&reloader.workers, Command::Count);
        let half_open =
            |all: Vec<WorkerConnections>| all.iter().map(|one| one.half_open).sum::<u64>();
        if is_late || all.is_ok_and(|all| half_open(all) == 0) {
            return self.on_news(number, &OtherNews::News(News::HandshakesDone), reloader);
        }
        Next::GoOn
    }

    /// Ends the other process if it has taken too long, or what is under way. The main thread calls it when there are no other events.
    pub(super) fn on_silence(&mut self, reloader: &mut Reloader<'_>, now: Instant) -> Next {
        let late = self.current.as_mut().filter(|other| {
            let awaited = [Stage::Starting, Stage::Changing, Stage::Returning];
            awaited.contains(&other.stage) && now >= other.patience
        });
        match late {
            Some(other) if other.stage == Stage::Returning => {
                let reason = "it takes too long to leave the service to the former process";
                tracing::error!(
                    process = other.process,
                    reason,
                    "upgrade: the way back is broken off"
                );
                other.send(&Message::Declined { reason: reason.to_owned() });
                let number = other.number;
                self.on_news(number, &OtherNews::News(News::Stay), reloader)
            }
            // It does not have the service yet, and has connections.
            Some(other) if other.is_older() && other.stage == Stage::Starting => {
                other.send(&Message::Stay);
                let reason = "the former process does not respond".to_owned();
                self.on_news(OLDER, &OtherNews::Declined(reason), reloader)
            }
            Some(other) => {
                other.end_process("the other process takes too long");
                Next::GoOn
            }
            None => Next::GoOn,
        }
    }

    /// Ends what is under way, because this process is to stop and not to serve again.
    pub(super) fn cancel(&mut self, reloader: &mut Reloader<'_>) {
        self.ends_for = Some(TOLD_TO_STOP);
        let reason = "the server was told to stop";
        if let Some(other) = &mut self.current {
            match other.stage {
                // It has no connections yet, or few.
                stage if stage.is_leaving() && !other.is_older() => other.end_process(reason),
                Stage::Starting | Stage::Forwarding => {
                    other.send(&Message::Stay);
                    self.on_news(OLDER, &OtherNews::Declined(reason.to_owned()), reloader);
                }
                Stage::Returning => {
                    other.send(&Message::Declined { reason: TOLD_TO_STOP.to_owned() });
                    let number = other.number;
                    self.on_news(number, &OtherNews::News(News::Stay), reloader);
                }
                _ => {}
            }
        }
        if self.current.is_none() {
            // If this process is killed, none of them is to serve in its place.
            self.tell_others(reloader, &Message::Replaced);
        }
    }

    /// Takes news of another process, and does what follows from them.
    pub(super) fn on_news(
        &mut self,
        number: u64,
        news: &OtherNews,
        reloader: &mut Reloader<'_>,
    ) -> Next {
        if matches!(news, OtherNews::Ended(_)) {
            self.bequests.end(number);
        }
        let returned = self.returned.extract_if(.., |other| other.number == number).next();
        let current = || self.current.take_if(|other| other.number == number);
        let Some(mut other) = returned.or_else(current) else {
            return Next::GoOn;
        };
        let is_ended = other.ended_for.is_some() && !matches!(news, OtherNews::Ended(_));
        let (stage, action) = if is_ended {
            // It was ended after it said that.
            (Some(other.stage), Action::Nothing)
        } else if let (News::Back, Some(reason)) = (news.news(), self.declines(other.stage)) {
            other.send(&Message::Declined { reason: reason.to_owned() });
            (Some(other.stage), Action::Nothing)
        } else {
            other.stage.on(news.news())
        };
        let next = self.act(action, &mut other, stage, news, reloader);
        // A step that fails ends otherwise.
        let stage = match next {
            Next::Undone => None,
            Next::DrainAgain => Some(Stage::Draining),
            _ => stage,
        };
        if let Some(stage) = stage {
            other.stage = stage;
            if stage == Stage::Returned {
                self.returned.push(other);
            } else {
                self.current = Some(other);
            }
        }
        reloader.others_drain = !self.returned.is_empty();
        next
    }

    fn act(
        &mut self,
        action: Action,
        other: &mut OtherProcess,
        stage: Option<Stage>,
        news: &OtherNews,
        reloader: &mut Reloader<'_>,
    ) -> Next {
        match action {
            Action::Forward(generation) => {
                // Before it gets the first datagram of a client that may use one again.
                self.bequests.leave_tokens(other.number);
                if let Err(error) = other.forward(generation, reloader) {
                    other.end_process(&format!("datagrams cannot be forwarded: {error}"));
                }
            }
            Action::Change => {
                // No scrape of the other process sees less than the last one of this one.
                reloader.admin.close();
                self.bequests.leave_counters(other.number, reloader.admin.scraper());
                // It accepts no new connection any more, so there will not be others.
                self.bequests.leave_tokens(other.number);
                if let Err(error) = other.change(&reloader.workers) {
                    let reason = format!("a worker cannot stop reading: {error}");
                    if other.is_older() {
                        other.send(&Message::Stay);
                        return self.undo(other, &reason, reloader);
                    }
                    other.end_process(&reason);
                }
            }
            Action::Drain => {
                other.succeed(reloader);
                return Next::Drain(other.process);
            }
            Action::Undo => return self.undo(other, news.reason(), reloader),
            Action::Prepare => {
                if let Err(error) = other.read_added(reloader) {
                    let error = one_line(&error);
                    tracing::error!(error, "upgrade: this process cannot serve again");
                    let reason = "the former process cannot read all sockets";
                    self.ends_for = Some(reason);
                    other.send(&Message::Declined { reason: reason.to_owned() });
                    return Next::DrainAgain;
                }
                self.bequests.take_tokens(other.number);
                self.share_ids(true, reloader);
                other.patience = clock::now() + reloader.config.limits.handshake_timeout + RETURN;
                send_all(&reloader.workers, || Command::LeaveNew(None));
                send_all(&reloader.workers, || Command::Resume);
                other.send(&Message::Ready { generation: reloader.generation() });
                return Next::Resume;
            }
            Action::DrainAgain => return self.drain_again(other, reloader),
            Action::Serve => return self.serve(other, stage.is_some(), reloader),
            Action::Forget => {
                if let Some(generation) = other.newer_generation() {
                    lanes::forget(&reloader.workers, Side::Newer(generation));
                }
                let process = other.process;
                tracing::info!(process, "upgrade: a process that has drained has ended");
                self.share_ids(!self.returned.is_empty(), reloader);
                if self.current.is_none() {
                    self.tell_heir(reloader);
                }
            }
            Action::Stop => {
                tracing::warn!("the process is gone by which datagrams of this one came");
                return Next::Stop;
            }
            Action::Nothing => {}
        }
        Next::GoOn
    }

    /// Has the workers read again; the other process has left the service to this one, or is gone.
    fn serve(
        &mut self,
        other: &mut OtherProcess,
        lives: bool,
        reloader: &mut Reloader<'_>,
    ) -> Next {
        other.read_all_it_can(reloader);
        self.bequests.take_tokens(other.number);
        if self.ends_for.is_none() {
            // Before they read: among the first datagrams are those of new clients.
            send_all(&reloader.workers, || Command::Resume);
        }
        if let Err(error) = read_again(&reloader.workers) {
            tracing::error!(%error, "upgrade: a worker cannot read, so this process does not serve");
            if !lives {
                return Next::Stop;
            }
            // Those that can read must not.
            let _ = set_receiving(&reloader.workers, false);
            let reason = "a worker of the former process cannot read";
            self.ends_for = Some(reason);
            other.send(&Message::Declined { reason: reason.to_owned() });
            return self.drain_again(other, reloader);
        }
        if lives {
            // It serves again if this one ends without a word; the others were told that they do not.
            other.send(&Message::Reading);
        } else {
            let process = other.process;
            tracing::error!(process, "upgrade: the process that served is gone");
            if let Some(generation) = other.newer_generation() {
                lanes::forget(&reloader.workers, Side::Newer(generation));
            }
        }
        if self.ends_for.is_some() {
            // The connections that are left still end as they may.
            return Next::GoOn;
        }
        if !lives {
            self.tell_heir(reloader);
        }
        Next::Serve
    }

    /// Goes on as before: this process stays in service.
    fn undo(&self, other: &mut OtherProcess, reason: &str, reloader: &mut Reloader<'_>) -> Next {
        reloader.admin.serve_again();
        // Before that, nothing is steered to those that the other one has bound.
        if other.stage == Stage::Changing {
            other.read_all_it_can(reloader);
        }
        if let Err(error) = other.undo(&reloader.workers, reason) {
            tracing::error!(%error, "a worker cannot read again: restart the server");
        }
        self.tell_heir(reloader);
        Next::Undone
    }

    /// Leaves new connections to the newer process, as before it wanted to leave the service to this one.
    fn drain_again(&self, other: &OtherProcess, reloader: &Reloader<'_>) -> Next {
        if let Some(generation) = other.newer_generation() {
            send_all(&reloader.workers, || Command::LeaveNew(Some(generation)));
        }
        self.share_ids(!self.returned.is_empty(), reloader);
        Next::DrainAgain
    }

    /// Tells one process that it is to serve if this one ends without a word: the last that has left the service to this one, or else the
    /// one before. Two would read the same sockets.
    fn tell_heir(&self, reloader: &Reloader<'_>) {
        match (self.returned.last(), &reloader.takeover) {
            _ if self.ends_for.is_some() => {}
            (Some(heir), _) => heir.send(&Message::Reading),
            (None, Some(takeover)) => takeover.send(&Message::Reading),
            (None, None) => {}
        }
    }

    /// Tells workers whether connections of other processes may have IDs of this one's making.
    fn share_ids(&self, on: bool, reloader: &Reloader<'_>) {
        send_all(&reloader.workers, || Command::ShareIds(on));
    }
}
