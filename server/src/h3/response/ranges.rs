//! Ranges that a handler lends for one response, one after the other.

use bytes::Bytes;

use sluicegate_http::exchange::lent::LentRange;

/// State of the ranges that a handler lends for one response.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// Range that is being read, or is over and not reported yet.
    current: Option<Box<LentRange>>,
    /// The first block that waits for the stream comes from a range, so it has no credit to return.
    is_first_block: bool,
    /// The stream has taken a block of a range since the last look.
    moved: bool,
}

impl Ranges {
    /// Takes the range that follows.
    pub(super) fn take(&mut self, range: Box<LentRange>) {
        debug_assert!(self.current.is_none(), "a handler lends one range at a time");
        self.current = Some(range);
    }

    /// Returns whether a range is being read.
    pub(super) fn is_reading(&self) -> bool {
        self.current.as_ref().is_some_and(|range| !range.is_over())
    }

    /// Reads the next block, of up to `most` bytes, for a stream for which no block waits. Returns it, if there is one in memory,
    /// and whether the response ends with it.
    pub(super) fn next_block(&mut self, most: usize) -> Option<(Bytes, bool)> {
        let range = self.current.as_mut()?;
        let block = range.next_block(most)?;
        self.is_first_block = true;
        Some((block, range.completes()))
    }

    /// Notes that the stream has taken the first block. Returns whether that came from a range.
    pub(super) fn on_block_taken(&mut self) -> bool {
        let lent = std::mem::take(&mut self.is_first_block);
        self.moved |= lent;
        lent
    }

    /// Returns how many bytes were read of a range that is over now, once.
    pub(super) fn take_over(&mut self) -> Option<u64> {
        let range = self.current.take_if(|range| range.is_over())?;
        Some(range.read())
    }

    /// Returns whether the stream has taken a block of a range since the last call.
    pub(super) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }
}
