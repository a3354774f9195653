//! The deadlines of all connections of a worker.
//!
//! Sending a packet gives its connection a deadline some milliseconds away; the acknowledgement leaves only the idle timeout, half a
//! minute away. So a deadline that moves to a later time is only noted, and the entry in the queue stays where it is. It is moved once
//! it comes to the front, before anybody wakes or looks at the connection. The deadlines of the near future have a queue of
//! their own: an entry for the idle timeout can stay in the other one while probe timeouts come and go.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

/// Distance up to which a deadline belongs to the near future: more than most probe timeouts (RFC 9002 §6.2), less than usual idle
/// timeouts.
const NEAR: Duration = Duration::from_secs(1);

/// Number of useless entries up to which it is not worth the work to drop them.
const SPARE: usize = 1024;

/// Entries that are moved before a worker sleeps, at most.
const MAX_MOVES: usize = 256;

/// Index of the queue of the near future.
const NEAR_QUEUE: usize = 0;
/// Index of the queue of all else.
const FAR_QUEUE: usize = 1;

/// The deadlines, and queues that lead to them.
#[derive(Debug, Default)]
pub struct Timers {
    queues: [BinaryHeap<Entry>; 2],
    /// State of each connection, by its key.
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

/// The earliest entry.
struct Front {
    at: Instant,
    key: usize,
    queue: usize,
}

impl Slot {
    /// Returns whether an entry leads to a deadline.
    fn leads_to(&self, deadline: Instant) -> bool {
        self.entries.iter().flatten().any(|at| *at <= deadline)
    }
}

impl Timers {
    /// Sets the deadline of the connection `key`; none removes it.
    pub fn set(&mut self, key: usize, deadline: Option<Instant>, now: Instant) {
        if key >= self.slots.len() {
            self.slots.resize(key + 1, Slot::default());
        }
        self.slots[key].deadline = deadline;
        self.ensure_entry(key, NEAR_QUEUE, now);
    }

    /// Removes the deadline of a connection that has ended.
    pub fn clear(&mut self, key: usize) {
        if let Some(slot) = self.slots.get_mut(key) {
            slot.deadline = None;
        }
    }

    /// Returns the earliest deadline, or an earlier time if many deadlines have moved.
    pub fn earliest(&mut self) -> Option<Instant> {
        for _ in 0..MAX_MOVES {
            let front = self.front()?;
            if self.is_right(&front) {
                return Some(front.at);
            }
            self.move_front(&front);
        }
        self.front().map(|front| front.at)
    }

    /// Takes a deadline that is due, and returns the key of its connection, which then has none. Each entry that is due takes one
    /// from the budget, also if its deadline has moved.
    pub fn take_due(&mut self, budget: &mut usize, now: Instant) -> Option<usize> {
        while *budget > 0 {
            let front = self.front().filter(|front| front.at <= now)?;
            *budget -= 1;
            if self.is_right(&front) {
                self.queues[front.queue].pop();
                let slot = &mut self.slots[front.key];
                slot.deadline = None;
                slot.entries[front.queue] = None;
                return Some(front.key);
            }
            self.move_front(&front);
        }
        None
    }

    fn front(&self) -> Option<Front> {
        let (near, far) = (self.queues[NEAR_QUEUE].peek(), self.queues[FAR_QUEUE].peek());
        let (queue, Reverse((at, key))) = match (near, far) {
            (Some(near), Some(far)) if far.0.0 < near.0.0 => (FAR_QUEUE, *far),
            (Some(near), _) => (NEAR_QUEUE, *near),
            (None, far) => (FAR_QUEUE, *far?),
        };
        Some(Front { at, key, queue })
    }

    /// Returns whether the earliest entry has the time of its connection's deadline.
    fn is_right(&self, front: &Front) -> bool {
        let slot = &self.slots[front.key];
        slot.deadline == Some(front.at) && slot.entries[front.queue] == Some(front.at)
    }

    /// Moves the earliest entry to where its deadline is by now, or drops it if it leads to none.
    fn move_front(&mut self, front: &Front) {
        self.queues[front.queue].pop();
        let slot = &mut self.slots[front.key];
        if slot.entries[front.queue] == Some(front.at) {
            slot.entries[front.queue] = None;
            self.ensure_entry(front.key, front.queue, front.at);
        }
    }

    /// Adds an entry for a deadline to `queue`, or to the far one if it is not near by `now`, unless an entry already leads to it.
    fn ensure_entry(&mut self, key: usize, queue: usize, now: Instant) {
        let slot = &mut self.slots[key];
        let Some(deadline) = slot.deadline else {
            return;
        };
        if slot.leads_to(deadline) {
            return;
        }
        let is_far = deadline > now + NEAR;
        let queue = if is_far { FAR_QUEUE } else { queue };
        slot.entries[queue] = Some(deadline);
        self.queues[queue].push(Reverse((deadline, key)));
        self.tidy();
    }

    /// Drops useless entries once there are more of them than of others, so that their number is bounded.
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
mod tests;
