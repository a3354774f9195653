//! The receiver: counts what arrived and acknowledges it.

use std::collections::VecDeque;
use std::time::Duration;

use sluicegate_cc::{EcnCounts, Time};

use super::application::Reader;
use super::aqm::Ecn;
use super::flow::Flow;

/// An ACK: everything that had arrived when it left.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckFrame {
    /// Arrivals so far, in order of arrival; which packets they were stands in the receiver's log.
    pub(super) arrivals: u64,
    pub(super) largest: u64,
    pub(super) ack_delay: Duration,
    /// ECN counts so far.
    pub(super) ecn: EcnCounts,
    /// Limit of flow control, bytes from the start of the data.
    pub(super) data_limit: u64,
}

/// One flow's receiver.
#[derive(Debug)]
pub(super) struct Receiver {
    ack_every: u32,
    max_ack_delay: Duration,
    reader: Option<Reader>,
    mtu: u64,
    /// ECN field with which every packet left.
    sent_as: Ecn,
    /// Packet numbers in order of arrival, without those that an ACK has brought to the sender.
    log: VecDeque<u64>,
    log_start: u64,
    largest: Option<u64>,
    largest_at: Time,
    ecn: EcnCounts,
    unacknowledged: u32,
    ack_due: Option<Time>,
    chunks: Vec<bool>,
    distinct: u64,
}

impl Receiver {
    /// Returns a receiver of a flow's datagrams. Without a `reader` there is no flow control.
    pub(super) fn new(flow: &Flow, reader: Option<Reader>) -> Self {
        Self {
            ack_every: flow.ack_every,
            max_ack_delay: flow.max_ack_delay,
            reader,
            mtu: flow.mtu,
            sent_as: flow.ecn,
            log: VecDeque::new(),
            log_start: 0,
            largest: None,
            largest_at: Time::ZERO,
            ecn: EcnCounts::NONE,
            unacknowledged: 0,
            ack_due: None,
            chunks: Vec::new(),
            distinct: 0,
        }
    }

    /// Takes a packet with its part of the data and returns whether an ACK is due at once.
    pub(super) fn on_data(&mut self, now: Time, number: u64, chunk: usize, ce: bool) -> bool {
        self.log.push_back(number);
        match self.sent_as {
            _ if ce => self.ecn.ce += 1,
            Ecn::Ect0 => self.ecn.ect0 += 1,
            Ecn::Ect1 => self.ecn.ect1 += 1,
            Ecn::NotEct => {}
        }
        if self.chunks.len() <= chunk {
            self.chunks.resize(chunk + 1, false);
        }
        if let Some(seen) = self.chunks.get_mut(chunk)
            && !*seen
        {
            *seen = true;
            self.distinct += 1;
        }
        let in_order = self.largest.map_or(number == 0, |largest| number == largest + 1);
        if self.largest.is_none_or(|largest| number > largest) {
            self.largest = Some(number);
            self.largest_at = now;
        }
        self.unacknowledged += 1;
        if !in_order || ce || self.unacknowledged >= self.ack_every {
            return true;
        }
        self.ack_due.get_or_insert(now + self.max_ack_delay);
        false
    }

    /// Returns when an ACK is due though no packet comes.
    pub(super) const fn ack_due(&self) -> Option<Time> {
        self.ack_due
    }

    /// Returns the ACK to send now.
    pub(super) fn take_ack(&mut self, now: Time) -> Option<AckFrame> {
        self.unacknowledged = 0;
        self.ack_due = None;
        let received = self.distinct * self.mtu;
        let reader = self.reader.as_mut();
        Some(AckFrame {
            data_limit: reader.map_or(u64::MAX, |reader| reader.limit(now, received)),
            arrivals: self.log_start + self.log.len() as u64,
            largest: self.largest?,
            ack_delay: now.saturating_since(self.largest_at),
            ecn: self.ecn,
        })
    }

    /// Returns the next of the first `arrivals` packets that no ACK has reported.
    pub(super) fn next_reported(&mut self, arrivals: u64) -> Option<u64> {
        if self.log_start >= arrivals {
            return None;
        }
        self.log_start += 1;
        self.log.pop_front()
    }

    /// Returns the datagrams of data that arrived, each counted once.
    pub(super) const fn distinct(&self) -> u64 {
        self.distinct
    }
}
