//! Data that more urgent streams have kept waiting for too long.
//!
//! The build script places this file at `stream/overdue.rs` of the patched source.

use std::cell::Cell;

use intrusive_collections::RBTree;

use super::Arc;
use super::StreamFlushablePriorityAdapter;
use super::StreamPriorityKey;

/// Bytes of other streams after which a stream has waited too long.
const LONGEST_WAIT: u64 = 1 << 20;

/// Bytes of other streams between two packets of streams that have waited too long, so less than a sixteenth of all is theirs.
const TURN: u64 = 20_000;

/// Choice of the stream that fills the next packet, so that none waits for more urgent ones without end (RFC 9218 §10).
#[derive(Default)]
pub(super) struct Overdue {
    /// Bytes of all streams that were sent; lost ones count again.
    sent: u64,
    /// Such a sum at which to look for streams that have waited too long: before it there can be none.
    look_at: u64,
    /// Stream that was chosen because it had waited too long.
    chosen: Option<u64>,
}

/// Bytes of all streams that had been sent when a stream began to wait for its next packet.
#[derive(Clone, Debug, Default)]
pub struct Waiting(Cell<u64>);

impl Waiting {
    /// Takes over from the key that a stream had before.
    pub(super) fn set(&self, before: &Waiting) {
        self.0.set(before.0.get());
    }
}

impl Overdue {
    /// Notes that a stream begins to wait.
    pub(super) fn on_flushable(&self, key: &StreamPriorityKey) {
        key.waiting.0.set(self.sent);
    }

    /// Returns the stream that fills the next packet, of those with data to send.
    pub(super) fn next(
        &mut self, flushable: &RBTree<StreamFlushablePriorityAdapter>,
    ) -> Option<Arc<StreamPriorityKey>> {
        self.chosen = None;
        if self.sent >= self.look_at {
            let mut longest: Option<Arc<StreamPriorityKey>> = None;
            let mut stream = flushable.front();
            while let Some(key) = stream.get() {
                if longest.as_ref().is_none_or(|longest| key.waiting.0 < longest.waiting.0) {
                    longest = stream.clone_pointer();
                }
                stream.move_next();
            }
            // Streams that begin to wait meanwhile are not too late before it.
            let first = longest.as_ref().map_or(self.sent, |longest| longest.waiting.0.get());
            self.look_at = (first + LONGEST_WAIT).max(self.sent + TURN);
            if let Some(longest) = longest.filter(|_| self.sent >= first + LONGEST_WAIT) {
                self.chosen = Some(longest.id);
                return Some(longest);
            }
        }
        flushable.front().clone_pointer()
    }

    /// Notes that a stream has sent so many bytes. One that had waited too long goes on as such, behind the others of its kind.
    pub(super) fn on_sent(&mut self, key: &StreamPriorityKey, len: usize) {
        self.sent += len as u64;
        let late = if self.chosen == Some(key.id) { LONGEST_WAIT } else { 0 };
        key.waiting.0.set(self.sent.saturating_sub(late));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: usize = 1200;

    /// Returns how many bytes each of some streams sends of so many, all of which always have data.
    fn shares(streams: &[(u8, bool)], bytes: u64) -> Vec<u64> {
        let mut overdue = Overdue::default();
        let mut flushable = RBTree::new(StreamFlushablePriorityAdapter::default());
        for (id, &(urgency, incremental)) in (0..).zip(streams) {
            let key = Arc::new(StreamPriorityKey { urgency, incremental, id, ..Default::default() });
            overdue.on_flushable(&key);
            flushable.insert(key);
        }
        let mut sent = vec![0; streams.len()];
        while sent.iter().sum::<u64>() < bytes {
            let key = overdue.next(&flushable).unwrap();
            overdue.on_sent(&key, PACKET);
            sent[key.id as usize] += PACKET as u64;
        }
        sent
    }

    #[test]
    fn nobody_but_the_most_urgent_stream_sends_before_others_have_waited_long() {
        let most = LONGEST_WAIT - PACKET as u64;
        let sent = shares(&[(3, false), (1, false), (3, true)], most);
        assert_eq!((sent[0], sent[2]), (0, 0));
    }

    #[test]
    fn streams_that_wait_long_share_a_sixteenth_in_turn() {
        let all = 100 * LONGEST_WAIT;
        let sent = shares(&[(3, false), (1, false), (7, false), (3, false)], all);
        let late = sent[0] + sent[2] + sent[3];
        assert!((all / 20..all / 16).contains(&late), "{sent:?}");
        for one in [sent[0], sent[2], sent[3]] {
            assert!(one.abs_diff(late / 3) <= 2 * PACKET as u64, "{sent:?}");
        }
    }

    #[test]
    fn a_stream_alone_never_waits() {
        assert_eq!(shares(&[(3, false)], 3 * LONGEST_WAIT).len(), 1);
    }
}
