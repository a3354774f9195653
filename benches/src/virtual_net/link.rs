//! One direction of the network: delay, rate and queue, loss.

use std::collections::VecDeque;
use std::time::Duration;

use sluicegate_cc::sim::{LossWindow, Rng};

/// Properties of one direction. Packets keep their order.
#[derive(Clone, Debug)]
pub struct Link {
    /// One way, without the time that the rate takes.
    pub delay: Duration,
    /// Bits per second; `None` is unlimited.
    pub rate: Option<u64>,
    /// Room before the rate, packet in service included. What does not fit is dropped.
    pub queue_bytes: u64,
    /// Random loss, by the time of departure.
    pub loss: Vec<LossWindow>,
}

impl Link {
    /// Any rate, no loss.
    pub const fn new(delay: Duration) -> Self {
        Self {
            delay,
            rate: None,
            queue_bytes: u64::MAX,
            loss: Vec::new(),
        }
    }
}

/// A link with packets on it. Times count from the start of the run.
#[derive(Debug)]
pub(super) struct Wire {
    link: Link,
    rng: Rng,
    /// When the rate has served everything accepted so far.
    free_at: Duration,
    /// Arrival and contents, in order of arrival.
    packets: VecDeque<(Duration, Vec<u8>)>,
    bytes: u64,
    /// Buffers for packets to come.
    spare: Vec<Vec<u8>>,
}

impl Wire {
    pub(super) const fn new(link: Link, rng: Rng) -> Self {
        Self {
            link,
            rng,
            free_at: Duration::ZERO,
            packets: VecDeque::new(),
            bytes: 0,
            spare: Vec::new(),
        }
    }

    /// Takes a packet that departs at `at`, never earlier than the one before it; it may get lost.
    pub(super) fn depart(&mut self, at: Duration, packet: &[u8]) {
        let size = packet.len() as u64;
        let loss = self
            .link
            .loss
            .iter()
            .find(|w| (w.from..w.until).contains(&at))
            .map_or(0.0, |w| w.probability);
        if self.rng.chance(loss) {
            return;
        }
        if let Some(rate) = self.link.rate {
            let waiting = bytes_at(rate, self.free_at.saturating_sub(at));
            if waiting + size > self.link.queue_bytes {
                return;
            }
            self.free_at = self.free_at.max(at) + time_at(rate, size);
        } else {
            self.free_at = self.free_at.max(at);
        }
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(packet);
        self.bytes += size;
        self.packets
            .push_back((self.free_at + self.link.delay, buffer));
    }

    pub(super) fn next_arrival(&self) -> Option<Duration> {
        self.packets.front().map(|&(at, _)| at)
    }

    /// A packet that arrived by `now`; give the buffer back with [`Wire::recycle`].
    pub(super) fn take_arrived(&mut self, now: Duration) -> Option<Vec<u8>> {
        if self.next_arrival()? > now {
            return None;
        }
        let (_, packet) = self.packets.pop_front()?;
        self.bytes -= packet.len() as u64;
        Some(packet)
    }

    pub(super) fn recycle(&mut self, buffer: Vec<u8>) {
        self.spare.push(buffer);
    }

    /// Bytes on the way.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// How long `rate` bits per second take for `bytes`.
fn time_at(rate: u64, bytes: u64) -> Duration {
    Duration::from_nanos(bytes.saturating_mul(8_000_000_000) / rate.max(1))
}

/// How many bytes `rate` bits per second serve in `time`.
fn bytes_at(rate: u64, time: Duration) -> u64 {
    let bits = time.as_nanos() * u128::from(rate) / 1_000_000_000;
    u64::try_from(bits / 8).unwrap_or(u64::MAX)
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
        let mut wire = Wire::new(Link::new(5 * MS), Rng::new(1));
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
        let mut wire = Wire::new(link, Rng::new(1));
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
        let mut wire = Wire::new(link, Rng::new(1));
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
        let mut wire = Wire::new(link, Rng::new(7));
        for _ in 0..10_000 {
            wire.depart(Duration::ZERO, &[0]);
        }
        let arrived = arrivals(&mut wire).len();
        assert!((6_800..7_200).contains(&arrived), "{arrived}");
    }
}
