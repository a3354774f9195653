//! A dataplane around a dataplane that loses, doubles, shuffles, damages and cuts datagrams: for tests, by a seed.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use crate::{Caps, Counters, Dataplane, RxMeta, Transmitted, TxMeta, Waker};

/// How often a datagram meets each fate: parts per thousand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// It never arrives.
    pub loss: u16,
    /// It arrives twice.
    pub duplicate: u16,
    /// It arrives after up to [`Faults::MAX_DELAY`] later ones, or when no later one comes.
    pub reorder: u16,
    /// One of its bits is flipped.
    pub corrupt: u16,
    /// Its end is missing; at least one byte and its address stay.
    pub truncate: u16,
}

impl Faults {
    /// How many datagrams may overtake a delayed one.
    pub const MAX_DELAY: u64 = 8;
}

/// What happened to datagrams in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fates {
    /// Went in.
    pub seen: u64,
    /// Lost.
    pub lost: u64,
    /// Doubled.
    pub duplicated: u64,
    /// Held back.
    pub reordered: u64,
    /// Damaged.
    pub corrupted: u64,
    /// Cut.
    pub truncated: u64,
}

/// A dataplane with faults in either direction. GSO and GRO buffers are taken apart: each datagram has its own fate, and
/// none comes with others.
#[derive(Debug)]
pub struct Fault<D> {
    inner: D,
    rx: Channel<RxMeta>,
    tx: Channel<TxMeta>,
    buffer: Box<[u8]>,
}

impl<D: Dataplane> Fault<D> {
    /// Puts faults around `inner`. The same seed and the same datagrams make the same faults.
    pub fn new(inner: D, rx: Faults, tx: Faults, seed: u64) -> Self {
        let buffer = vec![0; inner.caps().max_transmit].into_boxed_slice();
        Self {
            inner,
            rx: Channel::new(rx, seed),
            tx: Channel::new(tx, !seed),
            buffer,
        }
    }

    /// What happened to received datagrams.
    pub fn rx_fates(&self) -> Fates {
        self.rx.fates
    }

    /// What happened to transmitted datagrams.
    pub fn tx_fates(&self) -> Fates {
        self.tx.fates
    }

    /// Hands the queue of transmitted datagrams on; true where the inner driver takes no more.
    fn flush(&mut self) -> io::Result<bool> {
        let ready = &mut self.tx.ready;
        let spare = &mut self.tx.spare;
        let transmitted = self.inner.transmit(ready.len(), |buffer| {
            let (meta, bytes) = ready.pop_front()?;
            let len = bytes.len();
            buffer[..len].copy_from_slice(&bytes);
            recycle(spare, bytes);
            Some(TxMeta {
                len,
                segment: len,
                ..meta
            })
        })?;
        Ok(transmitted.blocked)
    }
}

impl<D: Dataplane> Dataplane for Fault<D> {
    fn caps(&self) -> Caps {
        Caps {
            gro: false,
            ..self.inner.caps()
        }
    }

    fn receive(
        &mut self,
        budget: usize,
        mut sink: impl FnMut(&RxMeta, &mut [u8]),
    ) -> io::Result<usize> {
        let rx = &mut self.rx;
        let wanted = budget.saturating_sub(rx.ready.len());
        let fresh = self.inner.receive(wanted, |meta, buffer| {
            rx.push_all(meta, buffer, meta.stride);
        })?;
        if fresh == 0 && rx.ready.is_empty() {
            rx.release();
        }
        let count = budget.min(rx.ready.len());
        for (meta, mut bytes) in rx.ready.drain(..count) {
            let stride = bytes.len();
            sink(&RxMeta { stride, ..meta }, &mut bytes);
            recycle(&mut rx.spare, bytes);
        }
        Ok(count)
    }

    fn transmit(
        &mut self,
        budget: usize,
        mut fill: impl FnMut(&mut [u8]) -> Option<TxMeta>,
    ) -> io::Result<Transmitted> {
        let mut transmitted = Transmitted {
            buffers: 0,
            blocked: self.flush()?,
        };
        while !transmitted.blocked && transmitted.buffers < budget {
            let Some(meta) = fill(&mut self.buffer) else {
                break;
            };
            transmitted.buffers += 1;
            let len = meta.len.min(self.buffer.len());
            self.tx.push_all(&meta, &self.buffer[..len], meta.segment);
            transmitted.blocked = self.flush()?;
        }
        if transmitted.buffers == 0 && !transmitted.blocked {
            self.tx.release();
            transmitted.blocked = self.flush()?;
        }
        Ok(transmitted)
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        // Nobody else would wake up for what is held back here.
        let busy = self.rx.holds() || self.tx.holds();
        self.inner
            .wait(if busy { Some(Duration::ZERO) } else { timeout })
    }

    fn waker(&self) -> Waker {
        self.inner.waker()
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}

/// One direction.
#[derive(Debug)]
struct Channel<M> {
    faults: Faults,
    fates: Fates,
    random: u64,
    ready: VecDeque<(M, Vec<u8>)>,
    /// Delayed datagrams, each with how many may still overtake it.
    held: Vec<(u64, M, Vec<u8>)>,
    /// Emptied buffers, to be filled again.
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

    fn push_all(&mut self, meta: &M, bytes: &[u8], size: usize) {
        if bytes.is_empty() {
            self.push(meta, bytes);
        }
        for datagram in bytes.chunks(size.max(1)) {
            self.push(meta, datagram);
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

    /// One more datagram has overtaken those held back; the patient ones become ready.
    fn overtake(&mut self) {
        for (left, _, _) in &mut self.held {
            *left -= 1;
        }
        for (_, meta, bytes) in self.held.extract_if(.., |(left, _, _)| *left == 0) {
            self.ready.push_back((meta, bytes));
        }
    }

    /// Nothing comes that could overtake: what is held back becomes ready.
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

    /// Evenly below `limit`, by SplitMix64 (Steele, Lea, Flood 2014).
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
