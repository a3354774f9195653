//! Sending: the messages of a turn leave with the system call that waits, and none of them waits for room.
//!
//! The messages are not linked: one that fails, or finds no room in its socket, does not hold up the others. So the order
//! is that of commitment as long as no socket is full.
//!
//! Large batches may be sent without copying them: the kernel then has them on loan after they count as sent.

use std::collections::VecDeque;
use std::io;

use super::completion::Completion;
use super::ring::Ring;
use super::socket::Socket;
use crate::counters::Counters;
use crate::event::Events;
use crate::lanes::{Keep, Lanes};
use crate::options::DriverOptions;

/// Messages that can be submitted and not settled.
pub(super) const HEADS: usize = 64;

/// Heads that no loan takes: a device that keeps what it is lent holds up no message that is copied.
const UNLENT: usize = 16;

pub(super) struct Transmitter {
    pub(super) lanes: Lanes,
    /// Heads of the messages submitted and not settled, per lane in the order of its queue, which begins with them.
    submitted: Box<[VecDeque<usize>]>,
    /// Heads of no message.
    free: Vec<usize>,
    /// Per head, the error of its message.
    errors: Box<[Option<i32>]>,
    /// Least size of a message that is not copied, bytes; `None` where all are copied.
    zero_copy: Option<usize>,
    /// Per head, the loan of a message that is not copied.
    loans: Box<[Option<Loan>]>,
    /// There was no buffer, while some were on loan.
    starved: bool,
    /// A loan has ended since then.
    relieved: bool,
    /// Batches closed since the last submission.
    pub(super) closed: usize,
    /// Lane that comes first in the next submission.
    first: usize,
    /// Per lane, whether its socket is watched for room.
    watched: Box<[bool]>,
}

/// Bytes that the kernel reads until the device has sent them.
#[derive(Clone, Copy)]
struct Loan {
    lane: usize,
    buffer: usize,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The message is submitted and not settled.
    Submitted,
    /// It is settled, and the kernel still reads its bytes.
    Settled,
    /// The kernel is done with its bytes, and it is not settled.
    Returned,
}

impl Transmitter {
    pub(super) fn buffers(options: &DriverOptions, sockets: usize) -> usize {
        Lanes::buffers(options.tx_slots, sockets)
    }

    /// `zero_copy`: the kernel can send without copying.
    pub(super) fn new(options: &DriverOptions, sockets: &[Socket], zero_copy: bool) -> Self {
        let count = sockets.len();
        let listeners = sockets.iter().map(|s| (s.binding.listener(), s.binding.gso()));
        let heads = || VecDeque::with_capacity(HEADS);
        Self {
            lanes: Lanes::new(Self::buffers(options, count), listeners),
            submitted: std::iter::repeat_with(heads).take(count).collect(),
            free: (0..HEADS).rev().collect(),
            errors: vec![None; HEADS].into_boxed_slice(),
            zero_copy: Some(options.zero_copy).filter(|size| *size > 0 && zero_copy),
            loans: vec![None; HEADS].into_boxed_slice(),
            starved: false,
            relieved: false,
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

    /// Takes the completion of a message in.
    pub(super) fn on_completion(&mut self, head: usize, completion: &Completion) {
        let mut error = completion.result.err();
        if self.loans[head].is_some() && matches!(error, Some(libc::ENOMEM | libc::ENOBUFS)) {
            // The limit of locked memory (RLIMIT_MEMLOCK): the message is sent again, and copied.
            self.zero_copy = None;
            error = Some(libc::EINTR);
        }
        self.errors[head] = error.or(self.errors[head]);
        if let Some(loan) = &mut self.loans[head]
            && !completion.more
        {
            if loan.stage == Stage::Settled {
                self.end_loan(head);
            } else {
                loan.stage = Stage::Returned;
            }
        }
    }

    /// Returns whether large messages are not copied.
    pub(super) fn has_zero_copy(&self) -> bool {
        self.zero_copy.is_some()
    }

    /// Notes that there was no buffer for a datagram.
    pub(super) fn on_starved(&mut self) {
        self.starved = self.loans.iter().any(Option::is_some);
    }

    /// Notes the beginning of a transmission.
    pub(super) fn on_transmit(&mut self) {
        self.relieved = false;
    }

    /// Returns whether there may be a buffer again after there was none.
    pub(super) fn is_relieved(&self) -> bool {
        self.relieved
    }

    fn end_loan(&mut self, head: usize) {
        if let Some(loan) = self.loans[head].take() {
            self.lanes.release(loan.lane, loan.buffer);
            self.free.push(head);
            self.relieved |= std::mem::take(&mut self.starved);
        }
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
        self.submitted.iter().any(|heads| !heads.is_empty())
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
                let large = self.zero_copy.is_some_and(|size| batch.range().len() >= size);
                if large && self.free.len() >= UNLENT {
                    let buffer = batch.buffer();
                    ring.send_zero_copy(head, lane, batch)?;
                    self.lanes.hold(buffer);
                    self.loans[head] = Some(Loan { lane, buffer, stage: Stage::Submitted });
                } else {
                    ring.send(head, lane, batch)?;
                }
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
            while let Some(head) = self.submitted[lane].pop_front() {
                let outcome = self.errors[head].take().map_or(Ok(()), Err);
                match &mut self.loans[head] {
                    Some(loan) if loan.stage == Stage::Submitted => loan.stage = Stage::Settled,
                    Some(_) => self.end_loan(head),
                    None => {
                        if outcome.is_ok() {
                            ring.finish_sent(head);
                        }
                        self.free.push(head);
                    }
                }
                self.lanes.settle(lane, Keep::Last, outcome, counters, events);
            }
            self.lanes.rotate(lane, behind);
        }
    }
}
