//! A thread with its share of the connections.

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::busy::{Busy, Meter};
use crate::client::{Client, Pace};
use crate::context::{Context, Line};
use crate::end::End;
use crate::poller::Poller;
use crate::schedule::Schedule;
use crate::tally::Tally;

/// Connections opened before the sockets have their turn again.
const OPEN_PER_TURN: u64 = 16;
/// Longest sleep: a signal to end is noticed after it.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// A thread's part of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Number of the thread.
    pub(crate) thread: u64,
    pub(crate) clients: u64,
    /// Requests; none if the run has a duration.
    pub(crate) requests: Option<u64>,
    /// Connections to open per period.
    pub(crate) rate: Option<u64>,
}

/// A thread's state.
pub(crate) struct Worker<'a> {
    cx: Context<'a>,
    share: Share,
    config: quiche::Config,
    stop: &'a AtomicBool,
    poller: Poller,
    /// Connections, by their numbers.
    clients: Vec<Option<Client>>,
    alive: u64,
    /// Each connection's timer. It may come early, but never late.
    armed: Vec<Option<Instant>>,
    timers: BTreeSet<(Instant, usize)>,
    /// Index of the address that new connections try.
    address: usize,
    /// Time of the first connection.
    begin: Instant,
    /// Schedule of all connections, once they are open.
    schedule: Option<Schedule>,
    /// Requests that the schedule has left.
    left: u64,
    /// Connections that can take a request of the schedule, the one that has waited longest first.
    free: VecDeque<usize>,
    is_free: Vec<bool>,
}

impl<'a> Worker<'a> {
    /// # Errors
    /// The system has no selector left.
    pub(crate) fn new(
        cx: Context<'a>,
        config: quiche::Config,
        share: Share,
        stop: &'a AtomicBool,
    ) -> anyhow::Result<Self> {
        Ok(Worker {
            begin: cx.now,
            cx,
            left: share.requests.unwrap_or(u64::MAX),
            share,
            config,
            stop,
            poller: Poller::new().context("cannot make a selector")?,
            clients: Vec::new(),
            alive: 0,
            armed: Vec::new(),
            timers: BTreeSet::new(),
            address: 0,
            schedule: None,
            free: VecDeque::new(),
            is_free: Vec::new(),
        })
    }

    /// Runs to the end and returns the figures.
    ///
    /// # Errors
    /// The selector or the request log is broken.
    pub(crate) fn run(mut self) -> anyhow::Result<Tally> {
        let meter = Meter::start(self.begin);
        let share = self.share;
        let options = &self.cx.plan.options;
        let (timed, rated) = (options.duration.is_some(), share.rate.is_some());
        self.cx.tally.total = share.requests.unwrap_or(0);
        self.cx.reports = share.thread == 0;
        if self.cx.reports && !timed && !rated {
            self.cx.progress_step = Some((self.cx.tally.total / 10).max(1));
        }
        if options.arrival_rate.is_none() {
            self.start_counting();
        }
        loop {
            self.cx.tick();
            self.open_due();
            self.run_timers();
            self.send_due();
            if self.is_over() {
                break;
            }
            self.poller.wait(self.sleep()).context("cannot wait")?;
            let mut index = 0;
            while let Some(slot) = self.poller.ready(index) {
                self.cx.tick();
                self.on_ready(slot);
                index += 1;
            }
        }
        self.finish();
        let mut tally = std::mem::take(&mut self.cx.tally);
        tally.busy = Busy::since(&meter, self.cx.now).into_iter().collect();
        quiche::clock::set(None);
        if let Some(log) = self.cx.log.take() {
            log.finish().context("cannot write the request log")?;
        }
        Ok(tally)
    }

    /// Begins the time that counts, after the warm-up.
    fn start_counting(&mut self) {
        let options = &self.cx.plan.options;
        let warm_up = options.duration.and(options.warm_up_time);
        self.cx.counted_from = Some(self.cx.now + warm_up.unwrap_or_default());
    }

    /// Returns the time at which the run ends.
    fn ends_at(&self) -> Option<Instant> {
        let from = self.cx.counted_from?;
        self.cx.plan.options.duration.map(|time| from + time)
    }

    fn is_over(&self) -> bool {
        let all_ended = self.alive == 0 && self.opened() == self.share.clients;
        let all_sent = self.left == 0 && self.cx.open_requests == 0;
        all_ended
            || all_sent && self.schedule.is_some()
            || self.ends_at().is_some_and(|end| end <= self.cx.now)
            || self.stop.load(Ordering::Relaxed)
    }

