//! What a response needs of its stream before it can go on.

use quiche::h3::NameValue;

use super::{Content, Response};

/// Length of a field line beyond its name and its value, at most, bytes: an index and two lengths.
const LINE: usize = 8;
/// Length of a DATA frame's header and a byte of its content, at most, bytes.
const FRAME: u64 = 10;

impl Response {
    /// Returns the number of bytes without which the stream takes nothing of what waits to be written; `None` if nothing does.
    pub(in crate::h3) fn next_write(&self) -> Option<u64> {
        if let Some((_, head)) = self.heads.front() {
            let lines = { head.iter() }.map(|line| line.name().len() + line.value().len() + LINE);
            return Some(lines.sum::<usize>() as u64);
        }
        let waits = match &self.content {
            Content::Whole(_) => true,
            Content::Flow(flow) => self.headed && (flow.ended || !flow.blocks.is_empty()),
        };
        waits.then_some(FRAME)
    }
}
