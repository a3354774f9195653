//! Reads ranges that handlers lend, a block at a time as the stream takes them.

use super::{BLOCK, Content, Flow, Response};
use crate::http::exchange::lent::LentRange;

/// Bytes of each of the first two blocks, so that a client that takes nothing holds little memory.
const FIRST: usize = 16 * 1024;

/// State of the ranges that a handler has lent for one response.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// Range that is being read.
    current: Option<LentRange>,
    /// The first block that waits for the stream comes from a range, so it has no credit to return.
    pub(super) is_first_block: bool,
    /// Bytes read of a range that is over, to report to its handler.
    over: Option<u64>,
    /// The stream has taken a block of a range since the last look.
    moved: bool,
}

impl Ranges {
    pub(super) fn take(&mut self, range: LentRange) {
        debug_assert!(
            self.current.is_none(),
            "a handler lends one range at a time"
        );
        self.current = Some(range);
    }

    /// Returns whether a range is being read.
    pub(super) fn is_reading(&self) -> bool {
        self.current.is_some()
    }

    /// Notes that the stream has taken the first block. Returns whether that came from a range.
    pub(super) fn on_block_taken(&mut self) -> bool {
        let lent = std::mem::take(&mut self.is_first_block);
        self.moved |= lent;
        lent
    }
}

impl Flow {
    /// Reads a block of the range that is lent, if no other block waits. `sent` bytes of the body have left.
    pub(super) fn read(&mut self, sent: u64) {
        let Some(range) = self
            .ranges
            .current
            .as_mut()
            .filter(|_| self.blocks.is_empty())
        else {
            return;
        };
        let most = if sent < 2 * FIRST as u64 {
            FIRST
        } else {
            BLOCK
        };
        if let Some(block) = range.next_block(most) {
            self.ranges.is_first_block = true;
            self.blocks.push_back(block);
        }
        if range.is_over() {
            self.ended |= range.completes();
            self.ranges.over = Some(range.read());
            self.ranges.current = None;
        }
    }
}

impl Response {
    /// Returns how many bytes were read of a range that is over now, once. Nothing holds its source here any more.
    pub(in crate::h3) fn take_range_read(&mut self) -> Option<u64> {
        match &mut self.content {
            Content::Whole(_) => None,
            Content::Flow(flow) => flow.ranges.over.take(),
        }
    }

    /// Returns whether the stream has taken a block of a range since the last call.
    pub(in crate::h3) fn take_range_moved(&mut self) -> bool {
        match &mut self.content {
            Content::Whole(_) => false,
            Content::Flow(flow) => std::mem::take(&mut flow.ranges.moved),
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
