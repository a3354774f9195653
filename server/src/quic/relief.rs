//! State of a worker's relief while memory is short: who has most connections, and how many may be closed.

use std::time::Instant;

use super::holders::{Holder, Holders};

/// Connections at this worker that every client and proxy keeps.
const KEPT: u64 = 16;

/// Progress of the relief; at rest while memory suffices.
#[derive(Debug, Default)]
pub(super) struct Relief {
    /// Slot that is looked at next.
    pub(super) next: usize,
    /// Number of connections that a client, or a proxy, keeps in this round; `None` before the first.
    pub(super) keeps: Option<u64>,
    /// Whether connections with open requests are closed, too: a round has found no others.
    pub(super) busy_too: bool,
    /// Whether connections of proxies are closed: rounds have found none of clients.
    of_proxies: bool,
    /// Whether this round has closed a connection.
    pub(super) closed: bool,
    /// End of the present period.
    pub(super) period_end: Option<Instant>,
    /// Connections that may still be closed in it.
    pub(super) left: usize,
}

impl Relief {
    /// Returns to the first slot. A round that has closed nothing makes the next one less sparing.
    pub(super) fn begin_round(&mut self, holders: &Holders) {
        if self.keeps.is_some() && !self.closed {
            let next = self.busy_too && !self.of_proxies;
            self.of_proxies |= next;
            self.busy_too = !next;
        }
        self.keeps = Some(KEPT.max(holders.most(self.of_proxies) / 2));
        (self.next, self.closed) = (0, false);
    }

    /// Returns whether one who has `open` connections is to lose some in this round.
    pub(super) fn is_greedy(&self, holder: Holder, open: u64) -> bool {
        holder.is_proxy() == self.of_proxies && self.keeps.is_some_and(|keeps| open > keeps)
    }
}
