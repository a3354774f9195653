//! A drop-tail queue before a link. Departures are known on arrival.

use std::collections::VecDeque;
use std::time::Duration;

use sluicegate_cc::Time;

use super::transmitter::Transmitter;

/// Packets that wait for a link, and the one in service.
#[derive(Debug)]
pub(super) struct Fifo {
    transmitter: Transmitter,
    limit: u64,
    /// Departure and size of each packet.
    waiting: VecDeque<(Time, u64)>,
    bytes: u64,
}

impl Fifo {
    /// Returns an empty queue with room for `limit` bytes, and for two packets at least.
    pub(super) const fn new(rate: Vec<(Duration, u64)>, limit: u64) -> Self {
        Self { transmitter: Transmitter::new(rate), limit, waiting: VecDeque::new(), bytes: 0 }
    }

    /// Takes a packet and returns when it has left; `None` if there is no room.
    pub(super) fn push(&mut self, now: Time, bytes: u64) -> Option<Time> {
        if self.bytes(now).saturating_add(bytes) > self.limit.max(2 * bytes) {
            return None;
        }
        let departs = self.transmitter.send(now, bytes);
        self.waiting.push_back((departs, bytes));
        self.bytes += bytes;
        Some(departs)
    }

    /// Returns the bytes in the queue at `now`, the packet in service included.
    pub(super) fn bytes(&mut self, now: Time) -> u64 {
        while let Some(&(departs, bytes)) = self.waiting.front()
            && departs <= now
        {
            self.bytes -= bytes;
            self.waiting.pop_front();
        }
        self.bytes
    }
}
