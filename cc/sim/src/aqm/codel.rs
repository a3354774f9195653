//! CoDel (RFC 8289): drops when the smallest delay of an interval stays above a target, ever more often while it does.

use std::collections::VecDeque;
use std::time::Duration;

use sluicegate_cc::Time;

use super::discipline::{Discipline, QueuedPacket};
use crate::Rng;

/// Acceptable standing delay (RFC 8289 §4.4).
const TARGET: Duration = Duration::from_millis(5);
/// About the longest round trip that is usual (RFC 8289 §4.3).
const INTERVAL: Duration = Duration::from_millis(100);

/// One queue with CoDel.
#[derive(Debug)]
pub(super) struct CoDel<T> {
    packets: VecDeque<QueuedPacket<T>>,
    bytes: u64,
    limit: u64,
    ecn: bool,
    /// Size of the largest packet so far.
    largest: u64,
    /// Time at which the delay will have been above the target for an interval; `None` while it is not above it.
    above_until: Option<Time>,
    dropping: bool,
    drop_next: Time,
    /// Drops in this period of dropping.
    count: u32,
    /// The count with which this period of dropping began.
    first_count: u32,
}

impl<T> CoDel<T> {
    pub(super) const fn new(limit: u64, ecn: bool) -> Self {
        Self {
            packets: VecDeque::new(),
            bytes: 0,
            limit,
            ecn,
            largest: 0,
            above_until: None,
            dropping: false,
            drop_next: Time::ZERO,
            count: 0,
            first_count: 0,
        }
    }

    pub(super) fn push(&mut self, packet: QueuedPacket<T>) {
        self.largest = self.largest.max(packet.bytes);
        self.bytes += packet.bytes;
        self.packets.push_back(packet);
    }

    /// Removes the packet at the head, whatever its delay.
    pub(super) fn pop(&mut self) -> Option<QueuedPacket<T>> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.bytes;
        Some(packet)
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the packet that leaves at `now`.
    pub(super) fn take(&mut self, now: Time) -> Option<QueuedPacket<T>> {
        let (mut packet, mut late) = self.next(now);
        if self.dropping {
            self.dropping = late;
            while self.dropping && now >= self.drop_next {
                self.count += 1;
                if let Some(marked) = packet?.marked(self.ecn) {
                    self.drop_next = self.drop_next + spacing(self.count);
                    return Some(marked);
                }
                (packet, late) = self.next(now);
                if late {
                    self.drop_next = self.drop_next + spacing(self.count);
                }
                self.dropping = late;
            }
        } else if late {
            let marked = packet?.marked(self.ecn);
            self.start_dropping(now);
            return marked.or_else(|| self.next(now).0);
        }
        packet
    }

    /// Begins a period of dropping, at the rate of the last one if that ended shortly before.
    fn start_dropping(&mut self, now: Time) {
        self.dropping = true;
        let dropped = self.count - self.first_count;
        let recent = now.saturating_since(self.drop_next) < 16 * INTERVAL;
        self.count = if recent { dropped.max(1) } else { 1 };
        self.first_count = self.count;
        self.drop_next = now + spacing(self.count);
    }

    /// Returns the packet at the head, and whether the delay was above the target for an interval.
    fn next(&mut self, now: Time) -> (Option<QueuedPacket<T>>, bool) {
        let packet = self.pop();
        let delay = packet.as_ref().map(|p| now.saturating_since(p.arrived));
        if delay.is_none_or(|delay| delay < TARGET) || self.bytes <= self.largest {
            self.above_until = None;
            return (packet, false);
        }
        let until = *self.above_until.get_or_insert(now + INTERVAL);
        (packet, now >= until)
    }
}

/// Returns the time until the next drop (RFC 8289 §3.2): the interval over the square root of the drops.
fn spacing(count: u32) -> Duration {
    INTERVAL.div_f64(f64::from(count).sqrt())
}

impl<T: std::fmt::Debug + Send> Discipline<T> for CoDel<T> {
    fn enqueue(&mut self, packet: QueuedPacket<T>, _: &mut Rng) {
        if self.bytes + packet.bytes <= self.limit {
            self.push(packet);
        }
    }

    fn dequeue(&mut self, now: Time) -> Option<QueuedPacket<T>> {
        self.take(now)
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

    /// Keeps the delay at `delay` for `ms` milliseconds, a packet a millisecond, and returns the times of the signals.
    fn signals(ecn: Ecn, delay: u64, ms: u64) -> Vec<u64> {
        let mut queue = CoDel::new(1 << 20, true);
        let mut signals = Vec::new();
        let mut expected = 0;
        for now in 0..ms {
            queue.push(packet(0, ecn, at(now), now));
            if now < delay {
                continue;
            }
            while let Some(taken) = queue.take(at(now)) {
                if taken.packet != expected || taken.ce {
                    signals.push(now);
                }
                expected = taken.packet + 1;
                // What was dropped is replaced, so that the delay stays.
                if taken.packet + delay >= now {
                    break;
                }
            }
        }
        signals
    }

    #[test]
    fn delay_below_the_target_is_left_alone() {
        assert_eq!(signals(Ecn::Ect0, 4, 5_000), []);
    }

    #[test]
    fn first_signal_comes_after_an_interval_and_the_next_by_the_control_law() {
        // 100 / sqrt(n) after the one before, on whole milliseconds.
        let found = signals(Ecn::Ect0, 20, 600);
        let mut due = 120.0;
        let mut wanted = Vec::new();
        for count in 1..=found.len() {
            wanted.push(due);
            due += 100.0 / (count as f64).sqrt();
        }
        assert!(found.len() > 8, "{found:?}");
        for (found, wanted) in found.iter().zip(wanted) {
            assert!((*found as f64 - wanted).abs() <= 1.0, "{found}, {wanted}");
        }
    }

    #[test]
    fn packets_without_ecn_are_dropped_instead() {
        let mut queue = CoDel::new(1 << 20, true);
        for number in 0..400 {
            queue.push(packet(0, Ecn::NotEct, at(number), number));
        }
        let taken: Vec<_> = (100..400).filter_map(|now| queue.take(at(now))).collect();
        assert!(taken.iter().all(|p| !p.ce));
        let last = taken.last().expect("some are left").packet + 1;
        assert!(last > taken.len() as u64, "none was dropped");
    }

    #[test]
    fn last_packet_is_never_dropped() {
        let mut queue = CoDel::new(1 << 20, false);
        for number in 0..100 {
            queue.push(packet(0, Ecn::NotEct, at(10 * number), number));
            let taken = queue.take(at(10 * number + 9)).expect("was not dropped");
            assert_eq!(taken.packet, number);
        }
    }
}
