//! Plan of a session's checks for stalled requests.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Checks of a session's requests, all at the same times; there are none while no request has begun.
#[derive(Debug, Default)]
pub(super) struct StallChecks {
    /// Times of the last check and of the next one.
    pub(super) planned: Option<(Instant, Instant)>,
    /// Bytes of packets that the client had acknowledged at the last check.
    pub(super) acknowledged: u64,
    /// Something was unacknowledged at the last check.
    pub(super) unacked: bool,
    /// Streams whose request has begun without a whole head, and the time that they have waited for it.
    pub(super) headless: BTreeMap<u64, Duration>,
    /// Number of streams that had begun when the last plan ended.
    pub(super) begun: u64,
}

impl StallChecks {
    /// Plans a check for `at`, unless one is planned before.
    pub(super) fn plan_at(&mut self, now: Instant, at: Instant) {
        let (last, next) = self.planned.unwrap_or((now, at));
        self.planned = Some((last, next.min(at)));
    }
}
