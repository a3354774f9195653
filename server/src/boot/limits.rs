//! Time limits for threads.

use std::time::Duration;

/// Time for a started worker to serve.
pub(super) const START_LIMIT: Duration = Duration::from_secs(30);
/// Time after which certificates that could not be put to use are tried again.
pub(super) const CERTIFICATES_PAUSE: Duration = Duration::from_secs(60);
/// Time for workers to open the sockets of a reload.
pub(super) const REBIND_LIMIT: Duration = Duration::from_secs(5);
/// Time after which sockets of removed listeners that could not be closed are tried again.
pub(super) const REMOVAL_PAUSE: Duration = Duration::from_secs(5);
/// Time for stopping workers to close their connections, and for each log to be written to its end.
pub(super) const STOP_LIMIT: Duration = Duration::from_secs(2);
