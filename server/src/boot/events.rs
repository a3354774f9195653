//! Events for the main thread.

use std::os::fd::OwnedFd;

use super::control_socket::{ControlRequest, Reply};
use crate::boot::signal::Signal;
use crate::handover::News;
use crate::handover::message::DrainingProcess;
use crate::tcp;
use crate::worker::WorkerReport;

/// Number of the process that has started this one, beside those of the processes that this one starts.
pub(super) const OLDER: u64 = 0;

/// An event for the main thread.
pub(super) enum Event {
    Worker(WorkerReport),
    /// The front over TCP beside the worker of this group and index has drained or stopped.
    Front(String, u8, Box<tcp::TcpCounters>),
    Signal(Signal),
    /// Somebody asks at the control socket, and waits for the verdict.
    Asked(ControlRequest, Reply),
    /// News of a process that this one leaves the service to, or has left it to: of that number.
    Other(u64, OtherNews),
    /// The process that this one has started by the upgrade of this number has bound a socket behind those of the address of this label.
    Added(u64, u16, OwnedFd),
    /// News of the process that this one takes over from.
    Older(OlderNews),
    /// A process that drains says so, by the other process of this number.
    Drains(u64, DrainingProcess),
    /// The access log was renamed, says the other process of this number.
    Reopen(u64),
    /// ACME has obtained certificates.
    Certificates,
}

/// News of the process before this one, as it hands over.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// News of another process on the way of the service to it, or back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OtherNews {
    News(News),
    /// It does not take the service, for this reason.
    Declined(String),
    /// It has ended, for this reason.
    Ended(String),
}

impl OtherNews {
    pub(super) fn news(&self) -> News {
        match self {
            OtherNews::News(news) => *news,
            OtherNews::Declined(_) => News::Declined,
            OtherNews::Ended(_) => News::Gone,
        }
    }

    pub(super) fn reason(&self) -> &str {
        match self {
            OtherNews::News(_) => "",
            OtherNews::Declined(reason) | OtherNews::Ended(reason) => reason,
        }
    }
}
