//! Overload of a worker, which spends long on received datagrams.

use std::time::{Duration, Instant};

/// Time for which a worker counts as overloaded after the phases that showed it.
const WHILE: Duration = Duration::from_secs(1);
/// Long receive phases within [`WINDOW`] that show overload. One alone may be a handshake, or a thread that had to wait.
const PHASES: u8 = 4;
/// Time in which long receive phases are counted. Short ones may lie between them: a turn that only asks for more, say.
const WINDOW: Duration = Duration::from_millis(100);

/// Overload of a worker, by the receive phases of its turns.
#[derive(Debug, Default)]
pub(super) struct Overload {
    /// Long receive phases since `first`.
    phases: u8,
    /// Time of the first of them.
    first: Option<Instant>,
    /// End of the time for which the worker counts as overloaded.
    until: Option<Instant>,
}

impl Overload {
    /// Notes a receive phase that took `spent`; from `limit` on it was long, with a limit of zero none is.
    pub(super) fn on_phase(&mut self, spent: Duration, limit: Duration, now: Instant) {
        if limit.is_zero() || spent < limit {
            return;
        }
        let is_recent = |first: &Instant| now.saturating_duration_since(*first) <= WINDOW;
        if self.first.as_ref().is_none_or(|first| !is_recent(first)) {
            (self.first, self.phases) = (Some(now), 0);
        }
        self.phases = self.phases.saturating_add(1);
        if self.phases >= PHASES {
            self.until = Some(now + WHILE);
        }
    }

    /// Returns whether the worker counts as overloaded.
    pub(super) fn is_on(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}
