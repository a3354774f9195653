//! A dataplane around a dataplane that loses, duplicates, reorders, corrupts and truncates datagrams: for tests, by a seed.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use crate::batch::MAX_TRANSMIT;
use crate::contract::Dataplane;
use crate::counters::Counters;
use crate::egress::{Egress, NoRoom};
use crate::event::Event;
use crate::initials::InitialFilter;
use crate::meta::{Budget, ListenerId, RxMeta, TxMeta};
use crate::waker::Waker;

/// Probability of each fault, per datagram, in parts per thousand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Share that is lost.
    pub loss: u16,
    /// Share that is duplicated.
    pub duplicate: u16,
    /// Share that is delayed until up to [`Faults::MAX_DELAY`] later ones have overtaken it, or no later one comes.
    pub reorder: u16,
    /// Share in which one bit is flipped.
    pub corrupt: u16,
    /// Share that is truncated, to one byte or more.
    pub truncate: u16,
}

impl Faults {
    /// Number of datagrams that may overtake a delayed one.
    pub const MAX_DELAY: u64 = 8;
}

/// Number of datagrams in one direction that met each fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fates {
    /// All datagrams.
    pub seen: u64,
    /// Datagrams lost.
    pub lost: u64,
    /// Datagrams duplicated.
    pub duplicated: u64,
    /// Datagrams delayed.
    pub reordered: u64,
    /// Datagrams corrupted.
    pub corrupted: u64,
    /// Datagrams truncated.
    pub truncated: u64,
}

/// A dataplane with faults in either direction. Each datagram has its own fate.
#[derive(Debug)]
pub struct Fault<D> {
    inner: D,
    rx: Channel<RxMeta>,
    tx: Channel<(ListenerId, TxMeta)>,
    /// Room lent for the next datagram.
    room: Box<[u8]>,
}

impl<D: Dataplane> Fault<D> {
    /// Puts faults around `inner`. The same seed and the same datagrams make the same faults.
    pub fn new(inner: D, rx: Faults, tx: Faults, seed: u64) -> Self {
        Self {
            inner,
            rx: Channel::new(rx, seed),
            tx: Channel::new(tx, !seed),
            room: vec![0; MAX_TRANSMIT].into_boxed_slice(),
        }
    }

    /// Returns what happened to received datagrams.
    pub fn rx_fates(&self) -> Fates {
        self.rx.fates
    }

    /// Returns what happened to transmitted datagrams.
    pub fn tx_fates(&self) -> Fates {
        self.tx.fates
    }

    /// Hands transmitted datagrams to the inner driver, as far as it takes them.
    fn flush(&mut self) -> io::Result<()> {
        let Channel { ready, spare, .. } = &mut self.tx;
        self.inner.transmit(Budget::UNLIMITED, |out| {
            // What one listener has no room for must not stop the others.
            for _ in 0..ready.len() {
                let Some(((listener, meta), bytes)) = ready.pop_front() else {
                    return;
                };
                match out.room(listener, bytes.len()) {
                    Ok(room) => {
                        room.copy_from_slice(&bytes);
                        out.commit(bytes.len(), &meta);
                        recycle(spare, bytes);
                    }
                    Err(NoRoom::Unknown) => recycle(spare, bytes),
                    Err(NoRoom::Blocked | NoRoom::Budget) => {
                        ready.push_back(((listener, meta), bytes));
                    }
                }
            }
        })
    }
}

impl<D: Dataplane> Dataplane for Fault<D> {
    fn backend(&self) -> &'static str {
        self.inner.backend()
    }

    fn receive(
        &mut self,
        mut budget: Budget,
        mut sink: impl FnMut(&RxMeta, &mut [u8]),
    ) -> io::Result<usize> {
        let rx = &mut self.rx;
        let wanted = budget.datagrams.saturating_sub(rx.ready.len());
        let wanted = Budget::new(wanted, budget.bytes);
        let fresh = self.inner.receive(wanted, |meta, datagram| rx.push(meta, datagram))?;
        if fresh == 0 && rx.ready.is_empty() {
            rx.release();
        }
        let before = budget.datagrams;
        while !budget.is_spent() {
            let Some((meta, mut bytes)) = rx.ready.pop_front() else {
                break;
            };
            budget.spend(bytes.len());
            sink(&meta, &mut bytes);
            recycle(&mut rx.spare, bytes);
        }
        Ok(before - budget.datagrams)
    }

    fn transmit<R>(
        &mut self,
        budget: Budget,
        emit: impl FnOnce(&mut dyn Egress) -> R,
    ) -> io::Result<R> {
        self.flush()?;
        let seen = self.tx.fates.seen;
        let result = emit(&mut Emission {
            full: !self.tx.ready.is_empty(),
            tx: &mut self.tx,
            room: &mut self.room,
            budget,
            lent: None,
        });
        if self.tx.fates.seen == seen {
            self.tx.release();
        }
        self.flush()?;
        Ok(result)
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        // Nothing else would end the sleep for what is delayed here.
        let busy = self.rx.holds() || self.tx.holds();
        self.inner.wait(if busy { Some(Duration::ZERO) } else { timeout })
    }

    fn filter_initials(&mut self, filter: Option<&InitialFilter>) -> io::Result<()> {
        self.inner.filter_initials(filter)
    }

    fn take_event(&mut self) -> Option<Event> {
        self.inner.take_event()
    }

    fn waker(&self) -> Waker {
        self.inner.waker()
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}

