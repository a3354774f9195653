//! Sending: many messages per system call, none of which waits.
//!
//! The messages are not linked: one that fails, or finds no room in its socket, does not hold up the others. So the order
//! is that of commitment as long as no socket is full.

use std::io;

use super::ring::Ring;
use super::socket::Socket;
use crate::counters::Counters;
use crate::event::Events;
use crate::lanes::{Keep, Lanes};
use crate::options::DriverOptions;

/// Messages in one system call.
pub(super) const HEADS: usize = 64;

pub(super) struct Transmitter {
    pub(super) lanes: Lanes,
    /// Heads of the messages under way, per lane in the order of its queue.
    submitted: Box<[Vec<usize>]>,
    /// Per head, the outcome of its message.
    results: Box<[Option<Result<usize, i32>>]>,
    /// Messages submitted and not completed.
    under_way: usize,
    /// Batches closed since the last submission.
    pub(super) closed: usize,
    /// Lane that comes first in the next submission.
    first: usize,
    /// Per lane, whether its socket is watched for room.
    watched: Box<[bool]>,
}

impl Transmitter {
    pub(super) fn buffers(options: &DriverOptions, sockets: usize) -> usize {
        Lanes::buffers(options.tx_slots, sockets)
    }

    pub(super) fn new(options: &DriverOptions, sockets: &[Socket]) -> Self {
        let count = sockets.len();
        let listeners = sockets
            .iter()
            .map(|s| (s.binding.listener(), s.binding.gso()));
        let heads = || Vec::with_capacity(HEADS);
        Self {
            lanes: Lanes::new(Self::buffers(options, count), listeners),
            submitted: std::iter::repeat_with(heads).take(count).collect(),
            results: vec![None; HEADS].into_boxed_slice(),
            under_way: 0,
            closed: 0,
            first: 0,
            watched: vec![false; count].into_boxed_slice(),
        }
    }

    pub(super) fn on_writable(&mut self, socket: usize) {
        if let Some(watched) = self.watched.get_mut(socket) {
            *watched = false;
        }
        self.lanes.on_writable(socket);
    }

    pub(super) fn on_sent(&mut self, head: usize, result: Result<usize, i32>) {
        self.under_way = self.under_way.saturating_sub(1);
        self.results[head] = Some(result);
    }

    /// Returns the number of messages submitted and not completed.
    pub(super) fn under_way(&self) -> usize {
        self.under_way
    }

    /// Asks for a completion when a full socket has room.
    pub(super) fn watch(&mut self, ring: &mut Ring) -> io::Result<()> {
        for lane in 0..self.lanes.count() {
            if self.lanes.is_blocked(lane) && !self.watched[lane] {
                ring.watch_writable(lane)?;
                self.watched[lane] = true;
            }
        }
        Ok(())
    }

    /// Submits the next message of every batch that may be sent, up to [`HEADS`], and returns how many there were. The
    /// lanes take turns to be first.
    pub(super) fn submit(&mut self, ring: &mut Ring) -> io::Result<usize> {
        let lanes = self.lanes.count();
        let mut head = 0;
        for step in 0..lanes {
            let lane = (self.first + step) % lanes;
            // While others wait, no lane takes more than its share.
            let share = (HEADS - head) / (lanes - step);
            for number in 0..share.max(1).min(HEADS - head) {
                let Some(batch) = self.lanes.batch(lane, number) else {
                    break;
                };
                ring.send(head, lane, batch)?;
                self.submitted[lane].push(head);
                self.under_way += 1;
                head += 1;
            }
        }
        self.first = (self.first + 1) % lanes.max(1);
        self.closed = 0;
        Ok(head)
    }

    /// Applies the outcomes of the messages of the last submission to their batches.
    pub(super) fn settle(&mut self, counters: &mut Counters, events: &mut Events) {
        for lane in 0..self.lanes.count() {
            let count = self.submitted[lane].len();
            if count == 0 {
                continue;
            }
            let behind = self.lanes.queued(lane) - count;
            for head in self.submitted[lane].drain(..) {
                let result = self.results[head].take().unwrap_or(Err(libc::EINTR));
                self.lanes
                    .settle(lane, Keep::Last, result.map(drop), counters, events);
            }
            self.lanes.rotate(lane, behind);
        }
    }
}
