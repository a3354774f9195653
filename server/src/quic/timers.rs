//! The deadlines of all connections of a worker.
//!
//! A packet that is sent brings its connection a deadline some milliseconds away, its acknowledgement leaves only the idle timeout, half a
//! minute away. So a deadline is only noted when it moves to a later time, and the entry in the queue stays where it is. It is moved when
//! it comes to the front, before anybody wakes or looks at the connection. The deadlines of the near future have a queue of
//! their own, so that an entry for the idle timeout outlives them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

/// Distance up to which a deadline belongs to the near future: more than most probe timeouts (RFC 9002 §6.2), less than an idle timeout.
const NEAR: Duration = Duration::from_secs(1);

/// Number of useless entries up to which it is not worth the work to drop them.
const SPARE: usize = 1024;

/// The deadlines, and queues that lead to them.
#[derive(Debug, Default)]
pub struct Timers {
    /// Queue of the near future, and that of all else.
    queues: [BinaryHeap<Entry>; 2],
    /// What is known about each connection, by its key.
    slots: Vec<Slot>,
}

/// A time and the key of a connection, the earliest time first.
type Entry = Reverse<(Instant, usize)>;

/// Deadline of a connection. If there is one, an entry of that time or an earlier one leads to it.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    deadline: Option<Instant>,
    /// Time of its entry in each queue. A queue may have others for the connection, which are useless.
    entries: [Option<Instant>; 2],
}

impl Timers {
    /// Sets the deadline of the connection `key`; none removes it.
    pub fn set(&mut self, key: usize, deadline: Option<Instant>, now: Instant) {
        if key >= self.slots.len() {
            self.slots.resize(key + 1, Slot::default());
        }
        self.slots[key].deadline = deadline;
        let is_far = deadline.is_some_and(|at| at.saturating_duration_since(now) > NEAR);
        self.lead_to(key, usize::from(is_far));
        self.tidy();
    }

    /// Removes the deadline of a connection that has ended.
    pub fn clear(&mut self, key: usize) {
        if let Some(slot) = self.slots.get_mut(key) {
            slot.deadline = None;
        }
    }

    /// Returns the earliest deadline.
    pub fn next(&mut self) -> Option<Instant> {
        self.first().map(|(at, _)| at)
    }

    /// Takes a deadline that is due, and returns the key of its connection, which then has none.
    pub fn take_due(&mut self, now: Instant) -> Option<usize> {
        let (_, queue) = self.first().filter(|(at, _)| *at <= now)?;
        let Reverse((_, key)) = self.queues[queue].pop()?;
        let slot = &mut self.slots[key];
        slot.deadline = None;
        slot.entries[queue] = None;
        Some(key)
    }

    /// Returns the earliest deadline, and the queue whose front leads to it.
    fn first(&mut self) -> Option<(Instant, usize)> {
        // Entries move from the first queue to the second, never back.
        let fronts = [0, 1].map(|queue| Some((self.front(queue)?, queue)));
        fronts.into_iter().flatten().min()
    }

    /// Moves entries at the front of a queue to where their deadlines are by now, and returns the time of the first that is right.
    fn front(&mut self, queue: usize) -> Option<Instant> {
        loop {
            let Reverse((at, key)) = *self.queues[queue].peek()?;
            let slot = &mut self.slots[key];
            let is_useless = slot.entries[queue] != Some(at);
            if !is_useless && slot.deadline == Some(at) {
                return Some(at);
            }
            self.queues[queue].pop();
            if !is_useless {
                slot.entries[queue] = None;
                let is_far = slot.deadline.is_some_and(|moved| moved > at + NEAR);
                self.lead_to(key, queue.max(usize::from(is_far)));
            }
        }
    }

    /// Adds an entry for a deadline to a queue, unless one leads to it.
    fn lead_to(&mut self, key: usize, queue: usize) {
        let slot = &mut self.slots[key];
        let Some(deadline) = slot.deadline else {
            return;
        };
        if slot.entries.iter().flatten().any(|at| *at <= deadline) {
            return;
        }
        slot.entries[queue] = Some(deadline);
        self.queues[queue].push(Reverse((deadline, key)));
    }

    /// Drops useless entries once there may be more of them than of others, so that their number is bounded.
    fn tidy(&mut self) {
        let entries: usize = self.queues.iter().map(BinaryHeap::len).sum();
        if entries <= SPARE + 4 * self.slots.len() {
            return;
        }
        for (queue, heap) in self.queues.iter_mut().enumerate() {
            let slots = self.slots.iter().enumerate();
            *heap = slots
                .filter_map(|(key, slot)| Some(Reverse((slot.entries[queue]?, key))))
                .collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A start, and times after it in milliseconds.
    fn times() -> (Instant, impl Fn(u64) -> Option<Instant>) {
        let start = crate::clock::now();
        (start, move |ms| Some(start + Duration::from_millis(ms)))
    }

    fn entries(timers: &Timers) -> [usize; 2] {
        timers.queues.each_ref().map(BinaryHeap::len)
    }

    #[test]
    fn deadlines_are_taken_once_and_in_time() {
        let (start, at) = times();
        let mut timers = Timers::default();
        for (key, ms) in [(3, 20), (0, 10), (1, 30_000)] {
            timers.set(key, at(ms), start);
        }
        let mut taken = Vec::new();
        while let Some(next) = timers.next() {
            assert_eq!(timers.take_due(next - Duration::from_nanos(1)), None);
            taken.push((Some(next), timers.take_due(next)));
        }
        let expected = [(10, 0), (20, 3), (30_000, 1)].map(|(ms, key)| (at(ms), Some(key)));
        assert_eq!(taken, expected);
        assert_eq!(timers.take_due(start + Duration::from_hours(1)), None);
    }

    #[test]
    fn a_deadline_can_move_to_either_side_or_be_removed() {
        let (start, at) = times();
        let mut timers = Timers::default();
        for ms in [10, 30_000, 25, 500, 40_000, 20] {
            timers.set(7, at(ms), start);
            assert_eq!(timers.next(), at(ms));
        }
        timers.clear(7);
        assert_eq!(timers.next(), None);
        timers.set(7, at(50), start);
        assert_eq!(timers.take_due(start + Duration::from_millis(50)), Some(7));
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn probe_timeouts_that_are_not_needed_leave_the_idle_timeout_alone() {
        let (start, at) = times();
        let mut timers = Timers::default();
        for ms in (0..20_000).step_by(100) {
            let now = at(ms).unwrap();
            timers.set(0, at(ms + 26), now);
            timers.set(0, at(ms + 30_000), now);
            assert_eq!(timers.next(), at(ms + 30_000));
            assert_eq!(entries(&timers), [0, 1]);
        }
        assert_eq!(timers.take_due(start + Duration::from_secs(20)), None);
    }

    #[test]
    fn useless_entries_are_dropped_and_no_other() {
        let (start, at) = times();
        let mut timers = Timers::default();
        timers.set(1, at(25_000), start);
        for ms in (1..20_000).rev() {
            timers.set(0, at(ms), start);
            let count: usize = entries(&timers).iter().sum();
            assert!(count <= SPARE + 8, "{count} entries");
        }
        let end = start + Duration::from_secs(30);
        assert_eq!(timers.next(), at(1));
        assert_eq!(timers.take_due(end), Some(0));
        assert_eq!(timers.next(), at(25_000));
        assert_eq!(timers.take_due(end), Some(1));
        assert_eq!(timers.take_due(end), None);
    }
}
