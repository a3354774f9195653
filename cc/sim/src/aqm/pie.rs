//! PIE (RFC 8033): drops at random on arrival, with a probability that holds the delay at a reference.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::time::Duration;

use sluicegate_cc::Time;

use super::discipline::{Discipline, QueuedPacket};
use crate::Rng;

/// Delay to hold (RFC 8033 §4.4).
const REFERENCE: Duration = Duration::from_millis(15);
/// Time between updates of the probability.
const UPDATE: Duration = Duration::from_millis(15);
/// Length of a burst that passes without drops.
const MAX_BURST: Duration = Duration::from_millis(150);
/// Weight of the deviation from the reference, per second (RFC 8033 §4.2).
const ALPHA: f64 = 0.125;
/// Weight of the delay's change, per second.
const BETA: f64 = 1.25;
/// Probability above which packets are dropped though they could be marked (RFC 8033 §5.1).
const MARK_BELOW: f64 = 0.1;
/// Probabilities below which the weights are divided (RFC 8033 §4.2).
const SCALES: [(f64, f64); 6] =
    [(1e-6, 2_048.0), (1e-5, 512.0), (1e-4, 128.0), (1e-3, 32.0), (1e-2, 8.0), (1e-1, 2.0)];

/// One queue with PIE.
#[derive(Debug)]
pub(super) struct Pie<T> {
    packets: VecDeque<QueuedPacket<T>>,
    bytes: u64,
    limit: u64,
    ecn: bool,
    probability: f64,
    /// The head's delay at the last update.
    delay: Duration,
    burst: Duration,
    next_update: Time,
}

impl<T> Pie<T> {
    pub(super) const fn new(limit: u64, ecn: bool) -> Self {
        Self {
            packets: VecDeque::new(),
            bytes: 0,
            limit,
            ecn,
            probability: 0.0,
            delay: Duration::ZERO,
            burst: MAX_BURST,
            next_update: Time::ZERO,
        }
    }

    /// Makes the updates that are due. Between calls the queue does not change, so they may be made late.
    fn catch_up(&mut self, now: Time) {
        while self.next_update <= now {
            let at = self.next_update;
            let head = self.packets.front();
            let delay = head.map_or(Duration::ZERO, |p| at.saturating_since(p.arrived));
            self.update(delay);
            self.next_update = at + UPDATE;
        }
    }

    fn update(&mut self, delay: Duration) {
        let before = std::mem::replace(&mut self.delay, delay);
        let (now, was) = (delay.as_secs_f64(), before.as_secs_f64());
        let change = ALPHA * (now - REFERENCE.as_secs_f64()) + BETA * (now - was);
        let scale = SCALES.iter().find(|(below, _)| self.probability < *below);
        let mut change = change / scale.map_or(1.0, |(_, divisor)| *divisor);
        if self.probability >= 0.1 {
            change = change.min(0.02);
        }
        self.probability += change;
        if delay.is_zero() && before.is_zero() {
            self.probability *= 1.0 - 1.0 / 64.0;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        self.burst = self.burst.saturating_sub(UPDATE);
        if self.probability == 0.0 && delay < REFERENCE / 2 && before < REFERENCE / 2 {
            self.burst = MAX_BURST;
        }
    }

    /// Returns whether the packet that arrives is one to drop.
    fn strikes(&self, bytes: u64, rng: &mut Rng) -> bool {
        let spared = self.delay < REFERENCE / 2 && self.probability < 0.2;
        self.burst.is_zero() && !spared && self.bytes > 2 * bytes && rng.chance(self.probability)
    }
}

impl<T: Debug + Send> Discipline<T> for Pie<T> {
    fn enqueue(&mut self, packet: QueuedPacket<T>, rng: &mut Rng) {
        self.catch_up(packet.arrived);
        if self.bytes + packet.bytes > self.limit {
            return;
        }
        let kept = if self.strikes(packet.bytes, rng) {
            packet.marked(self.ecn && self.probability < MARK_BELOW)
        } else {
            Some(packet)
        };
        if let Some(packet) = kept {
            self.bytes += packet.bytes;
            self.packets.push_back(packet);
        }
    }

