//! The deadlines of all connections of a worker. Moving a deadline to a later time costs nothing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

/// Number of stale entries up to which it is not worth the work to drop them.
const SPARE: usize = 1024;

/// A heap of deadlines. An entry is pushed only if a deadline becomes earlier; if it became later, its old entry is stale
/// and is found when it is due. [`Timers::tidy`] bounds the number of stale entries.
#[derive(Debug, Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(Instant, usize)>>,
}

/// What a connection keeps of its entry: the time of the earliest one that is not stale.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slot {
    ready: Option<Instant>,
}

impl Timers {
    /// Pushes an entry for the connection `key`, unless one is due at `deadline` or before.
    pub fn set(&mut self, slot: &mut Slot, key: usize, deadline: Option<Instant>) {
        let Some(deadline) = deadline else { return };
        if slot.ready.is_none_or(|ready| deadline < ready) {
            slot.ready = Some(deadline);
            self.heap.push(Reverse((deadline, key)));
        }
    }

    /// Drops stale entries once they outnumber the others. `slots` holds the slot of each connection with its key, `count`
    /// at most.
    pub fn tidy(&mut self, count: usize, slots: impl Iterator<Item = (usize, Slot)>) {
        if self.heap.len() > SPARE + 2 * count {
            let entry = |(key, slot): (usize, Slot)| Some(Reverse((slot.ready?, key)));
            self.heap = slots.filter_map(entry).collect();
        }
    }

    /// Returns the time of the earliest entry.
    pub fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes an entry that is due: its time and key. It may be stale; [`Slot::fired`] tells.
    pub fn take_due(&mut self, now: Instant) -> Option<(Instant, usize)> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }
}

impl Slot {
    /// Returns whether the entry at `at` is the connection's valid one, and removes it from the slot.
    pub fn fired(&mut self, at: Instant) -> bool {
        if self.ready == Some(at) {
            self.ready = None;
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_deadline_moved_back_wakes_once_and_late() {
        let start = crate::clock::now();
        let at = |ms| start + Duration::from_millis(ms);
        let (mut timers, mut slot) = (Timers::default(), Slot::default());
        timers.set(&mut slot, 7, Some(at(10)));
        timers.set(&mut slot, 7, Some(at(30)));
        assert_eq!(timers.heap.len(), 1);
        assert_eq!(timers.take_due(at(5)), None);
        let (when, key) = timers.take_due(at(10)).unwrap();
        assert_eq!(key, 7);
        assert!(slot.fired(when));
        timers.set(&mut slot, 7, Some(at(30)));
        assert_eq!(timers.take_due(at(29)), None);
        assert_eq!(timers.take_due(at(30)), Some((at(30), 7)));
    }

    #[test]
    fn an_earlier_deadline_makes_the_old_entry_stale() {
        let start = crate::clock::now();
        let at = |ms| start + Duration::from_millis(ms);
        let (mut timers, mut slot) = (Timers::default(), Slot::default());
        timers.set(&mut slot, 1, Some(at(30)));
        timers.set(&mut slot, 1, Some(at(10)));
        let (first, _) = timers.take_due(at(30)).unwrap();
        assert!(slot.fired(first));
        let (second, _) = timers.take_due(at(30)).unwrap();
        assert!(!slot.fired(second));
    }

    #[test]
    fn stale_entries_are_dropped_and_no_other() {
        let start = crate::clock::now();
        let at = |ms| start + Duration::from_millis(ms);
        let (mut timers, mut busy, mut quiet) =
            (Timers::default(), Slot::default(), Slot::default());
        timers.set(&mut quiet, 1, Some(at(20_000)));
        for ms in 0..10_000 {
            timers.set(&mut busy, 0, Some(at(30_000 + ms)));
            timers.set(&mut busy, 0, Some(at(ms)));
            assert_eq!(timers.take_due(at(ms)), Some((at(ms), 0)));
            assert!(busy.fired(at(ms)));
            timers.tidy(2, [(0, busy), (1, quiet)].into_iter());
            assert!(
                timers.heap.len() <= SPARE + 4,
                "{} entries",
                timers.heap.len()
            );
        }
        timers.set(&mut busy, 0, Some(at(19_000)));
        assert_eq!(timers.take_due(at(20_000)), Some((at(19_000), 0)));
        assert_eq!(timers.take_due(at(20_000)), Some((at(20_000), 1)));
    }
}
