//! Overload: a worker that spends long on received datagrams drops those of connections that achieve nothing with them.

use std::time::{Duration, Instant};

use super::Endpoint;

/// Time for which a worker counts as overloaded after a turn that showed it.
const WHILE: Duration = Duration::from_secs(1);

impl Endpoint {
    /// Ends the receive phase of a turn, which took `spent`. All connections of the worker wait for that phase.
    pub fn end_receive(&mut self, spent: Duration, now: Instant) {
        let limit = self.settings.limits.overload_after;
        if !limit.is_zero() && spent >= limit {
            self.overloaded_until = Some(now + WHILE);
        }
    }

    /// Returns whether a receive phase of the last second took too long.
    pub(super) fn is_overloaded(&self, now: Instant) -> bool {
        self.overloaded_until.is_some_and(|until| now < until)
    }
}
