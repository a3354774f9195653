//! A thread with its share of the connections.

mod connections;
mod open_loop;
mod phases;

use std::collections::{BTreeSet, VecDeque};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::thread::set_current_timer_slack;

use crate::barrier::{BarrierArrival, StartBarrier};
use crate::busy::{Busy, Meter};
use crate::client::LoadClient;
use crate::client::connector::Connector;
use crate::context::Context;
use crate::interval::IntervalAccount;
use crate::log::RequestLog;
use crate::options::LoadArgs;
use crate::poller::Poller;
use crate::request::OpenRequest;
use crate::schedule::Schedule;
use crate::tally::Tally;
use crate::text;

/// Longest sleep: a signal to end is noticed after it.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// Time by which the kernel may lengthen a sleep, nanoseconds: the shortest there is.
const TIMER_SLACK_NS: u64 = 1;

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

impl Share {
    /// Returns the line with which h2load announces a thread.
    pub(crate) fn announcement(&self, args: &LoadArgs) -> String {
        let (thread, clients) = (self.thread, self.clients);
        let begin = format!("spawning thread #{thread}: {clients} total client(s).");
        let Some(requests) = self.requests else {
            let seconds = |time: Option<Duration>| time.unwrap_or_default().as_secs_f64();
            return format!(
                "{begin} Timing-based test with {}s of warm-up time and {}s of main duration for measurements.",
                seconds(args.warm_up_time),
                seconds(args.duration),
            );
        };
        let rate = self.rate.filter(|rate| clients > *rate);
        let rate = rate.map(|rate| {
            let period = text::period(args.rate_period);
            format!(" Up to {rate} client(s) will be created every {period}")
        });
        format!("{begin}{} {requests} total requests", rate.unwrap_or_default())
    }
}

/// A thread's state.
pub(crate) struct Worker<'a> {
    cx: Context<'a>,
    share: Share,
    connector: Connector,
    stop: &'a AtomicBool,
    poller: Poller,
    /// Connections, by their numbers.
    clients: Vec<Option<LoadClient>>,
    alive: u64,
    /// Each connection's timer. It may come early, but never late.
    armed: Vec<Option<Instant>>,
    timers: BTreeSet<(Instant, usize)>,
    /// Index of the address that new connections try.
    address: usize,
    /// Time of the first connection.
    begin: Instant,
    /// Common start of all threads' schedules.
    barrier: &'a StartBarrier,
    /// Kept until this thread is ready for it.
    arrival: Option<BarrierArrival<'a>>,
    /// Schedule of all connections, once they are open.
    schedule: Option<Schedule>,
    /// The warm-up is over.
    in_main: bool,
    /// Requests that the schedule has left.
    left: u64,
    /// Requests of the schedule that a server did not process, and that are to be sent again.
    again: VecDeque<OpenRequest>,
    /// Connections that can take a request of the schedule, the one that has waited longest first.
    free: VecDeque<usize>,
    is_free: Vec<bool>,
    /// Time since which one of them was always there; none if there is none.
    room_since: Option<Instant>,
}

impl<'a> Worker<'a> {
    /// # Errors
    /// The system has no selector left.
    pub(crate) fn new(
        cx: Context<'a>,
        connector: Connector,
        share: Share,
        stop: &'a AtomicBool,
        arrival: BarrierArrival<'a>,
    ) -> anyhow::Result<Self> {
        Ok(Worker {
            begin: cx.now,
            cx,
            left: share.requests.unwrap_or(u64::MAX),
            share,
            connector,
            stop,
            poller: Poller::new().context("cannot make a selector")?,
            clients: Vec::new(),
            alive: 0,
            armed: Vec::new(),
            timers: BTreeSet::new(),
            address: 0,
            barrier: arrival.barrier(),
            arrival: Some(arrival),
            schedule: None,
            in_main: false,
            again: VecDeque::new(),
            free: VecDeque::new(),
            is_free: Vec::new(),
            room_since: None,
        })
    }

