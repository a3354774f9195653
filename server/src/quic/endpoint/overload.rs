//! Overload: the worker drops datagrams of connections that achieve nothing with them.

use std::time::{Duration, Instant};

use super::Endpoint;
use crate::quic::application::Application;

impl<A: Application> Endpoint<A> {
    /// Ends the receive phase of a turn, which took `spent`. All connections of the worker wait for that phase. The service of
    /// those that achieve little has been added to it.
    pub fn end_receive(&mut self, spent: Duration, now: Instant) {
        let percent = self.settings.limits.overload_above;
        self.overload.on_phase(spent, percent, now);
    }
}
