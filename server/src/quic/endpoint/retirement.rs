//! State of a listener that a reload has removed.

use std::time::Duration;

use sluicegate_dataplane::ListenerId;

use crate::quic::settings::Lease;

/// A removed listener that still has connections.
#[derive(Debug)]
pub(super) struct Retirement {
    pub(super) listener: ListenerId,
    /// Time that requests get to finish.
    pub(super) limit: Duration,
    /// First slot whose connection was not looked at.
    pub(super) next: usize,
    /// Need of the sockets, until the last connection has ended.
    pub(super) _lease: Lease,
}
