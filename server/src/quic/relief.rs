//! State of a worker's relief while memory is short: who has most connections, and how many may be closed.

use std::time::Instant;

/// Connections at this worker that every client keeps.
const KEPT: u64 = 16;

/// Progress of the relief; at rest while memory suffices.
#[derive(Debug, Default)]
pub(super) struct Relief {
    /// Slot that is looked at next.
    pub(super) next: usize,
    /// Number of connections that a client keeps in this round; `None` before the first.
    pub(super) keeps: Option<u64>,
    /// Whether connections with open requests are closed, too: a round has found no others.
    pub(super) busy_too: bool,
    /// Whether this round has closed a connection.
    pub(super) closed: bool,
    /// End of the present period.
    pub(super) period_end: Option<Instant>,
    /// Connections that may still be closed in it.
    pub(super) left: usize,
}

impl Relief {
    /// Returns to the first slot. A client has `most` connections, and none has more.
    pub(super) fn begin_round(&mut self, most: u64) {
        self.busy_too |= self.keeps.is_some() && !self.closed;
        self.keeps = Some(KEPT.max(most / 2));
        (self.next, self.closed) = (0, false);
    }
}