    fn opened(&self) -> u64 {
        self.clients.len() as u64
    }

    /// Returns how many connections are to be opened now.
    fn to_open(&self) -> u64 {
        let options = &self.cx.plan.options;
        let most = self.share.clients;
        let due = self.share.rate.map_or(most, |rate| {
            let elapsed = self.cx.now.saturating_duration_since(self.begin);
            let periods = elapsed.as_nanos() / options.rate_period.as_nanos().max(1);
            let due = (periods + 1).saturating_mul(u128::from(rate));
            u64::try_from(due).unwrap_or(u64::MAX)
        });
        due.min(most).saturating_sub(self.opened())
    }

    fn open_due(&mut self) {
        for _ in 0..self.to_open().min(OPEN_PER_TURN) {
            let slot = self.clients.len();
            let left = self.share.requests.map_or(u64::MAX, |requests| {
                let (each, rest) = (requests / self.share.clients, requests % self.share.clients);
                each + u64::from((slot as u64) < rest)
            });
            self.clients.push(None);
            self.armed.push(None);
            self.is_free.push(false);
            self.open(slot, left);
            self.report_opened();
        }
        let all = self.opened() == self.share.clients && self.cx.handshaking == 0;
        if let Some(rate) = self.cx.plan.options.arrival_rate
            && self.schedule.is_none()
            && all
            && self.alive > 0
        {
            let (first, step) = (self.share.thread, self.cx.plan.options.threads);
            self.schedule = Some(Schedule::new(self.cx.now, rate, first, step));
            self.start_counting();
        }
    }

    fn report_opened(&self) {
        let (opened, clients) = (self.opened(), self.share.clients);
        let shown = self.cx.reports && self.share.rate.is_some();
        if shown && opened.is_multiple_of((clients / 10).max(1)) {
            let percent = opened * 100 / clients;
            let line = format!("progress: {percent}% of clients started");
            self.cx.say(Line::Report(line));
        }
    }

    /// Opens connection number `slot`, which has `left` requests to send.
    fn open(&mut self, slot: usize, left: u64) {
        let options = &self.cx.plan.options;
        let pace = match (options.arrival_rate, options.rps) {
            (Some(_), _) => Pace::Shared,
            (None, Some(rate)) => Pace::Rate(rate),
            (None, None) => Pace::Closed,
        };
        let trace = options.qlog_file_base.as_ref().map(|base| {
            let mut name = base.as_os_str().to_owned();
            name.push(format!(".{}.{slot}.sqlog", self.share.thread));
            PathBuf::from(name)
        });
        let way = (self.address, trace.as_deref());
        let opened = Client::open(&mut self.config, way, (left, pace), &mut self.cx);
        let watched = opened.and_then(|client| {
            self.alive += 1;
            let watched = self.poller.add(&client, slot);
            self.clients[slot] = Some(client);
            watched.context("cannot watch a socket")
        });
        match watched {
            Ok(()) => self.service(slot),
            Err(error) => self.end(slot, End::Failed(format!("cannot connect: {error:#}"))),
        }
    }

    fn on_ready(&mut self, slot: usize) {
        let Some(client) = self.clients.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        match client.receive(&mut self.cx) {
            Ok(()) => self.service(slot),
            Err(end) => self.end(slot, end),
        }
    }

    fn run_timers(&mut self) {
        while let Some((at, slot)) = self.timers.first().copied()
            && at <= self.cx.now
        {
            self.timers.pop_first();
            self.armed[slot] = None;
            let Some(client) = self.clients[slot].as_mut() else {
                continue;
            };
            match client.on_timer(&mut self.cx) {
                None => self.service(slot),
                Some(end) => self.end(slot, end),
            }
        }
    }

    /// Sends the requests that are due by the schedule, while connections have room.
    fn send_due(&mut self) {
        let end = self.ends_at();
        while let Some(due) = self.schedule.as_ref().and_then(|s| s.due(self.cx.now))
            && self.left > 0
            && end.is_none_or(|end| due < end)
            && let Some(slot) = self.free.pop_front()
        {
            self.is_free[slot] = false;
            let Some(client) = self.clients[slot].as_mut() else {
                continue;
            };
            if client.has_room(&self.cx) && client.submit(due, &mut self.cx) {
                self.left -= 1;
                if let Some(schedule) = &mut self.schedule {
                    schedule.advance();
                }
            }
            self.service(slot);
        }
    }

