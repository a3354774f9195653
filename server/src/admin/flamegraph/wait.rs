//! The time of a recording.

use std::thread;
use std::time::Duration;

use sluicegate_base::clock;

/// Time between two looks at whether a recording is cancelled.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Waits for as long as a recording lasts. Returns false if it is cancelled.
pub(super) fn wait(length: Duration, is_cancelled: &dyn Fn() -> bool) -> bool {
    let end = clock::now() + length;
    loop {
        let left = end.saturating_duration_since(clock::now());
        if left.is_zero() {
            return true;
        }
        if is_cancelled() {
            return false;
        }
        thread::park_timeout(left.min(CHECK_INTERVAL));
    }
}
