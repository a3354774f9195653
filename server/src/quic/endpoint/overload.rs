//! Overload: the worker drops datagrams of connections that achieve nothing with them.

use std::time::{Duration, Instant};

use super::Endpoint;

impl Endpoint {
    /// Ends the receive phase of a turn, which took `spent`. All connections of the worker wait for that phase.
    pub fn end_receive(&mut self, spent: Duration, now: Instant) {
        let limit = self.settings.limits.overload_after;
        self.overload.on_phase(spent, limit, now);
    }
}
