//! DualPI2 (RFC 9332 appendix A): a queue for classic and one for scalable congestion control, whose signals are coupled.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::time::Duration;

use sluicegate_cc::Time;

use super::discipline::{Discipline, Ecn, QueuedPacket};
use crate::Rng;

/// Delay to hold in the classic queue.
const TARGET: Duration = Duration::from_millis(15);
/// Time between updates of the probability.
const UPDATE: Duration = Duration::from_millis(16);
/// Integral gain, per second: a tenth of the update time over the square of 100 ms.
const ALPHA: f64 = 0.16;
/// Proportional gain, per second.
const BETA: f64 = 3.2;
/// Coupling factor.
const COUPLING: f64 = 2.0;
/// Delay at which the low-latency queue begins to mark, and at which it marks everything.
const RAMP: (Duration, Duration) = (Duration::from_micros(800), Duration::from_micros(1_200));
/// Bytes that the low-latency queue sends for each of the classic queue where both have packets.
const LOW_LATENCY_SHARE: u64 = 15;

/// Both queues.
#[derive(Debug)]
pub(super) struct DualPi2<T> {
    classic: Queue<T>,
    low_latency: Queue<T>,
    limit: u64,
    /// The controller's output p′: coupled to the low-latency queue linearly, to the classic one by its square.
    base: f64,
    /// The longer delay of both heads at the last update.
    delay: Duration,
    next_update: Time,
}

#[derive(Debug)]
struct Queue<T> {
    packets: VecDeque<QueuedPacket<T>>,
    bytes: u64,
    /// Bytes sent since one of the queues was empty.
    sent: u64,
    /// Signals that are due, a fraction of one.
    due: f64,
}

impl<T> Queue<T> {
    const fn new() -> Self {
        Self { packets: VecDeque::new(), bytes: 0, sent: 0, due: 0.0 }
    }

    fn pop(&mut self) -> Option<QueuedPacket<T>> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.bytes;
        self.sent += packet.bytes;
        Some(packet)
    }

    /// Returns how long the head has waited.
    fn delay(&self, now: Time) -> Duration {
        let head = self.packets.front();
        head.map_or(Duration::ZERO, |p| now.saturating_since(p.arrived))
    }

    /// Returns true for this share of the calls, evenly spaced.
    fn signals(&mut self, probability: f64) -> bool {
        self.due += probability;
        let now = self.due > 1.0;
        self.due -= f64::from(u8::from(now));
        now
    }
}

impl<T> DualPi2<T> {
    pub(super) const fn new(limit: u64) -> Self {
        Self {
            classic: Queue::new(),
            low_latency: Queue::new(),
            limit,
            base: 0.0,
            delay: Duration::ZERO,
            next_update: Time::ZERO,
        }
    }

    /// Makes the updates that are due. Between calls the queues do not change, so they may be made late.
    fn catch_up(&mut self, now: Time) {
        while self.next_update <= now {
            let at = self.next_update;
            let delay = self.classic.delay(at).max(self.low_latency.delay(at));
            self.update(delay);
            self.next_update = at + UPDATE;
        }
    }

    fn update(&mut self, delay: Duration) {
        let before = std::mem::replace(&mut self.delay, delay).as_secs_f64();
        let now = delay.as_secs_f64();
        let change = ALPHA * (now - TARGET.as_secs_f64()) + BETA * (now - before);
        self.base = (self.base + change).clamp(0.0, 1.0);
    }

    /// Returns whether the low-latency queue's turn has come; both have packets.
    fn low_latency_turn(&self) -> bool {
        self.low_latency.sent <= LOW_LATENCY_SHARE * self.classic.sent
    }

    fn take_low_latency(&mut self, now: Time) -> Option<QueuedPacket<T>> {
        let delay = self.low_latency.delay(now);
        let coupled = COUPLING * self.base;
        let mut packet = self.low_latency.pop()?;
        // On a slow link the one before may take longer to send than the ramp allows for: Th_len is a packet.
        let own = if self.low_latency.packets.is_empty() { 0.0 } else { ramp(delay) };
        // Overload: marking has reached its end, so there are drops, as in the classic queue.
        if coupled >= 1.0 && self.low_latency.signals(self.base * self.base) {
            return None;
        }
        packet.ce = coupled >= 1.0 || self.low_latency.signals(own.max(coupled));
        Some(packet)
    }

    fn take_classic(&mut self) -> Option<QueuedPacket<T>> {
        let packet = self.classic.pop()?;
        if self.classic.signals(self.base * self.base) {
            let overload = COUPLING * self.base >= 1.0;
            return packet.marked(!overload);
        }
        Some(packet)
    }
}

/// Returns the low-latency queue's own probability of marks.
fn ramp(delay: Duration) -> f64 {
    let (from, until) = RAMP;
    let above = delay.saturating_sub(from).as_secs_f64();
    (above / (until - from).as_secs_f64()).min(1.0)
}

