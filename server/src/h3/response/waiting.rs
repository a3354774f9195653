//! Computes the room that a response needs on its stream before it can continue.

use super::{Content, Response};

/// Length of a DATA frame's header and a byte of its content, at most, bytes.
const FRAME: u64 = 10;

impl Response {
    /// Returns the number of bytes without which the stream takes nothing of what waits to be written; `None` if nothing does.
    pub(in crate::h3) fn next_write(&self) -> Option<u64> {
        if let Some((_, head)) = self.heads.first() {
            return Some(head.longest() as u64);
        }
        let waits = match &self.content {
            Content::Whole(_) => true,
            Content::Flow(flow) => {
                let waits = flow.ended || !flow.blocks.is_empty() || flow.ranges.is_reading();
                self.headed && waits
            }
        };
        waits.then_some(FRAME)
    }
}
