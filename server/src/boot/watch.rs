//! The main thread's loop: reports of workers and signals, until all workers have stopped.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use sluicegate_base::clock;
use sluicegate_base::observe::lifecycle::Phase;

use super::control_socket::{Control, ControlRequest, ControlVerdict, Reply, send_verdict};
use super::error::one_line;
use super::events::{Event, OLDER, OlderNews, OtherNews};
use super::lanes;
use super::limits::{CERTIFICATES_PAUSE, STOP_LIMIT};
use super::observability::Observability;
use super::reload::Reloader;
use super::status::{Connections, DrainingProcesses, ProcessFacts, status};
use super::supervisor::Supervisor;
use super::totals::Totals;
use super::upgrade::{Next, Upgrades};
use super::worker_commands::{send_all, set_receiving};
use crate::boot::signal::Signal;
use crate::handover::Message;
use crate::handover::message::DrainingProcess;
use crate::tcp::FrontCommand;
use crate::worker::{Command, Side, WorkerReport};

/// Time between two looks whether all has drained.
const LOOK: Duration = Duration::from_millis(250);
/// Time between two pages of counters for the process that serves.
const COUNTERS: Duration = Duration::from_secs(1);

/// Ways to and from others, while the server runs.
pub(super) struct Service<'a> {
    pub(super) control: Control,
    pub(super) upgrades: Upgrades,
    pub(super) supervisor: &'a mut Supervisor,
}

/// Waits for the signal to stop, or for a process that takes over, drains and stops, and returns the totals. A second signal, or the end
/// of `server.drain_timeout`, ends the drain at once.
pub(super) fn run_down(
    inbox: &Receiver<Event>,
    observability: &Observability,
    reloader: &mut Reloader<'_>,
    service: &mut Service<'_>,
) -> Totals {
    let running = reloader.workers.len() + reloader.fronts.count();
    let mut run = Run {
        observability,
        reloader,
        service,
        totals: Totals::default(),
        running,
        leaving_until: None,
        deadline: None,
        interrupted: None,
        told_to_stop: false,
        stopped: false,
        is_over: false,
        is_held: false,
        look: clock::now(),
        next_counters: clock::now(),
        since: clock::unix(),
        draining: DrainingProcesses::default(),
        retry: None,
    };
    while run.running > 0 {
        run.hold();
        let now = clock::now();
        let next_step = run.on_time(now);
        let until = run.until(next_step, now);
        let next_step = match inbox.recv_timeout(until.saturating_duration_since(clock::now())) {
            Ok(event) => run.on_event(event).unwrap_or(next_step),
            Err(error) => run.on_silence(error).unwrap_or(next_step),
        };
        if run.is_over {
            break;
        }
        run.follow(next_step);
    }
    run.leave_last_counters();
    run.totals
}

/// The server from its start to its end.
struct Run<'r, 'c, 's> {
    observability: &'r Observability,
    reloader: &'r mut Reloader<'c>,
    service: &'r mut Service<'s>,
    totals: Totals,
    /// Workers and fronts that have not stopped.
    running: usize,
    /// Time at which the drain begins that a signal has asked for.
    leaving_until: Option<Instant>,
    /// Time at which the drain, or the stop after it, ends at once.
    deadline: Option<Instant>,
    /// The same of a drain that another process has interrupted, as it is about to leave the service to this one.
    interrupted: Option<Instant>,
    told_to_stop: bool,
    /// The workers were told to stop.
    stopped: bool,
    /// Nothing that still runs is waited for.
    is_over: bool,
    /// The workers stay though they have drained.
    is_held: bool,
    /// Time of the next look whether they have.
    look: Instant,
    /// Time at which counters are left to the process that serves.
    next_counters: Instant,
    /// Time since 1970 at which this process began to serve.
    since: Duration,
    draining: DrainingProcesses,
    /// Time at which certificates that could not be put to use are tried again.
    retry: Option<Instant>,
}

