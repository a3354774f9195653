//! Sending: one `sendmsg` per batch, cut into datagrams by the kernel.

use std::os::fd::AsFd;

use super::socket::Socket;
use crate::counters::Counters;
use crate::egress::{Egress, NoRoom};
use crate::event::Events;
use crate::lanes::{self, Keep, Lanes};
use crate::meta::{Budget, ListenerId, TxMeta};
use crate::sys;

/// Buffers that a listener can hold: a batch without room in the kernel, and the one that was open behind it.
const SHARE: usize = 2;

pub(super) struct Transmitter {
    buffers: Box<[Box<[u8]>]>,
    pub(super) lanes: Lanes,
}

impl Transmitter {
    pub(super) fn new(sockets: &[Socket]) -> Self {
        let count = Lanes::buffers(SHARE, sockets.len());
        let listeners = sockets.iter().map(|s| (s.binding.listener(), s.binding.gso()));
        let buffer = || vec![0; lanes::BUFFER].into_boxed_slice();
        Self {
            buffers: std::iter::repeat_with(buffer).take(count).collect(),
            lanes: Lanes::new(count, listeners),
        }
    }
}

/// One transmission.
pub(super) struct Emission<'a> {
    pub(super) tx: &'a mut Transmitter,
    pub(super) sockets: &'a [Socket],
    pub(super) counters: &'a mut Counters,
    pub(super) events: &'a mut Events,
    pub(super) budget: Budget,
}

impl Emission<'_> {
    /// Sends everything that was committed, as far as the kernel takes it.
    pub(super) fn flush(&mut self) {
        for lane in 0..self.sockets.len() {
            self.tx.lanes.close(lane);
            self.send(lane);
        }
    }

    /// Sends the closed batches of a lane until there is no room.
    fn send(&mut self, lane: usize) {
        let Self { tx: Transmitter { buffers, lanes }, sockets, counters, events, .. } = self;
        while let Some(batch) = lanes.batch(lane, 0) {
            let sent = sys::send(
                sockets[lane].binding.as_fd(),
                batch.name(),
                batch.control(),
                &buffers[batch.buffer()][batch.range()],
            );
            let outcome = sent.map(drop).map_err(|error| error.raw_os_error().unwrap_or(0));
            lanes.settle(lane, Keep::First, outcome, counters, events);
        }
    }
}

impl Egress for Emission<'_> {
    fn room(&mut self, listener: ListenerId, size: usize) -> Result<&mut [u8], NoRoom> {
        if self.budget.is_spent() {
            return Err(NoRoom::Budget);
        }
        let lane = self.tx.lanes.find(listener)?;
        if self.tx.lanes.is_blocked(lane) {
            return Err(NoRoom::Blocked);
        }
        let mut place = self.tx.lanes.room(lane, size);
        if place.is_none() {
            self.tx.lanes.close(lane);
            self.send(lane);
            place = self.tx.lanes.room(lane, size);
        }
        let place = place.ok_or(NoRoom::Blocked)?;
        Ok(&mut self.tx.buffers[place.buffer][place.range])
    }

    fn commit(&mut self, len: usize, meta: &TxMeta) {
        self.budget.spend(len);
        if let Some(lane) = self.tx.lanes.commit(len, meta, self.counters) {
            self.send(lane);
        }
    }
}
