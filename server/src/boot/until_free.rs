//! Waits for a port in use to become free.

use std::time::Duration;

use sluicegate_base::clock;

/// Time for a port in use to become free.
const LIMIT: Duration = Duration::from_secs(1);
/// Pause between two attempts.
const STEP: Duration = Duration::from_millis(20);

/// Repeats an attempt to bind for a second while the port is in use. A process that used io_uring and was killed holds its sockets for
/// a moment longer than it lives, and a supervisor starts the next one at once; a thread may be about to close those of a listener
/// that was removed.
pub(super) fn until_free<T, E>(
    attempt: impl Fn() -> Result<T, E>,
    is_in_use: impl Fn(&E) -> bool,
) -> Result<T, E> {
    let limit = clock::now() + LIMIT;
    loop {
        match attempt() {
            Err(error) if is_in_use(&error) && clock::now() < limit => {
                std::thread::park_timeout(STEP);
            }
            result => return result,
        }
    }
}