    /// Lets a connection do what it can, and sets its timer.
    fn service(&mut self, slot: usize) {
        let Some(client) = self.clients[slot].as_mut() else {
            return;
        };
        if let Some(end) = client.service(&mut self.cx) {
            self.end(slot, end);
            return;
        }
        if self.cx.plan.options.arrival_rate.is_some()
            && !self.is_free[slot]
            && client.has_room(&self.cx)
        {
            self.is_free[slot] = true;
            self.free.push_back(slot);
        }
        let deadline = client.deadline(&self.cx);
        // A timer that comes early finds nothing to do and is set again; to move it each time would cost more.
        if let Some(at) = deadline
            && self.armed[slot].is_none_or(|armed| at < armed)
        {
            self.disarm(slot);
            self.armed[slot] = Some(at);
            self.timers.insert((at, slot));
        }
    }

    fn disarm(&mut self, slot: usize) {
        if let Some(at) = self.armed[slot].take() {
            self.timers.remove(&(at, slot));
        }
    }

    /// Ends a connection, and opens another one in its place where that helps.
    fn end(&mut self, slot: usize, end: End) {
        self.disarm(slot);
        let mut again = None;
        let mut failed = !matches!(end, End::Done | End::GoneAway);
        if let Some(client) = self.clients[slot].take() {
            self.alive -= 1;
            let (address, left) = (client.address, client.left);
            match end {
                End::GoneAway => again = Some(left),
                End::Unreachable(_) if address + 1 < self.cx.plan.addresses.len() => {
                    self.address = self.address.max(address + 1);
                    again = Some(left);
                    failed = false;
                }
                _ => {}
            }
            let open = client.leave(failed, &mut self.cx);
            if end == End::TimedOut && self.cx.counts() {
                self.cx.tally.timed_out += open;
            }
        }
        if failed {
            let cause = match end {
                End::TimedOut => "closed by -T or -N".to_owned(),
                End::Failed(cause) | End::Unreachable(cause) => cause,
                End::Done | End::GoneAway => return,
            };
            self.cx.note(|| cause.clone());
            self.cx.tally.fail(cause, 1);
        }
        if let Some(left) = again {
            self.open(slot, left);
        }
    }

    /// Returns the time until the next timer or due request.
    fn sleep(&self) -> Duration {
        let now = self.cx.now;
        let unopened = self.share.clients - self.opened();
        if self.to_open() > 0 {
            return Duration::ZERO;
        }
        let period = self.cx.plan.options.rate_period.as_nanos().max(1);
        let next_period = (unopened > 0).then(|| {
            let elapsed = now.saturating_duration_since(self.begin).as_nanos();
            let nanos = u64::try_from(period - elapsed % period).unwrap_or(u64::MAX);
            now + Duration::from_nanos(nanos).min(LONGEST_SLEEP)
        });
        let due = self
            .schedule
            .as_ref()
            .filter(|_| self.left > 0 && !self.free.is_empty());
        let timer = self.timers.first().map(|(at, _)| *at);
        let times = [timer, next_period, due.map(Schedule::next), self.ends_at()];
        let next = times.into_iter().flatten().min();
        let sleep = next.map_or(LONGEST_SLEEP, |next| next.saturating_duration_since(now));
        sleep.min(LONGEST_SLEEP)
    }

    /// Counts the times that an open loop's requests without a response have waited: else a server that stalls would look quick.
    fn count_waiting(&mut self) {
        let Some(mut schedule) = self.schedule else {
            return;
        };
        let now = self.cx.now;
        let last = self.ends_at().map(|end| end - Duration::from_nanos(1));
        let backlog = schedule.behind(last.map_or(now, |last| last.min(now)));
        self.cx.tally.backlog = backlog.min(self.left);
        let due = schedule.take(self.cx.tally.backlog);
        let open = self.clients.iter().flatten().flat_map(Client::waiting);
        let times = &mut self.cx.tally.request;
        for start in due.chain(open) {
            times.add_time(now.saturating_duration_since(start));
        }
    }

    /// Ends all connections and counts what was left.
    fn finish(&mut self) {
        self.cx.tick();
        self.cx.tally.unfinished = self.cx.open_requests;
        self.count_waiting();
        for client in std::mem::take(&mut self.clients).into_iter().flatten() {
            client.leave(false, &mut self.cx);
        }
    }
}
