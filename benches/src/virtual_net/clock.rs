//! The clock that a simulation moves.

use std::time::{Duration, Instant};

/// Returns the earliest of the times that there are.
pub(crate) fn earliest<T: Ord, const N: usize>(times: [Option<T>; N]) -> Option<T> {
    times.into_iter().flatten().min()
}

/// Time since 1970 at which a run starts.
const UNIX: Duration = Duration::from_secs(1_800_000_000);

/// The time that quiche and the product see on this thread, until dropped.
pub(crate) struct VirtualClock {
    start: Instant,
    now: Instant,
}

impl VirtualClock {
    pub(crate) fn start() -> Self {
        quiche::clock::set(None);
        let start = quiche::clock::now();
        quiche::clock::set(Some(start));
        sluicegate_base::clock::set_unix(Some(UNIX));
        Self { start, now: start }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.now.saturating_duration_since(self.start)
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Returns the time since 1970.
    pub(crate) fn unix(&self) -> Duration {
        UNIX + self.elapsed()
    }

    /// Returns how long after the start `at` is.
    pub(crate) fn since_start(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.start)
    }

    /// Sets the time since the start; it never goes back.
    pub(crate) fn advance_to(&mut self, elapsed: Duration) {
        self.now = self.now.max(self.start + elapsed);
        quiche::clock::set(Some(self.now));
        sluicegate_base::clock::set_unix(Some(self.unix()));
    }
}

impl Drop for VirtualClock {
    fn drop(&mut self) {
        quiche::clock::set(None);
        sluicegate_base::clock::set_unix(None);
    }
}
