//! The open loop of a thread: requests that leave on a schedule.

use std::time::{Duration, Instant};

use super::Worker;
use crate::barrier::LONGEST_WAIT;
use crate::client::LoadClient;
use crate::schedule::Schedule;

/// Requests sent before the sockets have their turn again.
const SEND_PER_TURN: usize = 64;

impl Worker<'_> {
    /// Begins the schedule, which starts at the same time for all threads: once the connections of each are open.
    pub(super) fn begin_schedule(&mut self) {
        let options = &self.cx.plan.options;
        let Some(rate) = options.arrival_rate.filter(|_| self.schedule.is_none()) else {
            return;
        };
        let all_open = self.opened() == self.share.clients && self.cx.handshaking == 0;
        if !all_open || self.alive == 0 {
            return;
        }
        drop(self.arrival.take());
        if let Some(start) = self.barrier.start() {
            let (first, step) = (self.share.thread, options.threads);
            self.schedule = Some(Schedule::new(start, rate, first, step));
            self.start_counting(start);
        }
    }

    /// Returns the time to look whether the other threads are ready, if this one is.
    pub(super) fn look_again_at(&self) -> Option<Instant> {
        let waits = self.arrival.is_none() && self.schedule.is_none();
        waits.then(|| self.cx.now + LONGEST_WAIT)
    }

    /// Returns the time of the next request, if it is to be sent once a connection has room.
    fn next_due(&self) -> Option<Instant> {
        if let Some(request) = self.again.front() {
            return Some(request.start);
        }
        let schedule = self.schedule.as_ref().filter(|_| self.left > 0)?;
        let next = schedule.next();
        self.ends_at().is_none_or(|end| next < end).then_some(next)
    }

    /// Returns the time of the next request, if a connection has room for it.
    pub(super) fn sends_at(&self) -> Option<Instant> {
        self.next_due().filter(|_| !self.free.is_empty())
    }

    /// Takes the news that a connection has room.
    pub(super) fn on_room(&mut self, slot: usize) {
        if !std::mem::replace(&mut self.is_free[slot], true) {
            self.free.push_back(slot);
            self.room_since.get_or_insert(self.cx.now);
        }
    }

    /// Sends the requests that are due by the schedule, while connections have room.
    pub(super) fn send_due(&mut self) {
        for _ in 0..SEND_PER_TURN {
            // Those before it took their time.
            self.cx.tick();
            let now = self.cx.now;
            let Some(due) = self.next_due().filter(|due| *due <= now) else {
                return;
            };
            let Some(slot) = self.free.pop_front() else {
                return;
            };
            self.is_free[slot] = false;
            self.send(slot, due);
            self.service(slot);
            if self.free.is_empty() {
                self.room_since = None;
            }
        }
    }

    /// Sends the next request, which was due at `due`, if the connection has room for it, and counts how late it leaves.
    fn send(&mut self, slot: usize, due: Instant) {
        let Some(client) = self.clients[slot].as_mut() else {
            return;
        };
        if !client.has_room(&self.cx) {
            return;
        }
        if let Some(request) = self.again.front().copied() {
            if client.send_request(request, &self.cx) {
                self.again.pop_front();
            }
            return;
        }
        if !client.submit(due, &mut self.cx) {
            return;
        }
        self.left -= 1;
        if let Some(schedule) = &mut self.schedule {
            schedule.advance();
        }
        if self.cx.counts_request(due) {
            // While no connection had room, the server made it wait.
            let could_leave = self.room_since.map_or(due, |since| since.max(due));
            let lag = self.cx.now.saturating_duration_since(could_leave);
            self.cx.tally.send_lag.add_time(lag);
        }
    }

    /// Counts the times that an open loop's requests without a response have waited: else a server that stalls would look quick.
    pub(super) fn count_waiting(&mut self) {
        let Some(mut schedule) = self.schedule else {
            return;
        };
        let now = self.cx.now;
        let last = self.ends_at().map(|end| end - Duration::from_nanos(1));
        let behind = schedule.behind(last.map_or(now, |last| last.min(now)));
        let counts = |start: &Instant| self.cx.counts_request(*start);
        let again = self.again.iter().map(|request| request.start);
        let open = self.clients.iter().flatten().flat_map(LoadClient::waiting);
        let open: Vec<_> = open.chain(again).filter(counts).collect();
        for start in open {
            let waited = now.saturating_duration_since(start);
            self.cx.tally.request.add_time(waited);
        }
        // There may be many: a schedule goes on while a server stalls.
        for start in schedule.take(behind.min(self.left)) {
            if self.cx.counts_request(start) {
                self.cx.tally.backlog += 1;
                let waited = now.saturating_duration_since(start);
                self.cx.tally.request.add_time(waited);
            }
        }
    }
}