impl<T: Debug + Send> Discipline<T> for DualPi2<T> {
    fn enqueue(&mut self, packet: QueuedPacket<T>, _: &mut Rng) {
        self.catch_up(packet.arrived);
        if self.bytes() + packet.bytes > self.limit {
            return;
        }
        let queue = if packet.ecn == Ecn::Ect1 { &mut self.low_latency } else { &mut self.classic };
        queue.bytes += packet.bytes;
        queue.packets.push_back(packet);
    }

    fn dequeue(&mut self, now: Time) -> Option<QueuedPacket<T>> {
        self.catch_up(now);
        while self.bytes() > 0 {
            let (classic, low_latency) = (self.classic.bytes > 0, self.low_latency.bytes > 0);
            if !(classic && low_latency) {
                (self.classic.sent, self.low_latency.sent) = (0, 0);
            }
            let packet = if low_latency && (!classic || self.low_latency_turn()) {
                self.take_low_latency(now)
            } else {
                self.take_classic()
            };
            if packet.is_some() {
                return packet;
            }
        }
        None
    }

    fn bytes(&self) -> u64 {
        self.classic.bytes + self.low_latency.bytes
    }

    fn packets(&self) -> usize {
        self.classic.packets.len() + self.low_latency.packets.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::discipline::fixture::{at, packet};
    use super::*;

    fn enqueue(queue: &mut DualPi2<u64>, ecn: Ecn, ms: u64) {
        queue.enqueue(packet(0, ecn, at(ms), ms), &mut Rng::new(0));
    }

    #[test]
    fn controller_follows_the_gains_of_the_rfc() {
        // The head arrives at 24 ms and waits 8, 24, 40 ms and so on at the updates from 32 ms on.
        let mut queue = DualPi2::new(1 << 20);
        enqueue(&mut queue, Ecn::Ect0, 24);
        for (update, wanted) in [(2, 0.02448), (3, 0.07712), (4, 0.13232), (5, 0.19008)] {
            queue.catch_up(at(16 * update));
            assert!((queue.base - wanted).abs() < 1e-9, "{}", queue.base);
        }
    }

    #[test]
    fn classic_signals_are_the_square_and_scalable_ones_twice_the_base() {
        for (ecn, share) in [(Ecn::Ect0, 0.04), (Ecn::Ect1, 0.4)] {
            let mut queue = DualPi2::new(1 << 30);
            queue.next_update = at(1_000_000);
            queue.base = 0.2;
            let marks = (0..10_000).filter(|_| {
                enqueue(&mut queue, ecn, 0);
                queue.dequeue(at(0)).expect("is marked, not dropped").ce
            });
            let marks = marks.count() as f64 / 1e4;
            assert!((marks - share).abs() < 1e-3, "{marks}");
        }
    }

    #[test]
    fn packets_without_ecn_are_dropped_where_others_are_marked() {
        let mut queue = DualPi2::new(1 << 30);
        queue.next_update = at(1_000_000);
        queue.base = 0.2;
        let passed = (0..10_000).filter(|_| {
            enqueue(&mut queue, Ecn::NotEct, 0);
            queue.dequeue(at(0)).is_some()
        });
        let passed = passed.count();
        assert!((9_599..=9_601).contains(&passed), "{passed}");
    }

    #[test]
    fn low_latency_queue_marks_by_its_own_delay() {
        for (micros, wanted) in [(700, 0.0), (1_000, 0.5), (1_300, 1.0)] {
            assert!((ramp(Duration::from_micros(micros)) - wanted).abs() < 1e-9);
        }
    }

    #[test]
    fn packet_that_nothing_waits_behind_gets_no_mark_of_its_queue() {
        let mut queue = DualPi2::new(1 << 30);
        queue.next_update = at(1_000_000);
        queue.low_latency.due = 0.5;
        for _ in 0..3 {
            enqueue(&mut queue, Ecn::Ect1, 0);
        }
        let marks = [0; 3].map(|_| queue.dequeue(at(2)).expect("has packets").ce);
        assert_eq!(marks, [true, true, false]);
    }

    #[test]
    fn low_latency_queue_goes_first_and_leaves_a_sixteenth() {
        let mut queue = DualPi2::new(1 << 30);
        queue.next_update = at(1_000_000);
        for _ in 0..200 {
            enqueue(&mut queue, Ecn::Ect0, 0);
            enqueue(&mut queue, Ecn::Ect1, 0);
        }
        assert_eq!(queue.dequeue(at(0)).expect("has packets").ecn, Ecn::Ect1);
        let sent: Vec<_> = (1..160).filter_map(|_| queue.dequeue(at(0))).collect();
        let classic = sent.iter().filter(|p| p.ecn == Ecn::Ect0).count();
        assert_eq!(classic, 10);
    }

    #[test]
    fn overload_drops_in_both_queues() {
        for ecn in [Ecn::Ect0, Ecn::Ect1] {
            let mut queue = DualPi2::new(1 << 30);
            queue.next_update = at(1_000_000);
            queue.base = 0.5;
            let passed = (0..1_000).filter(|_| {
                enqueue(&mut queue, ecn, 0);
                queue.dequeue(at(0)).is_some()
            });
            let passed = passed.count();
            assert!((749..=751).contains(&passed), "{ecn:?}: {passed}");
        }
    }
}
