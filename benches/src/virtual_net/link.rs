//! One direction of the network: the simulator's bottleneck, with real packets.

use std::collections::VecDeque;
use std::iter;
use std::time::Duration;

use sluicegate_cc::Time;
use sluicegate_sim::{self as sim, BottleneckQueue, LossWindow, Policer, Reorder};

/// Properties of one direction.
#[derive(Clone, Debug)]
pub struct Link {
    /// One way, without the time that the rate takes.
    pub delay: Duration,
    /// Bits per second; `None` is unlimited.
    pub rate: Option<u64>,
    /// Rates that follow, each from its time on; ascending.
    pub later_rates: Vec<(Duration, u64)>,
    /// Room before the rate, packet in service included. What does not fit is dropped.
    pub queue_bytes: u64,
    /// Random loss, by the time of departure.
    pub loss: Vec<LossWindow>,
    /// Added to the delay, even over plus and minus this; order is kept.
    pub jitter: Duration,
    /// Random late arrivals.
    pub reorder: Option<Reorder>,
    /// A token bucket in front of the queue.
    pub policer: Option<Policer>,
    /// Packets are held back and come in batches this far apart.
    pub hold: Duration,
}

impl Link {
    /// Any rate, no loss.
    pub const fn new(delay: Duration) -> Self {
        Self {
            delay,
            rate: None,
            later_rates: Vec::new(),
            queue_bytes: u64::MAX,
            loss: Vec::new(),
            jitter: Duration::ZERO,
            reorder: None,
            policer: None,
            hold: Duration::ZERO,
        }
    }

    /// Both directions of a path of the simulator: towards the client, and back. Marks are not carried over, as the
    /// quiche has no use for them.
    pub fn pair(path: &sim::Bottleneck) -> (Self, Self) {
        let mut rates = path.rate.iter().copied();
        let down = Self {
            rate: rates.next().map(|(_, rate)| rate),
            later_rates: rates.collect(),
            queue_bytes: path.queue_bytes,
            loss: path.loss.clone(),
            jitter: path.jitter,
            reorder: path.reorder,
            policer: path.policer,
            ..Self::new(path.delay)
        };
        let up = Self {
            loss: path.ack_loss.clone(),
            hold: path.ack_hold,
            ..Self::new(path.delay)
        };
        (down, up)
    }

    fn bottleneck(&self, seed: u64) -> BottleneckQueue {
        let first = (Duration::ZERO, self.rate.unwrap_or(u64::MAX));
        let rate = iter::once(first).chain(self.later_rates.iter().copied());
        let link = sim::Bottleneck {
            rate: rate.collect(),
            delay: self.delay,
            jitter: self.jitter,
            queue_bytes: self.queue_bytes,
            loss: self.loss.clone(),
            reorder: self.reorder,
            policer: self.policer,
            ..sim::Bottleneck::new(u64::MAX, Duration::ZERO, 0.0)
        };
        BottleneckQueue::new(link, seed)
    }
}

/// A link with packets on it. Times count from the start of the run.
#[derive(Debug)]
pub(crate) struct Wire {
    bottleneck: BottleneckQueue,
    hold: Duration,
    /// Arrival and contents, in order of arrival.
    packets: VecDeque<(Duration, Vec<u8>)>,
    bytes: u64,
    burst: Burst,
    /// Buffers for packets to come.
    spare: Vec<Vec<u8>>,
}

/// Bytes that left at one instant.
#[derive(Debug, Default)]
struct Burst {
    at: Duration,
    bytes: u64,
    largest: u64,
}

impl Wire {
    /// An empty link; `seed` drives everything random on it.
    pub(crate) fn new(link: &Link, seed: u64) -> Self {
        Self {
            bottleneck: link.bottleneck(seed),
            hold: link.hold,
            packets: VecDeque::new(),
            bytes: 0,
            burst: Burst::default(),
            spare: Vec::new(),
        }
    }

    /// Takes a packet that departs at `at`, never earlier than the one before it; it may get lost.
    pub(crate) fn depart(&mut self, at: Duration, packet: &[u8]) {
        let size = packet.len() as u64;
        self.burst.add(at, size);
        let Some(delivery) = self.bottleneck.data(Time::ZERO + at, size) else {
            return;
        };
        let arrives = held(delivery.arrives.saturating_since(Time::ZERO), self.hold);
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(packet);
        self.bytes += size;
        let earlier = self.packets.iter().rev();
        let overtaken = earlier.take_while(|(at, _)| *at > arrives).count();
        let place = self.packets.len() - overtaken;
        self.packets.insert(place, (arrives, buffer));
    }

    pub(crate) fn next_arrival(&self) -> Option<Duration> {
        self.packets.front().map(|&(at, _)| at)
    }

    /// A packet that arrived by `now`; give the buffer back with [`Wire::recycle`].
    pub(crate) fn take_arrived(&mut self, now: Duration) -> Option<Vec<u8>> {
        if self.next_arrival()? > now {
            return None;
        }
        let (_, packet) = self.packets.pop_front()?;
        self.bytes -= packet.len() as u64;
        Some(packet)
    }