impl Run<'_, '_, '_> {
    /// Does what is due.
    fn on_time(&mut self, now: Instant) -> Next {
        self.service.supervisor.on_time(now);
        self.reloader.drop_unused();
        self.reloader.upkeep.on_time(&self.reloader.snapshot.secrets, now);
        if self.leaving_until.is_some_and(|until| now >= until) {
            self.drain_and_stop();
        }
        // While the server drains, no connection begins that would use others.
        if !self.drains() {
            self.reloader.renew_secrets(now);
        }
        if self.counts_for_an_heir().is_some_and(|at| now >= at) {
            self.leave_counters();
            self.next_counters = clock::now() + COUNTERS;
        }
        let next_step = self.service.upgrades.on_time(self.reloader, now);
        if self.retry.is_some_and(|retry| clock::now() >= retry) {
            self.install_certificates();
        }
        if self.shows_its_drain() && now >= self.look {
            self.look_at_connections(now);
            // A worker that hangs has the look take long, and this thread has more to do.
            self.look = clock::now() + LOOK;
        }
        next_step
    }

    /// Returns whether the server drains, or stops after that.
    fn drains(&self) -> bool {
        self.deadline.is_some()
    }

    /// Returns whether the server drains beside others, which show how far: one that was told to stop, too.
    fn shows_its_drain(&self) -> bool {
        let has_others = self.service.upgrades.has_others(self.reloader);
        self.drains() && (self.is_held || has_others && !self.stopped)
    }

    /// Tells the other processes how far this one has drained, and notes whether it may end.
    fn look_at_connections(&mut self, now: Instant) {
        // A worker that hangs is the watchdog's.
        let Ok(connections) = Connections::count(self.reloader) else {
            return;
        };
        let left = self.left(now);
        let ends = self.is_held && connections.have_drained;
        if ends || now >= self.next_counters {
            self.next_counters = now + COUNTERS;
            self.leave_counters();
        }
        let Service { upgrades, .. } = &mut *self.service;
        if self.is_held && connections.have_drained && !upgrades.relays(self.reloader) {
            upgrades.on_end();
            return self.hold();
        }
        let process = DrainingProcess {
            process: std::process::id(),
            generation: self.reloader.generation(),
            connections: connections.quic() + connections.tcp,
            seconds_left: left.unwrap_or_default().as_secs(),
        };
        upgrades.pass_on(&Message::Drains(process), None, self.reloader);
    }

    /// Returns the time at which a process that serves leaves its counters to the one that is to serve if this one is killed.
    fn counts_for_an_heir(&self) -> Option<Instant> {
        let heir = self.service.upgrades.heir(self.reloader).filter(|_| !self.drains());
        heir.map(|_| self.next_counters)
    }

    /// Leaves the counters so far to the process that serves, or is to.
    fn leave_counters(&self) {
        if let Some(heir) = self.service.upgrades.heir(self.reloader) {
            self.observability.leave_counters(heir);
        }
    }

    /// Leaves the counters to the process that serves, once nothing counts any more. Those threads that hang are not waited for.
    fn leave_last_counters(&self) {
        if self.service.upgrades.heir(self.reloader).is_some() {
            self.reloader.losses.settle(STOP_LIMIT);
            self.leave_counters();
        }
    }

    /// Returns the time until a process ends that drains.
    fn left(&self, now: Instant) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(now))
    }

    /// Has workers and fronts stay though they have drained, or no longer: datagrams of other processes pass through this one, or
    /// another process may leave the service to it.
    fn hold(&mut self) {
        let upgrades = &self.service.upgrades;
        let may_serve_again = upgrades.may_serve_again() && !self.stopped;
        let is_held = may_serve_again || upgrades.relays(self.reloader);
        if std::mem::replace(&mut self.is_held, is_held) != is_held {
            send_all(&self.reloader.workers, || Command::Hold(is_held));
            self.reloader.fronts.send(|| FrontCommand::Hold(is_held));
        }
    }

    /// Returns the time until which to wait for an event.
    fn until(&self, next_step: Next, now: Instant) -> Instant {
        let mut next = self.service.supervisor.next();
        if !self.drains() {
            next = next.min(self.reloader.secrets_file.next());
        }
        let look = self.shows_its_drain().then_some(self.look);
        let upgrade = self.service.upgrades.next(self.reloader, now);
        let counters = self.counts_for_an_heir();
        let others = [self.leaving_until, self.deadline, self.retry, look, upgrade, counters];
        match next_step {
            Next::GoOn => others.into_iter().flatten().fold(next, Instant::min),
            _ => now,
        }
    }

    /// Takes an event. Returns what is to be done about an upgrade, if that follows from it.
    fn on_event(&mut self, event: Event) -> Option<Next> {
        match event {
            Event::Worker(WorkerReport::Stopped { group, index, stats }) => {
                self.running -= 1;
                self.totals.add(&stats);
                self.observability.admin_state.scraper.settle_worker(&group, index, stats);
            }
            Event::Front(group, index, counters) => {
                self.running -= 1;
                self.totals.add_front(&counters);
                self.observability.admin_state.scraper.settle_front(&group, index, counters);
            }
            Event::Signal(Signal::Stop) => self.on_stop(),
            // While the server drains, no connection begins that would use another certificate.
            Event::Certificates if !self.drains() => self.install_certificates(),
            Event::Worker(_) | Event::Certificates => {}
            Event::Signal(Signal::Reopen) => self.reopen(None),
            Event::Reopen(from) => self.reopen(Some(from)),
            Event::Signal(Signal::Reload) => self.ask(ControlRequest::Reload, None),
            Event::Signal(Signal::Upgrade) => self.ask(ControlRequest::Upgrade(None), None),
            Event::Asked(request, reply) => self.ask(request, Some(reply)),
            Event::Other(number, news) => {
                return Some(self.service.upgrades.on_news(number, &news, self.reloader));
            }
            Event::Added(number, label, socket) => {
                self.service.upgrades.add_socket(number, label, socket);
            }
            Event::Older(news) => return self.on_older_news(news),
            Event::Drains(from, process) => {
                self.draining.note(process, clock::now());
                let message = Message::Drains(process);
                self.service.upgrades.pass_on(&message, Some(from), self.reloader);
            }
        }
        None
    }

    /// Opens the access log again, as do the other processes: a signal reaches one of them. The process of number `from` has said so.
    fn reopen(&self, from: Option<u64>) {
        self.observability.reopen();
        self.service.upgrades.pass_on(&Message::Reopen, from, self.reloader);
    }

    /// Takes the signal to stop.
    fn on_stop(&mut self) {
        let delay = self.reloader.config.server.shutdown_delay;
        let serves = !self.reloader.is_taking_over() && !self.service.upgrades.may_serve_again();
        let may_stay = !delay.is_zero() && serves && self.leaving_until.is_none();
        if !self.drains() && may_stay {
            self.told_to_stop = true;
            self.service.upgrades.cancel(self.reloader);
            self.observability.lifecycle().set(Phase::Leaving);
            tracing::info!(time = ?delay, "leaving: /readyz returns 503, and connections are taken as before; a second signal drains at once");
            let limit = delay + self.reloader.config.server.drain_timeout;
            self.service.supervisor.stopping("leaving", limit);
            self.leaving_until = Some(clock::now() + delay);
        } else if !self.drains() {
            self.drain_and_stop();
        } else if !std::mem::replace(&mut self.told_to_stop, true) {
            // The first signal to a process that drains because another one serves: a service manager stops both.
            self.service.upgrades.cancel(self.reloader);
            tracing::info!("drains already; a second signal stops at once");
        } else {
            self.stop();
        }
    }

    /// Has connections drain, and the process end after that.
    fn drain_and_stop(&mut self) {
        self.leaving_until = None;
        self.told_to_stop = true;
        self.service.upgrades.cancel(self.reloader);
        if let Some(takeover) = self.reloader.takeover.as_ref().filter(|one| !one.reads()) {
            takeover.give_up();
        }
        let limit = self.drain();
        tracing::info!(limit = ?limit, "draining; a second signal stops at once");
        self.service.supervisor.stopping("draining", limit);
    }

    /// Has the server drain: no worker accepts a request that follows a response from here on. Returns the time for it, which is what is
    /// left where a drain goes on that was interrupted.
    fn drain(&mut self) -> Duration {
        self.observability.lifecycle().set(Phase::Draining);
        send_all(&self.reloader.workers, || Command::Drain);
        self.reloader.fronts.send(|| FrontCommand::Drain);
        let (now, limit) = (clock::now(), self.reloader.config.server.drain_timeout);
        let first = self.deadline.or(self.interrupted.take());
        let deadline = first.map_or(now + limit, |first| first.min(now + limit));
        self.deadline = Some(deadline);
        deadline.saturating_duration_since(now)
    }

    /// Notes that no event has come.
    fn on_silence(&mut self, error: RecvTimeoutError) -> Option<Next> {
        let is_timeout = error == RecvTimeoutError::Timeout;
        if is_timeout && self.deadline.is_none_or(|deadline| clock::now() < deadline) {
            return Some(self.service.upgrades.on_silence(self.reloader, clock::now()));
        }
        if is_timeout && self.stopped && self.service.upgrades.relays(self.reloader) {
            // Its connections are closed; datagrams of others still pass through this one, which have their own deadlines.
            self.deadline = Some(clock::now() + STOP_LIMIT);
        } else {
            self.stop();
        }
        None
    }

    /// Closes all connections. What has not ended after that is left.
    fn stop(&mut self) {
        if self.stopped {
            self.is_over = true;
            return;
        }
        self.leave_counters();
        self.stopped = true;
        self.service.upgrades.on_end();
        self.hold();
        tracing::info!("stopping");
        send_all(&self.reloader.workers, || Command::Stop);
        self.reloader.fronts.send(|| FrontCommand::Stop);
        self.deadline = Some(clock::now() + STOP_LIMIT);
    }

    /// Does what is to be done about an upgrade.
    fn follow(&mut self, next_step: Next) {
        match next_step {
            Next::GoOn => {}
            Next::Drain(process) => {
                // From here on it is the one that the service manager watches.
                self.service.supervisor.replaced(process);
                self.leaving_until = None;
                // Before they drain.
                self.hold();
                let limit = self.drain();
                tracing::info!(limit = ?limit, "draining beside the other process");
            }
            Next::Undone => self.service.control.open(),
            Next::Resume => {
                self.interrupted = self.deadline.take();
                // The file may have changed while the server drained.
                self.reloader.renew_secrets_at_once();
            }
            Next::DrainAgain => {
                self.drain();
            }
            Next::Serve => self.serve_again(),
            Next::Stop => {
                self.told_to_stop = true;
                self.deadline = Some(clock::now());
            }
        }
    }

    /// Does what somebody asks for.
    fn ask(&mut self, request: ControlRequest, reply: Option<Reply>) {
        match (request, self.refusal()) {
            (ControlRequest::Status, _) => self.show_status(reply),
            (request, Some(reason)) => {
                tracing::warn!(?request, "refused: {reason}");
                send_verdict(reply, &ControlVerdict::Refused(reason.into()));
            }
            (ControlRequest::Reload, None) => {
                reload(self.observability, self.reloader, self.service.supervisor, reply);
            }
            (ControlRequest::Upgrade(program), None) => {
                // The new process reads the file as it is now.
                self.reloader.renew_secrets_at_once();
                self.service.upgrades.begin(program, reply, self.reloader);
            }
            (ControlRequest::Back, None) => {
                self.service.upgrades.begin_back(reply, self.reloader);
            }
        }
    }

    /// Returns why the server neither reloads nor leaves the service now, if so.
    fn refusal(&self) -> Option<&'static str> {
        if self.drains() && self.is_held {
            Some("this process drains already, and another one serves: ask again")
        } else if self.drains() {
            Some("not while the server drains")
        } else if self.leaving_until.is_some() {
            Some("not while the server stops")
        } else if self.reloader.is_taking_over() {
            Some("this process has not taken over yet")
        } else if self.service.upgrades.are_under_way() {
            Some("not while the server is upgraded")
        } else {
            None
        }
    }

    fn show_status(&mut self, reply: Option<Reply>) {
        let facts = ProcessFacts {
            phase: self.observability.lifecycle().phase(),
            since: self.since,
            left: self.left(clock::now()),
            draining: &mut self.draining,
        };
        let verdict = match status(facts, self.reloader) {
            Ok(status) => ControlVerdict::Taken(status.to_string()),
            Err(error) => ControlVerdict::Refused(error.to_string()),
        };
        send_verdict(reply, &verdict);
    }

    /// Takes news of the process before. Returns what is to be done about an upgrade, if that follows from it.
    fn on_older_news(&mut self, news: OlderNews) -> Option<Next> {
        let drains = self.drains();
        let Run { reloader, service, .. } = self;
        let takeover = reloader.takeover.as_mut()?;
        let ended = || OtherNews::Ended("the former process has ended".to_owned());
        if matches!(news, OlderNews::Gone | OlderNews::Closed) {
            takeover.on_end();
        }
        match news {
            OlderNews::Closed => {
                takeover.set_oldest(None);
                tracing::info!(
                    process = takeover.process(),
                    "upgrade: the former process has ended"
                );
                service.upgrades.tell_oldest(reloader.generation());
                lanes::forget(&reloader.workers, Side::Older);
                return Some(service.upgrades.on_news(OLDER, &ended(), reloader));
            }
            OlderNews::Oldest(generation) => {
                takeover.set_oldest(Some(generation));
                if takeover.oldest().is_some() {
                    service.upgrades.tell_oldest(generation);
                }
            }
            // One that was told to stop before that does not take over.
            OlderNews::Read | OlderNews::Gone if !takeover.reads() && !drains => {
                return self.take_over();
            }
            OlderNews::Read => {}
            OlderNews::Gone => {
                return Some(service.upgrades.on_news(OLDER, &ended(), reloader));
            }
        }
        None
    }

    /// Serves after another process has: workers read already, and take new connections.
    fn serve_again(&mut self) {
        (self.deadline, self.interrupted, self.since) = (None, None, clock::unix());
        self.observability.lifecycle().set(Phase::Serving);
        self.reloader.fronts.send(|| FrontCommand::Resume);
        self.reloader.admin.serve_again();
        let Service { control, supervisor, .. } = self.service;
        control.open();
        tracing::info!("upgrade: this process serves again");
        supervisor.replaced(std::process::id());
        supervisor.ready(&self.reloader.standing());
        // Another process may have renewed them.
        self.install_certificates();
    }

    /// Reads the sockets that the process before has left, and serves.
    fn take_over(&mut self) -> Option<Next> {
        let Run { reloader, service, .. } = self;
        let takeover = reloader.takeover.as_mut()?;
        service.upgrades.take_tokens();
        let reads = takeover.steer().and_then(|()| set_receiving(&reloader.workers, true));
        if let Err(error) = reads {
            tracing::error!(%error, "upgrade: a worker cannot read, so this process ends");
            takeover.give_up();
            return Some(Next::Stop);
        }
        if let Some(over_tcp) = takeover.over_tcp.take() {
            reloader.fronts.adopt(over_tcp);
        }
        reloader.admin.serve_again();
        reloader.admin.announce();
        service.control.open();
        takeover.on_reading();
        self.since = clock::unix();
        tracing::info!("upgrade: this process has taken over");
        let standing = reloader.standing();
        service.supervisor.ready(&standing);
        None
    }

    fn install_certificates(&mut self) {
        let pause = install_certificates(self.reloader);
        self.retry = pause.map(|pause| clock::now() + pause);
    }
}

