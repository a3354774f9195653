//! The clock that a simulation moves.

use std::time::{Duration, Instant};

/// Returns the earliest of the times that there are.
pub(crate) fn earliest<T: Ord, const N: usize>(times: [Option<T>; N]) -> Option<T> {
    times.into_iter().flatten().min()
}

/// The time that quiche sees on this thread, until dropped.
pub(crate) struct VirtualClock {
    start: Instant,
    now: Instant,
}

impl VirtualClock {
    pub(crate) fn start() -> Self {
        quiche::clock::set(None);
        let start = quiche::clock::now();
        quiche::clock::set(Some(start));
        Self { start, now: start }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.now.saturating_duration_since(self.start)
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Returns how long after the start `at` is.
    pub(crate) fn since_start(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.start)
    }

    /// Sets the time since the start; it never goes back.
    pub(crate) fn advance_to(&mut self, elapsed: Duration) {
        self.now = self.now.max(self.start + elapsed);
        quiche::clock::set(Some(self.now));
    }
}

impl Drop for VirtualClock {
    fn drop(&mut self) {
        quiche::clock::set(None);
    }
}
