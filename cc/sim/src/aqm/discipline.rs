//! What an AQM is: a queue that decides which packets leave, and when.

use std::fmt::Debug;

use sluicegate_cc::Time;

use crate::Rng;

/// ECN field of a packet that its sender set (RFC 3168 §5, RFC 9331 §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// Not capable of ECN.
    NotEct,
    /// Capable, with the classic response.
    Ect0,
    /// Capable, with the scalable response of L4S.
    Ect1,
}

/// A packet in a queue with AQM.
#[derive(Debug)]
pub struct QueuedPacket<T> {
    /// Number of its flow; small, because it is an index.
    pub flow: usize,
    /// Size, bytes.
    pub bytes: u64,
    /// ECN field.
    pub ecn: Ecn,
    /// Whether the AQM marked it Congestion Experienced.
    pub ce: bool,
    /// Arrival at the queue.
    pub arrived: Time,
    /// The packet itself.
    pub packet: T,
}

impl<T> QueuedPacket<T> {
    /// Marks the packet if `ecn` and the packet allow it; `None` drops it.
    pub(super) fn marked(mut self, ecn: bool) -> Option<Self> {
        self.ce = ecn && self.ecn != Ecn::NotEct;
        self.ce.then_some(self)
    }
}

/// A queue that an AQM manages. Calls come in order of time.
pub(crate) trait Discipline<T>: Debug + Send {
    /// Takes a packet at its arrival, or drops it.
    fn enqueue(&mut self, packet: QueuedPacket<T>, rng: &mut Rng);

    /// Returns the packet that leaves at `now`, and drops those that may not.
    fn dequeue(&mut self, now: Time) -> Option<QueuedPacket<T>>;

    /// Returns the bytes in the queue.
    fn bytes(&self) -> u64;

    /// Returns the packets in the queue.
    fn packets(&self) -> usize;
}

/// Packets and times for the tests of each AQM.
#[cfg(test)]
pub(super) mod fixture {
    use super::*;

    pub(in crate::aqm) const MS: u64 = 1_000_000;

    /// Returns the time this many milliseconds after the start.
    pub(in crate::aqm) const fn at(ms: u64) -> Time {
        Time::from_nanos(ms * MS)
    }

    /// Returns a packet of 1,000 bytes with that number.
    pub(in crate::aqm) fn packet(
        flow: usize,
        ecn: Ecn,
        arrived: Time,
        number: u64,
    ) -> QueuedPacket<u64> {
        QueuedPacket { flow, bytes: 1_000, ecn, ce: false, arrived, packet: number }
    }
}
