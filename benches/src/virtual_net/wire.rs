//! One direction of the network: the simulator's bottleneck, with real packets.

use std::collections::VecDeque;
use std::time::Duration;

use sluicegate_cc::Time;
use sluicegate_sim::{AqmQueue, Bottleneck, BottleneckQueue, Delivery, Ecn, QueuedPacket};

/// Returns both directions of a path of the simulator, each as a path of its own: towards the client, and back.
pub(crate) fn directions(path: &Bottleneck) -> (Bottleneck, Bottleneck) {
    let down = Bottleneck {
        ack_hold: Duration::ZERO,
        ack_path: None,
        ..path.clone()
    };
    let mut up = Bottleneck {
        delay_steps: path.delay_steps.clone(),
        loss: path.ack_loss.clone(),
        ack_hold: path.ack_hold,
        ..Bottleneck::unlimited(path.delay)
    };
    if let Some(ack_path) = path.ack_path {
        up.rate = vec![(Duration::ZERO, ack_path.bits_per_second)];
        up.queue_bytes = ack_path.queue_bytes;
    }
    (down, up)
}

/// A bottleneck with packets on their way through it. Times count from the start of the run.
#[derive(Debug)]
pub(crate) struct Wire {
    bottleneck: BottleneckQueue,
    /// The queue, where there is an AQM.
    aqm: Option<AqmQueue<Vec<u8>>>,
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
            aqm: AqmQueue::of(path),
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
        let now = Time::ZERO + at;
        if let Some(aqm) = &mut self.aqm {
            let packet = QueuedPacket {
                flow: 0,
                bytes: size,
                // Real packets' ECN fields are not looked at.
                ecn: Ecn::NotEct,
                ce: false,
                arrived: now,
                packet: copy(&mut self.spare, packet),
            };
            aqm.enqueue(&mut self.bottleneck, packet);
            self.serve(now);
        } else if let Some(delivery) = self.bottleneck.data(now, size) {
            let packet = copy(&mut self.spare, packet);
            self.insert(at, packet, delivery);
        }
    }

    /// Sends what the AQM lets go at `now`.
    fn serve(&mut self, now: Time) {
        while let Some(aqm) = &mut self.aqm
            && let Some((queued, delivery)) = aqm.dequeue(&mut self.bottleneck, now)
        {
            let departed = queued.arrived.saturating_since(Time::ZERO);
            self.insert(departed, queued.packet, delivery);
        }
    }

    fn insert(&mut self, departed: Duration, packet: Vec<u8>, delivery: Delivery) {
        let arrives = self.bottleneck.held(delivery.arrives);
        let arrives = arrives.saturating_since(Time::ZERO);
        self.bytes += packet.len() as u64;
        let earlier = self.packets.iter().rev();
        let overtaken = earlier.take_while(|packet| packet.arrives > arrives);
        let place = self.packets.len() - overtaken.count();
        let packet = InTransit {
            departed,
            arrives,
            ce: delivery.ce,
            bytes: packet,
        };
        self.packets.insert(place, packet);
    }

    /// Returns when to call [`Wire::take_arrived`] next: at the next arrival, or when the AQM sends.
    pub(crate) fn next_arrival(&self) -> Option<Duration> {
        let departure = self.aqm.as_ref().and_then(AqmQueue::next_departure);
        let departure = departure.map(|at| at.saturating_since(Time::ZERO));
        let arrival = self.packets.front().map(|packet| packet.arrives);
        [departure, arrival].into_iter().flatten().min()
    }

    /// Takes a packet that arrived by `now`; give the buffer back with [`Wire::recycle`].
    pub(crate) fn take_arrived(&mut self, now: Duration) -> Option<Vec<u8>> {
        self.take_delivery(now).map(|packet| packet.bytes)
    }

    /// Takes a packet that arrived by `now`, with its times; give the buffer back with [`Wire::recycle`].
    pub(crate) fn take_delivery(&mut self, now: Duration) -> Option<InTransit> {
        self.serve(Time::ZERO + now);
        if self.packets.front()?.arrives > now {
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
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes + self.aqm.as_ref().map_or(0, AqmQueue::bytes)
    }

    /// Returns the packets on the way, without those that wait at an AQM.
    pub(crate) fn packets(&self) -> u64 {
        self.packets.len() as u64
    }

    /// Returns the most bytes that left at one instant since the last call.
    pub(crate) fn take_burst(&mut self) -> u64 {
        std::mem::take(&mut self.burst.largest)
    }
}

/// Returns a copy of the packet, in a spare buffer if there is one.
fn copy(spare: &mut Vec<Vec<u8>>, packet: &[u8]) -> Vec<u8> {
    let mut buffer = spare.pop().unwrap_or_default();
    buffer.clear();
    buffer.extend_from_slice(packet);
    buffer
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
    use sluicegate_sim::{AckPath, Aqm, LossWindow, Reorder};

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

    #[test]
    fn aqm_sends_at_the_rate_and_drops_what_waits_too_long() {
        // A thousand bytes take a millisecond, and each comes with half of another.
        let path = Bottleneck {
            rate: vec![(Duration::ZERO, 8_000_000)],
            aqm: Some(Aqm::CoDel { ecn: true }),
            ..Bottleneck::unlimited(5 * MS)
        };
        let mut wire = Wire::new(&path, 1);
        let mut times = Vec::new();
        for at in 0..1_000 {
            let now = at * MS;
            while wire.next_arrival().is_some_and(|at| at <= now) {
                let at = wire.next_arrival().expect("there is one");
                if wire.take_arrived(at).is_some() {
                    times.push(at);
                }
            }
            wire.depart(now, &[0; 1_000]);
            wire.depart(now, &[0; 500]);
        }
        assert_eq!(times[0], 6 * MS);
        let mean = (times[times.len() - 1] - times[0]) / u32::try_from(times.len()).expect("few");
        assert!((730..770).contains(&mean.as_micros()), "{mean:?}");
        let arrived = times.len() as u64 * 750 + wire.bytes();
        assert!(arrived < 1_495_000, "nothing was dropped: {arrived}");
    }

    #[test]
    fn way_back_has_its_own_rate_and_queue() {
        let path = Bottleneck {
            ack_path: Some(AckPath {
                bits_per_second: 80_000,
                queue_bytes: 200,
                ack_bytes: 50,
            }),
            delay_steps: vec![(15 * MS, 9 * MS)],
            ..Bottleneck::unlimited(5 * MS)
        };
        let (down, up) = directions(&path);
        let (mut down, mut up) = (Wire::new(&down, 1), Wire::new(&up, 1));
        for _ in 0..3 {
            up.depart(Duration::ZERO, &[0; 100]);
            down.depart(Duration::ZERO, &[0; 100]);
        }
        assert_eq!(arrivals(&mut up), [15 * MS, 29 * MS]);
        assert_eq!(arrivals(&mut down), [5 * MS; 3]);
    }
}
