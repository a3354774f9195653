//! Sending: a chain of messages per system call, in order, none of which waits.
//!
//! A message that finds no room fails and cancels those behind it; they stay in the queue and go again, in order, when
//! the socket has room.

use std::collections::VecDeque;
use std::io;

use super::{Ring, Socket};
use crate::egress::{Outgoing, Progress};
use crate::{Counters, DriverOptions, TxMeta};

pub(super) struct Transmitter {
    /// Filled slots in the order in which they were filled.
    queue: VecDeque<Queued>,
    free: Vec<usize>,
    /// Per slot, what its message came to.
    results: Box<[Option<Result<usize, i32>>]>,
    /// Messages submitted and not completed.
    under_way: usize,
    /// The first of the queue found no room, and none was reported since.
    blocked: bool,
    /// Room is watched for.
    watching: bool,
}

struct Queued {
    slot: usize,
    outgoing: Outgoing,
}

/// What came of [`Transmitter::fill`].
pub(super) struct Filled {
    pub(super) buffers: usize,
    /// The caller has nothing more.
    pub(super) dry: bool,
}

impl Transmitter {
    pub(super) fn new(options: &DriverOptions) -> Self {
        let slots = options.tx_slots.max(1);
        Self {
            queue: VecDeque::with_capacity(slots),
            free: (0..slots).rev().collect(),
            results: vec![None; slots].into_boxed_slice(),
            under_way: 0,
            blocked: false,
            watching: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn under_way(&self) -> usize {
        self.under_way
    }

    pub(super) fn must_wait(&self) -> bool {
        self.blocked
    }

    /// A blocked transmission can go on.
    pub(super) fn can_go_on(&self) -> bool {
        !self.blocked && !self.queue.is_empty()
    }

    pub(super) fn on_writable(&mut self) {
        self.blocked = false;
        self.watching = false;
    }

    pub(super) fn on_sent(&mut self, slot: usize, result: Result<usize, i32>) {
        self.under_way -= 1;
        self.results[slot] = Some(result);
    }

    /// Asks to be told of room, where it is missing.
    pub(super) fn watch(&mut self, ring: &mut Ring) -> io::Result<()> {
        if let (true, false, Some(first)) = (self.blocked, self.watching, self.queue.front()) {
            ring.watch_writable(first.outgoing.socket)?;
            self.watching = true;
        }
        Ok(())
    }

    /// Lends free slots to `fill`, `budget` at most.
    pub(super) fn fill(
        &mut self,
        ring: &mut Ring,
        sockets: &[Socket],
        counters: &mut Counters,
        budget: usize,
        mut fill: impl FnMut(&mut [u8]) -> Option<TxMeta>,
    ) -> Filled {
        let mut buffers = 0;
        while let (true, Some(&slot)) = (buffers < budget, self.free.last()) {
            let payload = ring.slots().payload(slot);
            let room = payload.len();
            let Some(meta) = fill(payload) else {
                return Filled { buffers, dry: true };
            };
            buffers += 1;
            let socket = sockets
                .iter()
                .position(|s| s.binding.listener() == meta.listener);
            match socket {
                Some(index) if meta.len <= room => {
                    self.free.pop();
                    let outgoing = Outgoing::new(meta, index, sockets[index].gso, counters);
                    self.queue.push_back(Queued { slot, outgoing });
                }
                _ => counters.tx_errors += 1,
            }
        }
        Filled {
            buffers,
            dry: false,
        }
    }

    /// Submits the next message of everything in the queue.
    pub(super) fn submit(&mut self, ring: &mut Ring) -> io::Result<()> {
        let last = self.queue.len().saturating_sub(1);
        for (index, queued) in self.queue.iter().enumerate() {
            ring.send(queued.slot, &queued.outgoing, index < last)?;
            self.under_way += 1;
        }
        Ok(())
    }

    /// Works off what everything in the queue came to.
    pub(super) fn settle(
        &mut self,
        sockets: &mut [Socket],
        counters: &mut Counters,
    ) -> io::Result<()> {
        for _ in 0..self.queue.len() {
            let Some(mut queued) = self.queue.pop_front() else {
                break;
            };
            let gso = &mut sockets[queued.outgoing.socket].gso;
            let progress = match self.results[queued.slot].take() {
                Some(Ok(_)) => queued.outgoing.on_sent(gso, counters),
                None | Some(Err(libc::ECANCELED)) => Progress::Ready,
                Some(Err(code)) => {
                    let error = io::Error::from_raw_os_error(code);
                    queued.outgoing.on_error(error, gso, counters)
                }
            };
            match progress {
                Progress::Finished => {
                    self.free.push(queued.slot);
                    continue;
                }
                Progress::Ready => {}
                Progress::Blocked => self.blocked = true,
                Progress::Broken(error) => return Err(error),
            }
            self.queue.push_back(queued);
        }
        Ok(())
    }
}
