//! Names the ends of an exchange without an upstream's whole response.

use sluicegate_base::observe::metrics::Label as _;

use super::failure::Failure;
use super::unsendable::Unsendable;
use crate::exchange::handler::Cancelled;

/// Reasons for an exchange to end without an upstream's whole response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The upstream failed.
    Failed(Failure),
    /// The request cannot be forwarded.
    Unsendable(Unsendable),
    /// The client has cancelled the request.
    Cancelled,
    /// The client has stopped sending the body.
    ClientStalled,
}

impl Stop {
    /// Returns the word of the cause in the access log, unless the client itself cancelled.
    pub(super) fn cause(self) -> Option<&'static str> {
        match self {
            Stop::Failed(failure) => Some(failure.name()),
            Stop::Unsendable(_) => Some("unsendable"),
            Stop::ClientStalled => Some("client_stalled"),
            Stop::Cancelled => None,
        }
    }
}

impl From<Cancelled> for Stop {
    fn from(_: Cancelled) -> Stop {
        Stop::Cancelled
    }
}

impl From<Unsendable> for Stop {
    fn from(unsendable: Unsendable) -> Stop {
        Stop::Unsendable(unsendable)
    }
}
