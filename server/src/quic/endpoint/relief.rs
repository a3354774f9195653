//! Relief while memory is short: clients that hold most of the connections lose some, and only then proxies that listeners trust.
//!
//! Newcomers are refused then. Without relief, whoever used the memory up would keep it, and lock all others out.
//!
//! A turn looks at a few connections, slot by slot. A round over all of them closes connections of the client that has most at its
//! beginning and of those that have more than half as many: those without requests first. When rounds find no others, it is
//! the proxies' turn in the same way.

use std::time::{Duration, Instant};

use super::Endpoint;
use crate::quic::relief::Relief;

/// Slots that a turn looks at, at most.
const SCANNED_PER_TURN: usize = 256;
/// Connections that a turn closes, at most.
const CLOSED_PER_TURN: usize = 16;
/// Time in which a closed connection frees its memory, and a measurement notices.
const PERIOD: Duration = Duration::from_millis(200);
/// Part of the worker's connections that is closed in a period, beside those of one turn.
const CLOSED_PER_PERIOD: usize = 64;

impl Endpoint {
    /// Closes connections of the clients that have most if memory is short; called once per turn.
    pub(super) fn relieve(&mut self, now: Instant) {
        if !self.settings.sessions.memory_is_short() {
            if self.relief.period_end.is_some() {
                self.relief = Relief::default();
            }
            return;
        }
        if self.relief.period_end.is_none_or(|end| end <= now) {
            self.relief.period_end = Some(now + PERIOD);
            self.relief.left = self.len() / CLOSED_PER_PERIOD + CLOSED_PER_TURN;
        }
        let mut closed = 0;
        for _ in 0..SCANNED_PER_TURN.min(self.connections.len()) {
            if closed == CLOSED_PER_TURN.min(self.relief.left) {
                break;
            }
            if self.relief.keeps.is_none() || self.relief.next >= self.connections.len() {
                self.relief.begin_round(&self.holders);
            }
            let slot = self.relief.next;
            self.relief.next += 1;
            closed += usize::from(self.close_if_greedy(slot, now));
        }
        self.relief.left -= closed;
    }

    /// Closes the connection if its holder has more than it keeps. Returns whether it did.
    fn close_if_greedy(&mut self, slot: usize, now: Instant) -> bool {
        let Some(connection) = self.connections[slot].as_mut() else {
            return false;
        };
        let Some(holder) = connection.holder else {
            return false;
        };
        let open = self.holders.open(holder);
        let greedy = self.relief.is_greedy(holder, open);
        if !greedy || !connection.give_up(self.relief.busy_too) {
            return false;
        }
        // It counts no longer, or the client would lose more than it has too many before the first one is gone.
        connection.holder = None;
        self.holders.leave(holder);
        self.relief.closed = true;
        self.counters.relieved += 1;
        self.queue_service(slot);
        if self.may_log(now) {
            tracing::warn!(client = %holder, open, closed = self.counters.relieved, "connection closed: memory is short");
        }
        true
    }
}
