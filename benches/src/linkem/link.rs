//! The link: both directions, with packets on their way and counters. It has no clock and does no I/O.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use sluicegate_sim::{Bottleneck, Ecn};

use super::histogram::Histogram;
use super::packet::{Flow, ecn, mark_ce};
use crate::conventions::UP_SEED;
use crate::virtual_net::{InTransit, Wire};

/// Length of the intervals in which the bytes of flows are counted.
pub const INTERVAL: Duration = Duration::from_millis(100);

/// Flows of a direction that are told apart: as many as FQ-CoDel has queues by default (RFC 8290 §5.2.5).
const MOST_FLOWS: usize = 1_024;

/// An end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The end that receives data.
    Client,
    /// The end that receives requests and ACKs.
    Server,
}

impl End {
    /// Both ends.
    pub const BOTH: [Self; 2] = [Self::Client, Self::Server];
}

/// A link with packets on their way.
#[derive(Debug)]
pub struct Link {
    down: Direction,
    up: Direction,
}

impl Link {
    /// Returns a link with nothing on it: towards the client and towards the server. `seed` drives everything random.
    pub fn new(down: &Bottleneck, up: &Bottleneck, seed: u64) -> Self {
        Self { down: Direction::new(down, seed), up: Direction::new(up, seed ^ UP_SEED) }
    }

    /// Carries payloads instead of whole IP packets. All of them are one flow, and nothing is marked.
    #[must_use]
    pub(super) fn of_payloads(mut self) -> Self {
        for direction in [&mut self.down, &mut self.up] {
            direction.has_headers = false;
        }
        self
    }

    /// Returns the direction towards an end.
    pub const fn towards(&self, end: End) -> &Direction {
        match end {
            End::Client => &self.down,
            End::Server => &self.up,
        }
    }

    /// Returns the direction towards an end, for packets to enter and to leave.
    pub const fn towards_mut(&mut self, end: End) -> &mut Direction {
        match end {
            End::Client => &mut self.down,
            End::Server => &mut self.up,
        }
    }

    /// Returns when the next packet reaches its end.
    pub fn next_due(&self) -> Option<Duration> {
        let due = [&self.down, &self.up].map(|direction| direction.wire.next_arrival());
        due.into_iter().flatten().min()
    }
}

/// One direction of a link.
#[derive(Debug)]
pub struct Direction {
    wire: Wire,
    delay: Duration,
    /// Whether packets begin with the header of IP.
    has_headers: bool,
    /// Numbers of flows for the AQM, in the order in which they came. 0 is for all that is no flow. Flows after the first
    /// [`MOST_FLOWS`] share numbers with others.
    numbers: HashMap<Flow, usize>,
    tally: Tally,
}

/// Counters of a direction.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Packets that entered.
    pub entered: u64,
    /// Packets that reached the other end.
    pub delivered: u64,
    /// Bytes that entered.
    pub entered_bytes: u64,
    /// Bytes that reached the other end.
    pub delivered_bytes: u64,
    /// Packets marked Congestion Experienced.
    pub marked: u64,
    /// Time at which the first packet was due at the other end.
    pub first: Option<Duration>,
    /// Time at which the last one so far was.
    pub last: Duration,
    /// Delay of packets beyond that of propagation: mostly time in the queue.
    pub queueing: Histogram,
    /// Time from when packets were due until they were taken: the emulator's own error.
    pub late: Histogram,
    /// Bytes delivered of each of the first 1,024 flows in each [`INTERVAL`].
    pub flows: BTreeMap<Flow, Vec<u64>>,
}

impl Tally {
    /// Returns the mean rate between the first and the last delivery, bits per second; 0 if there are fewer than two.
    pub fn rate(&self) -> f64 {
        let time = self.last - self.first.unwrap_or(self.last);
        if time.is_zero() {
            return 0.0;
        }
        self.delivered_bytes as f64 * 8.0 / time.as_secs_f64()
    }

    fn deliver(&mut self, packet: &InTransit, flow: Option<Flow>, now: Duration, delay: Duration) {
        let bytes = packet.bytes.len() as u64;
        self.delivered += 1;
        self.delivered_bytes += bytes;
        self.first.get_or_insert(packet.arrives);
        self.last = packet.arrives;
        let travelled = packet.arrives.saturating_sub(packet.departed);
        self.queueing.add(travelled.saturating_sub(delay));
        self.late.add(now.saturating_sub(packet.arrives));
        if let Some(flow) = flow
            && (self.flows.len() < MOST_FLOWS || self.flows.contains_key(&flow))
        {
            let intervals = self.flows.entry(flow).or_default();
            let index = packet.arrives.as_nanos() / INTERVAL.as_nanos();
            let index = usize::try_from(index).unwrap_or(usize::MAX);
            if intervals.len() <= index {
                intervals.resize(index + 1, 0);
            }
            intervals[index] += bytes;
        }
    }
}

impl Direction {
    fn new(path: &Bottleneck, seed: u64) -> Self {
        Self {
            wire: Wire::new(path, seed),
            delay: path.delay,
            has_headers: true,
            numbers: HashMap::new(),
            tally: Tally::default(),
        }
    }

    /// Returns what it has counted.
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Returns how many packets never reach the other end: lost, policed, or without room in the queue.
    pub fn dropped(&self) -> u64 {
        self.tally.entered - self.tally.delivered - self.wire.packets()
    }

    /// Takes a packet that enters at `now`, never earlier than the one before it.
    pub fn enter(&mut self, now: Duration, packet: &[u8]) {
        self.tally.entered += 1;
        self.tally.entered_bytes += packet.len() as u64;
        let number = self.flow(packet).map_or(0, |flow| self.number(flow));
        let ecn = if self.has_headers { ecn(packet) } else { Ecn::NotEct };
        self.wire.depart_of(now, packet, number, ecn);
    }

    fn number(&mut self, flow: Flow) -> usize {
        let next = self.numbers.len() + 1;
        if next <= MOST_FLOWS {
            return *self.numbers.entry(flow).or_insert(next);
        }
        self.numbers.get(&flow).copied().unwrap_or_else(|| {
            let mut hasher = DefaultHasher::new();
            flow.hash(&mut hasher);
            1 + usize::try_from(hasher.finish() % MOST_FLOWS as u64).unwrap_or(0)
        })
    }

    fn flow(&self, packet: &[u8]) -> Option<Flow> {
        Flow::of(packet).filter(|_| self.has_headers)
    }

    /// Takes a packet that is due by `now`; give its buffer back with [`Direction::recycle`].
    pub fn take_due(&mut self, now: Duration) -> Option<Vec<u8>> {
        let mut packet = self.wire.take_delivery(now)?;
        let flow = self.flow(&packet.bytes);
        self.tally.deliver(&packet, flow, now, self.delay);
        if self.has_headers && packet.ce && mark_ce(&mut packet.bytes) {
            self.tally.marked += 1;
        }
        Some(packet.bytes)
    }

    /// Takes a buffer for packets to come.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.wire.recycle(buffer);
    }
}

#[cfg(test)]
mod tests;
