//! What the connections of a thread share: buffers, and the time.

use std::cell::RefCell;

use sluicegate_quic_client::Buffers;
use tokio::time::Instant;

thread_local! {
    /// Buffers of the thread's connections, which are used within a turn.
    static BUFFERS: RefCell<Buffers> = RefCell::default();
}

/// Runs `work` with the buffers of the thread.
pub(in crate::proxy) fn with_buffers<T>(work: impl FnOnce(&mut Buffers) -> T) -> T {
    BUFFERS.with_borrow_mut(work)
}

/// Sets the time of the thread's connections, before each use of one.
pub(in crate::proxy) fn set_time(now: Instant) {
    sluicegate_quic_client::set_time(Some(now.into_std()));
}
