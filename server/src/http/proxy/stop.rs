//! Names the ends of an exchange without an upstream's whole response.

use super::failure::Failure;
use super::unsendable::Unsendable;
use crate::http::exchange::handler::Cancelled;

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
