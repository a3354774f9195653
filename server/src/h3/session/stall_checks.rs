//! Plan of a session's checks for stalled requests.

use std::time::Instant;

/// Checks of a session's requests, all at the same times; there are none while no request is open.
#[derive(Debug, Default)]
pub(super) struct StallChecks {
    /// Times of the last check and of the next one.
    pub(super) planned: Option<(Instant, Instant)>,
    /// Bytes of packets that the client had acknowledged at the last check.
    pub(super) acknowledged: u64,
    /// Something was unacknowledged at the last check.
    pub(super) unacked: bool,
}
