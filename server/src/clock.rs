//! The only place where the server reads the time.

use std::time::{Duration, Instant, SystemTime};

/// Returns the monotonic time, for timers and for quiche.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn now() -> Instant {
    Instant::now()
}

/// Returns the time since 1970, for what outlives the process: tokens.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn unix() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}