/// Puts certificates of ACME to use. Returns the pause until the next attempt if that fails: another file of the configuration may
/// just be half written.
fn install_certificates(reloader: &mut Reloader<'_>) -> Option<Duration> {
    let error = match reloader.install_certificates() {
        Ok(Some(snapshot)) => {
            tracing::info!(snapshot, "certificates of ACME are in use");
            return None;
        }
        Ok(None) => return None,
        Err(error) => one_line(&error),
    };
    let pause = CERTIFICATES_PAUSE;
    tracing::error!(
        %error, next_attempt = ?pause, "the certificates of ACME cannot be put to use; correct this"
    );
    Some(pause)
}

/// Reloads the configuration. A client of the control socket learns of a refusal at once, and of success once every worker has applied
/// the configuration.
fn reload(
    observability: &Observability,
    reloader: &mut Reloader<'_>,
    supervisor: &mut Supervisor,
    mut reply: Option<Reply>,
) {
    supervisor.reloading();
    let result = reloader.reload();
    // Counted before it is logged, so that whoever reads the log finds it in the metrics.
    observability.lifecycle().reloaded(result.as_ref().ok().copied());
    let mut standing = reloader.standing();
    match result {
        Ok(snapshot) => tracing::info!(snapshot, "configuration reloaded"),
        Err(error) => {
            send_verdict(reply.take(), &ControlVerdict::Refused(error.lines()));
            let (error, snapshot) = (one_line(&error), reloader.snapshot.generation);
            tracing::error!(%error, snapshot, "configuration refused; the previous one stays in effect");
            standing.push_str("; the last reload was refused, see the log");
        }
    }
    supervisor.reloaded(standing, reply, clock::now());
}
