//! Body of a handler's response on its way to the client.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::exchange::Fields;
use crate::exchange::lent::LentRange;
use crate::exchange::message::cost;

/// Largest block that is read of a lent range, bytes.
const BLOCK: usize = 64 * 1024;
/// Bytes of each of the first two blocks, so that a client that takes nothing holds little memory.
const FIRST: usize = 16 * 1024;

/// Next part of a response for its client.
#[derive(Debug, PartialEq, Eq)]
pub enum Next<'a> {
    /// The front of a block; the response ends with the last byte of it if the flag is set.
    Block(&'a mut Bytes, bool),
    /// The end, perhaps with trailers.
    End(Option<&'a Fields>),
    /// Nothing, until the handler sends more.
    Wait,
    /// Nothing: the body has another length than the head says, so the response is cut.
    WrongLength,
    /// Nothing: the response is cut.
    Cut,
}

/// Body of a handler's response, as far as the client has not taken it.
#[derive(Debug, Default)]
pub(super) struct HandlerBody {
    /// Blocks that the client has not taken; of the first perhaps a part.
    blocks: VecDeque<Bytes>,
    /// Bytes taken of the first one.
    taken: u64,
    /// Lent range that follows the blocks, or one that is over and not returned yet.
    range: Option<Box<LentRange>>,
    /// The first block comes from a range, so that it has no credit to return.
    is_lent: bool,
    /// A block of a range was taken since the last look.
    pub(super) has_lent_moved: bool,
    /// Length by the head.
    pub(super) length: Option<u64>,
    trailers: Option<Fields>,
    /// Nothing more comes from the handler.
    pub(super) is_ended: bool,
    /// Bytes of the response's body that the client has taken.
    pub(super) sent: u64,
    /// Credit to return to the handler, by [`cost`].
    pub(super) credit: u64,
}

impl HandlerBody {
    pub(super) fn push(&mut self, block: Bytes) {
        self.blocks.push_back(block);
    }

    pub(super) fn lend(&mut self, range: Box<LentRange>) {
        debug_assert!(self.range.is_none(), "a handler lends one range at a time");
        self.range = Some(range);
    }

    pub(super) fn end(&mut self, trailers: Option<Fields>) {
        self.trailers = trailers.filter(|fields| !fields.is_empty());
        self.is_ended = true;
    }

    /// Drops what the client has not taken.
    pub(super) fn clear(&mut self) {
        self.blocks.clear();
        self.range = None;
    }

    /// Reads a block of a lent range if no other waits. Returns whether the body keeps to its length.
    pub(super) fn prepare(&mut self) -> bool {
        if self.blocks.is_empty() {
            self.read();
        }
        self.length.is_none_or(|length| match self.blocks.front() {
            Some(block) => self.sent + block.len() as u64 <= length,
            None => !self.is_ended || self.sent == length,
        })
    }

    /// Returns what follows, once it is prepared.
    pub(super) fn next(&mut self) -> Next<'_> {
        let blocks = self.blocks.len();
        let Some(block) = self.blocks.front_mut() else {
            return if self.is_ended { Next::End(self.trailers.as_ref()) } else { Next::Wait };
        };
        // The end goes with the last block, if that is known to be the last and the length is right.
        let after = self.sent + block.len() as u64;
        let is_last = blocks == 1
            && self.is_ended
            && self.trailers.is_none()
            && self.length.is_none_or(|length| after == length);
        Next::Block(block, is_last)
    }

    fn read(&mut self) {
        let most = if self.sent < 2 * FIRST as u64 { FIRST } else { BLOCK };
        if let Some(range) = &mut self.range
            && let Some(block) = range.next_block(most)
        {
            self.is_lent = true;
            self.is_ended |= range.completes();
            self.blocks.push_back(block);
        }
    }

    /// Notes that the client has taken so many bytes, which have left the first block if there is one.
    pub(super) fn on_taken(&mut self, count: u64) {
        self.sent += count;
        let Some(block) = self.blocks.front() else {
            return;
        };
        self.taken += count;
        if block.is_empty() {
            self.blocks.pop_front();
            let taken = std::mem::take(&mut self.taken);
            if std::mem::take(&mut self.is_lent) {
                self.has_lent_moved = true;
            } else {
                self.credit += taken + cost(0);
            }
        }
    }

    /// Returns how many bytes were read of a range that is over now, once. Its source was dropped before.
    pub(super) fn take_range_read(&mut self) -> Option<u64> {
        let range = self.range.take_if(|range| range.is_over())?;
        Some(range.read())
    }

    pub(super) fn is_reading_range(&self) -> bool {
        self.range.as_ref().is_some_and(|range| !range.is_over())
    }

    /// Returns whether the client has taken all that has come of the body.
    pub(super) fn is_drained(&self) -> bool {
        self.blocks.is_empty() && !self.is_reading_range()
    }

    /// Returns whether nothing more follows, not even trailers.
    pub(super) fn is_empty(&self) -> bool {
        self.is_ended && self.is_drained() && self.trailers.is_none()
    }
}
