//! Overload of a worker, which spends long on received datagrams.

use std::time::{Duration, Instant};

/// Time for which a worker counts as overloaded after turns that showed it.
const WHILE: Duration = Duration::from_secs(1);
/// Turns in a row with a long receive phase that show overload. One alone may be a handshake, or a thread that had to wait.
const TURNS: u8 = 4;

/// Overload of a worker, by the receive phases of its turns.
#[derive(Debug, Default)]
pub(super) struct Overload {
    /// Turns in a row with a long receive phase.
    turns: u8,
    /// End of the time for which the worker counts as overloaded.
    until: Option<Instant>,
}

impl Overload {
    /// Notes a receive phase that took `spent`; from `limit` on it was long, with a limit of zero none is.
    pub(super) fn on_phase(&mut self, spent: Duration, limit: Duration, now: Instant) {
        if limit.is_zero() || spent < limit {
            self.turns = 0;
            return;
        }
        self.turns = self.turns.saturating_add(1);
        if self.turns >= TURNS {
            self.until = Some(now + WHILE);
        }
    }

    /// Returns whether the worker counts as overloaded.
    pub(super) fn is_on(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}
