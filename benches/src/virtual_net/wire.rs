//! One direction of the network: the simulator's bottleneck, with real packets.

use std::collections::VecDeque;
use std::time::Duration;

use sluicegate_cc::Time;
use sluicegate_sim::{Bottleneck, BottleneckQueue};

/// Returns both directions of a path of the simulator, each as a path of its own: towards the client, and back.
pub(crate) fn directions(path: &Bottleneck) -> (Bottleneck, Bottleneck) {
    let down = Bottleneck {
        ack_hold: Duration::ZERO,
        ..path.clone()
    };
    let up = Bottleneck {
        loss: path.ack_loss.clone(),
        ack_hold: path.ack_hold,
        ..Bottleneck::unlimited(path.delay)
    };
    (down, up)
}

/// A bottleneck with packets on their way through it. Times count from the start of the run.
#[derive(Debug)]
pub(crate) struct Wire {
    bottleneck: BottleneckQueue,
    /// Packets on the way, in order of arrival.
    packets: VecDeque<InTransit>,
    bytes: u64,
    burst: Burst,
    /// Buffers for packets to come.
    spare: Vec<Vec<u8>>,
}

/// A packet that the wire carries or has delivered.
#[derive(Debug)]
pub(crate) struct InTransit {
    /// Time at which the packet entered.
    pub(crate) departed: Duration,
    /// Time at which it reaches the other end.
    pub(crate) arrives: Duration,
    /// Whether the bottleneck marked it Congestion Experienced. Its bytes are as they were.
    pub(crate) ce: bool,
    /// Contents.
    pub(crate) bytes: Vec<u8>,
}

/// Bytes that left at one instant.
#[derive(Debug, Default)]
struct Burst {
    at: Duration,
    bytes: u64,
    largest: u64,
}

impl Wire {
    /// Returns a direction without packets; `seed` drives everything random on it.
    pub(crate) fn new(path: &Bottleneck, seed: u64) -> Self {
        Self {
            bottleneck: BottleneckQueue::new(path.clone(), seed),
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
        let arrives = self.bottleneck.held(delivery.arrives);
        let arrives = arrives.saturating_since(Time::ZERO);
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(packet);
        self.bytes += size;
        let earlier = self.packets.iter().rev();
        let overtaken = earlier.take_while(|packet| packet.arrives > arrives);
        let place = self.packets.len() - overtaken.count();
        let packet = InTransit {
            departed: at,
            arrives,
            ce: delivery.ce,
            bytes: buffer,
        };
        self.packets.insert(place, packet);
    }

    pub(crate) fn next_arrival(&self) -> Option<Duration> {
        self.packets.front().map(|packet| packet.arrives)
    }

    /// Takes a packet that arrived by `now`; give the buffer back with [`Wire::recycle`].
    pub(crate) fn take_arrived(&mut self, now: Duration) -> Option<Vec<u8>> {
        self.take_delivery(now).map(|packet| packet.bytes)
    }

    /// Takes a packet that arrived by `now`, with its times; give the buffer back with [`Wire::recycle`].
    pub(crate) fn take_delivery(&mut self, now: Duration) -> Option<InTransit> {
        if self.next_arrival()? > now {
            return None;
        }
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.bytes.len() as u64;
        Some(packet)
    }

    pub(crate) fn recycle(&mut self, buffer: Vec<u8>) {
        self.spare.push(buffer);
    }

    /// Returns the bytes on the way.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the packets on the way.
    pub(crate) fn packets(&self) -> u64 {
        self.packets.len() as u64
    }

    /// Returns the most bytes that left at one instant since the last call.
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

#[cfg(test)]
mod tests {
    use sluicegate_sim::{LossWindow, Reorder};

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
        let mut wire = Wire::new(&Bottleneck::unlimited(5 * MS), 1);
        wire.depart(MS, &[1, 2, 3]);
        assert_eq!((wire.next_arrival(), wire.bytes()), (Some(6 * MS), 3));
        assert_eq!(wire.take_arrived(6 * MS - Duration::from_nanos(1)), None);
        assert_eq!(wire.take_arrived(6 * MS), Some(vec![1, 2, 3]));
        assert_eq!(wire.bytes(), 0);
    }

    #[test]
    fn rate_spaces_packets_and_a_full_queue_drops() {
        // A thousand bytes take a millisecond.
        let path = Bottleneck {
            rate: vec![(Duration::ZERO, 8_000_000)],
            queue_bytes: 3_000,
            ..Bottleneck::unlimited(5 * MS)
        };
        let mut wire = Wire::new(&path, 1);
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
        let path = Bottleneck {
            loss: vec![window],
            ..Bottleneck::unlimited(Duration::ZERO)
        };
        let mut wire = Wire::new(&path, 1);
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
        let path = Bottleneck {
            loss: vec![window],
            ..Bottleneck::unlimited(Duration::ZERO)
        };
        let mut wire = Wire::new(&path, 7);
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
        let path = Bottleneck {
            reorder,
            ..Bottleneck::unlimited(5 * MS)
        };
        let mut wire = Wire::new(&path, 1);
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
        let path = Bottleneck {
            ack_hold: 10 * MS,
            ..Bottleneck::unlimited(5 * MS)
        };
        let mut wire = Wire::new(&path, 1);
        for at in [0, 4, 5, 6] {
            wire.depart(at * MS, &[0]);
        }
        assert_eq!(arrivals(&mut wire), [10 * MS, 10 * MS, 10 * MS, 20 * MS]);
    }

    #[test]
    fn delivery_has_its_times_and_its_mark() {
        let path = Bottleneck {
            rate: vec![(Duration::ZERO, 8_000_000)],
            ce_above: Some(500),
            ..Bottleneck::unlimited(5 * MS)
        };
        let mut wire = Wire::new(&path, 1);
        for _ in 0..2 {
            wire.depart(MS, &[0; 1_000]);
        }
        let mut next = || wire.take_delivery(8 * MS).expect("due");
        let first = next();
        assert_eq!((first.departed, first.arrives), (MS, 7 * MS));
        let second = next();
        assert_eq!((second.departed, second.arrives), (MS, 8 * MS));
        assert_eq!((first.ce, second.ce), (false, true));
    }

    #[test]
    fn burst_counts_what_leaves_at_one_instant() {
        let mut wire = Wire::new(&Bottleneck::unlimited(MS), 1);
        for (at, size) in [(1, 100), (1, 200), (2, 250)] {
            wire.depart(at * MS, &vec![0; size]);
        }
        assert_eq!((wire.take_burst(), wire.take_burst()), (300, 0));
    }
}
