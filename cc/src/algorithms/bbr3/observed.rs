//! The facts that the latest calls reported.

use std::time::Duration;

use crate::{Event, Time};

/// Time, bytes in flight and round trips as the transport sees them.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// Latest time; `None` before the first call.
    now: Option<Time>,
    /// Bytes in flight before the present event.
    pub(super) in_flight_before: u64,
    /// Bytes in flight after it.
    pub(super) in_flight: u64,
    /// Smoothed round-trip time; zero before the first sample.
    pub(super) srtt: Duration,
    /// Newest round-trip sample; zero before the first.
    pub(super) latest_rtt: Duration,
}

impl Observed {
    /// Returns the latest time.
    pub(super) fn now(&self) -> Time {
        self.now.unwrap_or_default()
    }

    /// Sets the time, unless it is earlier than the latest one. Returns whether this is the first.
    pub(super) fn advance(&mut self, now: Time) -> bool {
        let first = self.now.is_none();
        self.now = Some(self.now().max(now));
        first
    }

    /// Notes what an event reports.
    pub(super) const fn on_event(&mut self, event: &Event<'_>) {
        self.in_flight_before = event.in_flight_before;
        self.in_flight = event.in_flight;
        if event.rtt_updated {
            self.srtt = event.rtt.smoothed;
            self.latest_rtt = event.rtt.latest;
        }
    }
}
