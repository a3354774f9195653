//! A worker as other threads know it.

use super::MailboxSender;
use crate::http::origin;
use crate::tcp::FrontSender;

/// A worker's name and the ways to reach it and its origin thread.
#[derive(Clone, Debug)]
pub struct WorkerHandle {
    /// Name of the worker group.
    pub group: String,
    /// Index within the group.
    pub index: usize,
    /// Sender to the worker's mailbox.
    pub mailbox: MailboxSender,
    /// Sender to the worker's origin thread.
    pub origin: origin::OriginSender,
    /// Sender to the front over TCP on that thread.
    pub front: FrontSender,
}
