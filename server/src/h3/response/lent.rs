//! Reads ranges that handlers lend, a block at a time as the stream takes them.

use super::{BLOCK, Content, Flow, Response};

/// Bytes of each of the first two blocks, so that a client that takes nothing holds little memory.
const FIRST: usize = 16 * 1024;

impl Flow {
    /// Reads a block of the range that is lent; no other block waits. `sent` bytes of the body have left.
    pub(super) fn read(&mut self, sent: u64) {
        let most = if sent < 2 * FIRST as u64 { FIRST } else { BLOCK };
        if let Some((block, completes)) = self.ranges.next_block(most) {
            self.blocks.push_back(block);
            self.ended |= completes;
        }
    }
}

impl Response {
    /// Returns how many bytes were read of a range that is over now, once. Its source was dropped before.
    pub(in crate::h3) fn take_range_read(&mut self) -> Option<u64> {
        match &mut self.content {
            Content::Whole(_) => None,
            Content::Flow(flow) => flow.ranges.take_over(),
        }
    }

    /// Returns whether the stream has taken a block of a range since the last call.
    pub(in crate::h3) fn take_range_moved(&mut self) -> bool {
        match &mut self.content {
            Content::Whole(_) => false,
            Content::Flow(flow) => flow.ranges.take_moved(),
        }
    }

    /// Returns whether a range is being read; its handler needs no credit meanwhile.
    pub(in crate::h3) fn is_reading_range(&self) -> bool {
        match &self.content {
            Content::Whole(_) => false,
            Content::Flow(flow) => flow.ranges.is_reading(),
        }
    }
}