/// One transmission.
struct Emission<'a> {
    tx: &'a mut Channel<(ListenerId, TxMeta)>,
    room: &'a mut [u8],
    budget: Budget,
    /// The inner driver did not take all of the last transmission.
    full: bool,
    /// Listener that the lent room is for, and its size.
    lent: Option<(ListenerId, usize)>,
}

impl Egress for Emission<'_> {
    fn room(&mut self, listener: ListenerId, size: usize) -> Result<&mut [u8], NoRoom> {
        if self.budget.is_spent() {
            return Err(NoRoom::Budget);
        }
        if self.full {
            return Err(NoRoom::Blocked);
        }
        let size = size.min(self.room.len());
        self.lent = Some((listener, size));
        Ok(&mut self.room[..size])
    }

    fn commit(&mut self, len: usize, meta: &TxMeta) {
        self.budget.spend(len);
        let lent = self.lent.take().filter(|(_, size)| len <= *size);
        debug_assert!(lent.is_some(), "{len} bytes were committed without room");
        if let Some((listener, _)) = lent {
            self.tx.push(&(listener, *meta), &self.room[..len]);
        }
    }
}

/// One direction of a faulty dataplane.
#[derive(Debug)]
struct Channel<M> {
    faults: Faults,
    fates: Fates,
    random: u64,
    ready: VecDeque<(M, Vec<u8>)>,
    /// Delayed datagrams, each with how many may still overtake it.
    held: Vec<(u64, M, Vec<u8>)>,
    /// Empty buffers, kept to be filled again.
    spare: Vec<Vec<u8>>,
}

impl<M: Copy> Channel<M> {
    fn new(faults: Faults, seed: u64) -> Self {
        Self {
            faults,
            fates: Fates::default(),
            random: seed,
            ready: VecDeque::new(),
            held: Vec::new(),
            spare: Vec::new(),
        }
    }

    fn push(&mut self, meta: &M, datagram: &[u8]) {
        self.fates.seen += 1;
        self.overtake();
        if self.happens(self.faults.loss) {
            self.fates.lost += 1;
            return;
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.extend_from_slice(datagram);
        if !bytes.is_empty() && self.happens(self.faults.corrupt) {
            self.fates.corrupted += 1;
            let bit = self.below(bytes.len() as u64 * 8);
            let at = usize::try_from(bit / 8).unwrap_or(0);
            bytes[at] ^= 1 << (bit % 8);
        }
        if bytes.len() > 1 && self.happens(self.faults.truncate) {
            self.fates.truncated += 1;
            let len = 1 + self.below(bytes.len() as u64 - 1);
            bytes.truncate(usize::try_from(len).unwrap_or(1));
        }
        if self.happens(self.faults.duplicate) {
            self.fates.duplicated += 1;
            let mut copy = self.spare.pop().unwrap_or_default();
            copy.extend_from_slice(&bytes);
            self.ready.push_back((*meta, copy));
        }
        if self.happens(self.faults.reorder) {
            self.fates.reordered += 1;
            let delay = 1 + self.below(Faults::MAX_DELAY);
            self.held.push((delay, *meta, bytes));
        } else {
            self.ready.push_back((*meta, bytes));
        }
    }

    /// Counts one more datagram that overtook the delayed ones, and makes those ready that were overtaken often enough.
    fn overtake(&mut self) {
        for (left, _, _) in &mut self.held {
            *left -= 1;
        }
        for (_, meta, bytes) in self.held.extract_if(.., |(left, _, _)| *left == 0) {
            self.ready.push_back((meta, bytes));
        }
    }

    /// Makes all delayed datagrams ready, because no later one comes that could overtake them.
    fn release(&mut self) {
        let held = self.held.drain(..).map(|(_, meta, bytes)| (meta, bytes));
        self.ready.extend(held);
    }

    fn holds(&self) -> bool {
        !self.ready.is_empty() || !self.held.is_empty()
    }

    fn happens(&mut self, per_mille: u16) -> bool {
        per_mille > 0 && self.below(1000) < u64::from(per_mille)
    }

    /// Returns a number below `limit`, evenly distributed, by SplitMix64 (Steele, Lea, Flood 2014).
    fn below(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit.max(1)
    }
}

fn recycle(spare: &mut Vec<Vec<u8>>, mut bytes: Vec<u8>) {
    bytes.clear();
    spare.push(bytes);
}

#[cfg(test)]
mod tests;
