//! The order in which responses of a connection write.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::priority::Priority;
use super::sharing::Sharing;

/// Streams with something to write, by urgency. Of the same urgency, the streams that are not incremental write first, one
/// after the other; then the incremental ones, a block each in turn. Behind them are the streams that share.
#[derive(Debug, Default)]
pub(super) struct Queue {
    streams: BTreeSet<(Priority, u64)>,
    /// Number of those that share.
    shared: usize,
    /// Stream inserted last, while it is in the queue: a response of several messages is inserted for each of them.
    last_inserted: Option<(Priority, u64)>,
    /// Incremental stream that wrote last; the next round begins after it.
    last_served: u64,
    /// Account between those that share and the others.
    pub(super) sharing: Sharing,
}

impl Queue {
    pub(super) fn insert(&mut self, priority: Priority, stream: u64) {
        if self.last_inserted != Some((priority, stream)) {
            self.last_inserted = Some((priority, stream));
            let is_new = self.streams.insert((priority, stream));
            self.shared += usize::from(is_new && priority.is_shared());
        }
    }

    /// Removes a stream; returns whether it was there.
    pub(super) fn remove(&mut self, priority: Priority, stream: u64) -> bool {
        self.last_inserted = None;
        let was_there = self.streams.remove(&(priority, stream));
        self.shared -= usize::from(was_there && priority.is_shared());
        was_there
    }

    pub(super) fn clear(&mut self) {
        self.last_inserted = None;
        self.streams.clear();
        self.shared = 0;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Frees the node that an empty set keeps.
    pub(super) fn release_memory(&mut self) {
        if self.streams.is_empty() {
            self.streams = BTreeSet::new();
        }
    }

    /// Returns the most urgent priority in the queue behind `after`, except for those that share.
    pub(super) fn level(&self, after: Option<Priority>) -> Option<Priority> {
        self.behind(after).next().map(|(priority, _)| priority)
    }

    /// Returns the streams behind a priority in their order, except for those that share.
    pub(super) fn behind(&self, after: Option<Priority>) -> impl Iterator<Item = (Priority, u64)> {
        let from = after.map_or(Bound::Unbounded, |after| Bound::Excluded((after, u64::MAX)));
        let streams = self.streams.range((from, Bound::Unbounded)).copied();
        streams.take_while(|(priority, _)| !priority.is_shared())
    }

    /// Returns whether a stream in the queue shares.
    pub(super) fn has_shared(&self) -> bool {
        self.shared > 0
    }

    /// Returns the streams that share, from the one that writes next.
    pub(super) fn shared(&self) -> Vec<u64> {
        let all = self.streams.range((Priority::SHARED, 0)..);
        let mut streams: Vec<u64> = all.map(|(_, stream)| *stream).collect();
        let next = self.sharing.next_stream();
        let first = streams.partition_point(|stream| *stream < next);
        streams.rotate_left(first);
        streams
    }

    /// Returns the streams of a priority, in the order of their turns.
    pub(super) fn streams(&self, priority: Priority) -> Vec<u64> {
        let all = self.streams.range((priority, 0)..=(priority, u64::MAX));
        let all = all.map(|(_, stream)| *stream);
        if !priority.incremental {
            return all.collect();
        }
        let (later, earlier): (Vec<u64>, Vec<u64>) =
            all.partition(|stream| *stream > self.last_served);
        later.into_iter().chain(earlier).collect()
    }

    /// Counts bytes that a response of this place has written.
    pub(super) fn on_written(&mut self, place: Priority, bytes: u64) {
        self.sharing.on_written(bytes);
        if place.is_shared() {
            self.sharing.on_shared(bytes);
        } else if self.has_shared() {
            self.sharing.on_ordered(place.urgency, bytes);
        }
    }

    /// Notes that an incremental stream has had its turn.
    pub(super) fn served(&mut self, stream: u64) {
        self.last_served = stream;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(urgency: u8, incremental: bool) -> Priority {
        Priority { urgency, incremental }
    }

    #[test]
    fn urgent_streams_go_first_and_incremental_ones_take_turns() {
        let mut queue = Queue::default();
        for (priority, stream) in [
            (at(3, true), 0),
            (at(3, true), 4),
            (at(3, true), 8),
            (at(3, false), 16),
            (at(3, false), 12),
            (at(0, true), 20),
        ] {
            queue.insert(priority, stream);
        }
        let first = queue.level(None).unwrap();
        assert_eq!((first, queue.streams(first)), (at(0, true), vec![20]));
        let second = queue.level(Some(first)).unwrap();
        assert_eq!((second, queue.streams(second)), (at(3, false), vec![12, 16]));
        let third = queue.level(Some(second)).unwrap();
        assert_eq!(queue.streams(third), [4, 8, 0]);
        queue.served(4);
        assert_eq!(queue.streams(third), [8, 0, 4]);
        assert_eq!(queue.level(Some(third)), None);
        queue.remove(at(0, true), 20);
        assert_eq!(queue.level(None), Some(second));
    }

    #[test]
    fn a_stream_that_was_removed_can_be_inserted_again() {
        let mut queue = Queue::default();
        for _ in 0..2 {
            queue.insert(at(3, false), 4);
            queue.insert(at(3, false), 4);
            assert_eq!(queue.streams(at(3, false)), [4]);
            queue.remove(at(3, false), 4);
            assert_eq!(queue.level(None), None);
        }
    }

    #[test]
    fn streams_that_share_are_no_part_of_the_order_and_take_turns() {
        let mut queue = Queue::default();
        queue.insert(at(7, true), 0);
        assert!(!queue.has_shared());
        for stream in [12, 4, 8] {
            queue.insert(Priority::SHARED, stream);
        }
        assert!(queue.has_shared());
        assert_eq!(queue.level(None), Some(at(7, true)));
        assert_eq!(queue.level(Some(at(7, true))), None);
        assert_eq!(queue.shared(), [4, 8, 12]);
        queue.sharing.on_turn(4, 1);
        assert_eq!(queue.shared(), [4, 8, 12]);
        queue.sharing.on_turn(4, 0);
        assert_eq!(queue.shared(), [8, 12, 4]);
        queue.sharing.on_turn(12, 0);
        assert_eq!(queue.shared(), [4, 8, 12]);
        assert!(queue.remove(Priority::SHARED, 8) && !queue.remove(Priority::SHARED, 8));
        assert_eq!(queue.shared(), [4, 12]);
    }
}