    /// Runs to the end and returns the figures, with what went wrong on the way.
    pub(crate) fn run(mut self) -> Tally {
        let meter = Meter::start(self.begin);
        // Linux lets sleeps last 50 us longer by default, which would count as latency. Without permission it stays so.
        let _ = set_current_timer_slack(NonZeroU64::new(TIMER_SLACK_NS));
        let share = self.share;
        let options = &self.cx.plan.options;
        let (timed, rated) = (options.duration.is_some(), share.rate.is_some());
        self.cx.tally.total = share.requests.unwrap_or(0);
        self.cx.reports = share.thread == 0;
        if self.cx.reports && !timed && !rated {
            self.cx.progress_step = Some((self.cx.tally.total / 10).max(1));
        }
        if !self.cx.plan.is_open_loop() {
            self.start_counting(self.begin);
        }
        loop {
            self.cx.tick();
            self.open_due();
            self.begin_schedule();
            self.report_main();
            self.cx.end_intervals(self.alive);
            self.run_timers();
            self.send_due();
            if self.is_over() {
                break;
            }
            if let Err(error) = self.poller.wait(self.sleep()) {
                self.cx.tally.errors.push(format!("cannot wait: {error}"));
                break;
            }
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
        if let Some(Err(error)) = self.cx.log.take().map(RequestLog::finish) {
            tally.errors.push(format!("cannot write the request log: {error}"));
        }
        tally
    }

    /// Begins the warm-up at `start`; what comes after it counts.
    fn start_counting(&mut self, start: Instant) {
        let options = &self.cx.plan.options;
        let warm_up = options.duration.and(options.warm_up_time);
        self.cx.count_from(start + warm_up.unwrap_or_default());
        self.report_warm_up();
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
        let now = self.cx.now;
        while let Some((at, slot)) = self.timers.first().copied()
            && at <= now
        {
            self.timers.pop_first();
            self.armed[slot] = None;
            self.cx.tick();
            let Some(client) = self.clients[slot].as_mut() else {
                continue;
            };
            match client.on_timer(&mut self.cx) {
                None => self.service(slot),
                Some(end) => self.end(slot, end),
            }
        }
    }

    /// Lets a connection do what it can, and sets its timer.
    fn service(&mut self, slot: usize) {
        let Some(client) = self.clients[slot].as_mut() else {
            return;
        };
        let end = client.service(&mut self.cx);
        if self.cx.plan.is_open_loop() {
            self.again.append(&mut client.work().again);
        }
        if let Some(end) = end {
            self.end(slot, end);
            return;
        }
        let has_room = client.has_room(&self.cx);
        let deadline = client.deadline(&self.cx);
        if has_room && self.cx.plan.is_open_loop() {
            self.on_room(slot);
        }
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
        let timer = self.timers.first().map(|(at, _)| *at);
        let starts = self.look_again_at();
        let interval = self.cx.interval.as_ref().and_then(IntervalAccount::ends_at);
        let times = [timer, next_period, starts, interval, self.sends_at(), self.ends_at()];
        let next = times.into_iter().flatten().min();
        let sleep = next.map_or(LONGEST_SLEEP, |next| next.saturating_duration_since(now));
        sleep.min(LONGEST_SLEEP)
    }

    /// Ends all connections and counts what was left.
    fn finish(&mut self) {
        self.cx.tick();
        self.cx.tally.unfinished = self.cx.open_requests;
        self.cx.end_intervals(self.alive);
        self.cx.end_last_interval(self.alive);
        self.count_waiting();
        self.report_over();
        if self.alive == 0 {
            // No connection is left that could send them.
            let starts: Vec<_> = self.again.iter().map(|request| request.start).collect();
            self.cx.abandon(&starts);
        }
        for client in std::mem::take(&mut self.clients).into_iter().flatten() {
            // Later ones may replace connections that the server has sent away just now.
            let none_before = self.cx.tally.connections == 0;
            if let Some(cause) = client.missing_handshake().filter(|_| none_before) {
                self.cx.tally.fail(cause, 1);
            }
            client.leave(false, &mut self.cx);
        }
        self.report_stopped();
    }
}