    pub(crate) fn recycle(&mut self, buffer: Vec<u8>) {
        self.spare.push(buffer);
    }

    /// Bytes on the way.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Most bytes that left at one instant since this was asked last.
    pub(crate) fn take_burst(&mut self) -> u64 {
        std::mem::take(&mut self.burst.largest)
    }
}

impl Burst {
    fn add(&mut self, at: Duration, bytes: u64) {
        if self.at != at {
            self.bytes = 0;
        }
        self.at = at;
        self.bytes += bytes;
        self.largest = self.largest.max(self.bytes);
    }
}

/// The end of the holding time that `arrives` falls into.
fn held(arrives: Duration, hold: Duration) -> Duration {
    if hold.is_zero() {
        return arrives;
    }
    let late = arrives.as_nanos() % hold.as_nanos();
    if late == 0 {
        return arrives;
    }
    let late = Duration::from_nanos(u64::try_from(late).unwrap_or(0));
    arrives + hold - late
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn arrivals(wire: &mut Wire) -> Vec<Duration> {
        let mut times = Vec::new();
        while let Some(at) = wire.next_arrival() {
            let packet = wire.take_arrived(at).expect("due");
            wire.recycle(packet);
            times.push(at);
        }
        times
    }

    #[test]
    fn packet_arrives_after_the_delay_and_not_before() {
        let mut wire = Wire::new(&Link::new(5 * MS), 1);
        wire.depart(MS, &[1, 2, 3]);
        assert_eq!((wire.next_arrival(), wire.bytes()), (Some(6 * MS), 3));
        assert_eq!(wire.take_arrived(6 * MS - Duration::from_nanos(1)), None);
        assert_eq!(wire.take_arrived(6 * MS), Some(vec![1, 2, 3]));
        assert_eq!(wire.bytes(), 0);
    }

    #[test]
    fn rate_spaces_packets_and_a_full_queue_drops() {
        // A thousand bytes take a millisecond.
        let link = Link {
            rate: Some(8_000_000),
            queue_bytes: 3_000,
            ..Link::new(5 * MS)
        };
        let mut wire = Wire::new(&link, 1);
        for _ in 0..4 {
            wire.depart(Duration::ZERO, &[0; 1_000]);
        }
        wire.depart(MS, &[0; 1_000]);
        assert_eq!(arrivals(&mut wire), [6 * MS, 7 * MS, 8 * MS, 9 * MS]);
    }

    #[test]
    fn loss_happens_within_its_time_only() {
        let window = LossWindow {
            from: MS,
            until: 2 * MS,
            probability: 1.0,
        };
        let link = Link {
            loss: vec![window],
            ..Link::new(Duration::ZERO)
        };
        let mut wire = Wire::new(&link, 1);
        for at in [Duration::ZERO, MS, 2 * MS] {
            wire.depart(at, &[0]);
        }
        assert_eq!(arrivals(&mut wire), [Duration::ZERO, 2 * MS]);
    }

    #[test]
    fn losses_follow_the_probability() {
        let window = LossWindow {
            from: Duration::ZERO,
            until: MS,
            probability: 0.3,
        };
        let link = Link {
            loss: vec![window],
            ..Link::new(Duration::ZERO)
        };
        let mut wire = Wire::new(&link, 7);
        for _ in 0..10_000 {
            wire.depart(Duration::ZERO, &[0]);
        }
        let arrived = arrivals(&mut wire).len();
        assert!((6_800..7_200).contains(&arrived), "{arrived}");
    }

    #[test]
    fn overtaken_packets_arrive_after_those_that_left_later() {
        let reorder = Some(Reorder {
            probability: 0.5,
            by: 3 * MS,
        });
        let link = Link {
            reorder,
            ..Link::new(5 * MS)
        };
        let mut wire = Wire::new(&link, 1);
        for at in 0..20 {
            wire.depart(at * MS, &[u8::try_from(at).expect("small")]);
        }
        let mut order = Vec::new();
        while let Some(at) = wire.next_arrival() {
            order.extend(wire.take_arrived(at));
        }
        assert_eq!(order.len(), 20);
        assert!(!order.is_sorted(), "{order:?}");
    }

    #[test]
    fn held_packets_come_in_batches() {
        let link = Link {
            hold: 10 * MS,
            ..Link::new(5 * MS)
        };
        let mut wire = Wire::new(&link, 1);
        for at in [0, 4, 5, 6] {
            wire.depart(at * MS, &[0]);
        }
        assert_eq!(arrivals(&mut wire), [10 * MS, 10 * MS, 10 * MS, 20 * MS]);
    }

    #[test]
    fn burst_counts_what_leaves_at_one_instant() {
        let mut wire = Wire::new(&Link::new(MS), 1);
        for (at, size) in [(1, 100), (1, 200), (2, 250)] {
            wire.depart(at * MS, &vec![0; size]);
        }
        assert_eq!((wire.take_burst(), wire.take_burst()), (300, 0));
    }
}
