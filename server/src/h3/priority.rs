//! The order of a connection's responses (RFC 9218).

use std::collections::BTreeSet;
use std::ops::Bound;

/// Number that quiche adds to an urgency to order streams of requests after its own.
const ENGINE_OFFSET: u8 = 124;
const LOWEST: u8 = 7;

/// Priority of a response; a lower one goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Priority {
    /// Urgency from 0 to 7; 0 goes first.
    pub(super) urgency: u8,
    /// The client can use parts of the response, so it shares with others of its urgency.
    pub(super) incremental: bool,
}

impl Default for Priority {
    fn default() -> Self {
        Priority {
            urgency: 3,
            incremental: false,
        }
    }
}

impl Priority {
    /// Reads a `priority` field or a PRIORITY_UPDATE frame. Parameters that are missing, unknown or out of bounds keep their
    /// defaults (RFC 9218 §4), as all do if the value is no dictionary.
    pub(super) fn parse(value: &[u8]) -> Priority {
        let mut priority = Priority::default();
        let Ok(text) = std::str::from_utf8(value) else {
            return priority;
        };
        let Ok(dictionary) = sfv::Parser::new(text).parse::<sfv::Dictionary>() else {
            return priority;
        };
        if let Some(sfv::ListEntry::Item(item)) = dictionary.get("u")
            && let Some(urgency) = item.bare_item.as_integer()
            && let Ok(urgency) = u8::try_from(i64::from(urgency))
            && urgency <= LOWEST
        {
            priority.urgency = urgency;
        }
        if let Some(sfv::ListEntry::Item(item)) = dictionary.get("i")
            && let Some(incremental) = item.bare_item.as_boolean()
        {
            priority.incremental = incremental;
        }
        priority
    }

    /// Sets the priority of a stream whose response has begun.
    pub(super) fn apply(self, conn: &mut quiche::Connection, stream: u64) {
        // The stream may be gone, and then it needs no priority.
        let _ = conn.stream_priority(stream, self.urgency + ENGINE_OFFSET, self.incremental);
    }
}

impl From<Priority> for quiche::h3::Priority {
    fn from(priority: Priority) -> quiche::h3::Priority {
        quiche::h3::Priority::new(priority.urgency, priority.incremental)
    }
}

/// Streams with something to write, by urgency. Of the same urgency, the streams that are not incremental write first, one
/// after the other; then the incremental ones, a block each in turn.
#[derive(Debug, Default)]
pub(super) struct Queue {
    streams: BTreeSet<(Priority, u64)>,
    /// Stream inserted last, while it is in the queue: a response of several messages is inserted for each of them.
    last_inserted: Option<(Priority, u64)>,
    /// Incremental stream that wrote last; the next round begins after it.
    last_served: u64,
}

impl Queue {
    pub(super) fn insert(&mut self, priority: Priority, stream: u64) {
        if self.last_inserted != Some((priority, stream)) {
            self.last_inserted = Some((priority, stream));
            self.streams.insert((priority, stream));
        }
    }

    pub(super) fn remove(&mut self, priority: Priority, stream: u64) {
        self.last_inserted = None;
        self.streams.remove(&(priority, stream));
    }

    pub(super) fn clear(&mut self) {
        self.last_inserted = None;
        self.streams.clear();
    }

    /// Frees the node that an empty set keeps.
    pub(super) fn release_memory(&mut self) {
        if self.streams.is_empty() {
            self.streams = BTreeSet::new();
        }
    }

    /// Returns the most urgent priority in the queue behind `after`.
    pub(super) fn level(&self, after: Option<Priority>) -> Option<Priority> {
        let from = after.map_or(Bound::Unbounded, |after| Bound::Excluded((after, u64::MAX)));
        let mut streams = self.streams.range((from, Bound::Unbounded));
        streams.next().map(|(priority, _)| *priority)
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

    /// Notes that an incremental stream has had its turn.
    pub(super) fn served(&mut self, stream: u64) {
        self.last_served = stream;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(urgency: u8, incremental: bool) -> Priority {
        Priority {
            urgency,
            incremental,
        }
    }

    #[test]
    fn invalid_parameters_of_a_priority_keep_their_defaults() {
        for (text, expected) in [
            ("", at(3, false)),
            ("u=0", at(0, false)),
            ("u=5, i", at(5, true)),
            ("i=?0,u=7", at(7, false)),
            ("u=8", at(3, false)),
            ("u=-1", at(3, false)),
            ("u=1.5", at(3, false)),
            ("u=\"1\", i=1", at(3, false)),
            ("u=1;x=2, i;y, z=(1 2)", at(1, true)),
            ("u=1,,", at(3, false)),
            ("U=1", at(3, false)),
        ] {
            assert_eq!(Priority::parse(text.as_bytes()), expected, "{text:?}");
        }
        assert_eq!(Priority::parse(b"u=1, \xff"), at(3, false));
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
        assert_eq!(
            (second, queue.streams(second)),
            (at(3, false), vec![12, 16])
        );
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
}
