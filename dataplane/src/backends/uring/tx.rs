//! Sending: the messages of a turn leave with the system call that waits, and none of them waits for room.
//!
//! The messages are not linked: one that fails, or finds no room in its socket, does not hold up the others. So the order
//! is that of commitment as long as no socket is full.

use std::collections::VecDeque;
use std::io;

use super::ring::Ring;
use super::socket::Socket;
use crate::counters::Counters;
use crate::event::Events;
use crate::lanes::{Keep, Lanes};
use crate::options::DriverOptions;

/// Messages that can be submitted and not settled.
pub(super) const HEADS: usize = 64;

pub(super) struct Transmitter {
    pub(super) lanes: Lanes,
    /// Heads of the messages submitted and not settled, per lane in the order of its queue, which begins with them.
    submitted: Box<[VecDeque<usize>]>,
    /// Heads of no message.
    free: Vec<usize>,
    /// Per head, the outcome of its message.
    results: Box<[Option<Result<(), i32>>]>,
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
        let heads = || VecDeque::with_capacity(HEADS);
        Self {
            lanes: Lanes::new(Self::buffers(options, count), listeners),
            submitted: std::iter::repeat_with(heads).take(count).collect(),
            free: (0..HEADS).rev().collect(),
            results: vec![None; HEADS].into_boxed_slice(),
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

    /// Notes that a message failed with `code`.
    pub(super) fn on_failed(&mut self, head: usize, code: i32) {
        self.results[head] = Some(Err(code));
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

    /// Returns whether a batch that may be sent is not submitted.
    pub(super) fn has_unsubmitted(&self) -> bool {
        let mut lanes = self.submitted.iter().enumerate();
        lanes.any(|(lane, submitted)| self.lanes.batch(lane, submitted.len()).is_some())
    }

    /// Returns whether a message is submitted and not settled.
    fn has_submitted(&self) -> bool {
        self.free.len() < HEADS
    }

    /// Passes the next message of every batch that may be sent to the ring, as long as there are heads. The lanes take turns
    /// to be first.
    pub(super) fn submit(&mut self, ring: &mut Ring) -> io::Result<()> {
        let lanes = self.lanes.count();
        for step in 0..lanes {
            let lane = (self.first + step) % lanes;
            // While others wait, no lane takes more than its share.
            let share = self.free.len() / (lanes - step);
            for _ in 0..share.max(1) {
                let submitted = &mut self.submitted[lane];
                let Some(batch) = self.lanes.batch(lane, submitted.len()) else {
                    break;
                };
                let Some(head) = self.free.pop() else {
                    break;
                };
                submitted.push_back(head);
                ring.send(head, lane, batch)?;
            }
        }
        self.first = (self.first + 1) % lanes.max(1);
        self.closed = 0;
        Ok(())
    }

    /// Applies the outcomes of the messages that the kernel has taken to their batches. To be called when no completion is
    /// left.
    pub(super) fn settle(&mut self, ring: &mut Ring, counters: &mut Counters, events: &mut Events) {
        if !self.has_submitted() || !ring.sends_have_ended() {
            return;
        }
        for lane in 0..self.lanes.count() {
            let count = self.submitted[lane].len();
            if count == 0 {
                continue;
            }
            let behind = self.lanes.queued(lane) - count;
            for head in self.submitted[lane].drain(..) {
                let outcome = self.results[head].take().unwrap_or_else(|| {
                    ring.finish_sent(head);
                    Ok(())
                });
                self.free.push(head);
                self.lanes
                    .settle(lane, Keep::Last, outcome, counters, events);
            }
            self.lanes.rotate(lane, behind);
        }
    }
}
