//! Events for the main thread.

use super::control_socket::{ControlRequest, Reply};
use crate::boot::signal::Signal;
use crate::handover::News;
use crate::tcp;
use crate::worker::WorkerReport;

/// An event for the main thread.
pub(super) enum Event {
    Worker(WorkerReport),
    /// A front over TCP has drained or stopped.
    Front(Box<tcp::TcpCounters>),
    Signal(Signal),
    /// Somebody asks at the control socket, and waits for the verdict.
    Asked(ControlRequest, Reply),
    /// News of the process that an upgrade, of this number, has started.
    Newer(u64, NewerNews),
    /// News of the process that this one takes over from.
    Older(OlderNews),
    /// ACME has obtained certificates.
    Certificates,
}

/// News of the process before this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OlderNews {
    /// It reads the sockets no more.
    Read,
    /// The oldest process that still runs is of this generation now.
    Oldest(u8),
    /// It has ended.
    Gone,
    /// Nothing can come from it any more, nor go to it.
    Closed,
}

/// News of the newer process.
#[derive(Clone, Debug)]
pub(super) enum NewerNews {
    News(News),
    /// It has ended, for this reason.
    Ended(String),
}

impl NewerNews {
    pub(super) fn news(&self) -> News {
        match self {
            NewerNews::News(news) => *news,
            NewerNews::Ended(_) => News::Gone,
        }
    }

    pub(super) fn reason(&self) -> &str {
        match self {
            NewerNews::News(_) => "",
            NewerNews::Ended(reason) => reason,
        }
    }
}
