//! Errors of the system that say nothing of the other process.

use std::time::Duration;

use rustix::io::Errno;

/// Pause before the next attempt: the system is short of memory, or has too many descriptors on their way.
pub(super) const PAUSE: Duration = Duration::from_millis(10);

/// Returns whether the next attempt may succeed.
pub(super) fn is_transient(error: Errno) -> bool {
    matches!(error, Errno::INTR | Errno::NOBUFS | Errno::NOMEM)
}