    fn dequeue(&mut self, now: Time) -> Option<QueuedPacket<T>> {
        self.catch_up(now);
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.bytes;
        Some(packet)
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn packets(&self) -> usize {
        self.packets.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::discipline::Ecn;
    use super::super::discipline::fixture::{at, packet};
    use super::*;

    /// Offers a packet each `arrives` µs to a link that sends one each 1,000 µs, for `seconds`, and returns the share lost
    /// and the mean delay, milliseconds, of the second half.
    fn load(ecn: Ecn, arrives: u64, seconds: u64) -> (f64, f64, u64) {
        let mut queue = Pie::new(1 << 20, true);
        let mut rng = Rng::new(1);
        let (mut offered, mut passed, mut delays, mut marked) = (0.0, 0.0, 0.0, 0);
        let mut next = 0;
        for now in 0..seconds * 1_000 {
            while next <= now * 1_000 {
                let arrived = Time::from_nanos(next * 1_000);
                queue.enqueue(packet(0, ecn, arrived, 0), &mut rng);
                offered += f64::from(u8::from(now >= seconds * 500));
                next += arrives;
            }
            let Some(taken) = queue.dequeue(at(now)) else {
                continue;
            };
            marked += u64::from(taken.ce);
            if now >= seconds * 500 {
                passed += 1.0;
                delays += at(now).saturating_since(taken.arrived).as_secs_f64() * 1e3;
            }
        }
        (1.0 - passed / offered, delays / passed, marked)
    }

    #[test]
    fn overload_is_dropped_and_the_delay_held_at_the_reference() {
        let (lost, delay, marked) = load(Ecn::NotEct, 900, 60);
        assert!((lost - 0.1).abs() < 0.02, "{lost}");
        assert!((10.0..=25.0).contains(&delay), "{delay}");
        assert_eq!(marked, 0);
    }

    #[test]
    fn link_below_its_rate_drops_nothing() {
        let (lost, delay, _) = load(Ecn::NotEct, 1_100, 10);
        assert!(lost < 1e-3 && delay < 2.0, "{lost}, {delay}");
    }

    #[test]
    fn burst_of_150_ms_passes() {
        let mut queue = Pie::new(1 << 20, false);
        for ms in 0..=140 {
            for number in 0..4 {
                queue.enqueue(packet(0, Ecn::NotEct, at(ms), number), &mut Rng::new(ms));
            }
            queue.dequeue(at(ms));
        }
        assert_eq!(queue.bytes(), 1_000 * 3 * 141);
    }

    #[test]
    fn marks_up_to_a_tenth_and_drops_above() {
        let (lost, _, marked) = load(Ecn::Ect0, 950, 5);
        assert!(marked > 0, "{lost}");
        let mut queue = Pie::new(1 << 20, true);
        (queue.probability, queue.burst) = (1.0, Duration::ZERO);
        queue.next_update = at(1_000);
        queue.delay = REFERENCE;
        for number in 0..10 {
            queue.enqueue(packet(0, Ecn::Ect0, at(0), number), &mut Rng::new(0));
        }
        assert_eq!(queue.bytes(), 3_000, "three are there before anything is dropped");
    }

    #[test]
    fn small_probabilities_change_in_small_steps() {
        let mut queue: Pie<u64> = Pie::new(1 << 20, false);
        queue.delay = 2 * REFERENCE;
        // α · 15 ms, over 2,048.
        queue.update(2 * REFERENCE);
        assert!((queue.probability - 0.125 * 0.015 / 2_048.0).abs() < 1e-12);
        queue.probability = 0.5;
        queue.update(20 * REFERENCE);
        assert!((queue.probability - 0.52).abs() < 1e-12, "never above 2 %");
    }
}
