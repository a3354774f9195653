//! Names the ends of an exchange without an upstream's whole response.

use sluicegate_base::observe::metrics::Label as _;

use super::failure::Failure;
use super::request_error::RequestError;
use crate::exchange::handler::Cancelled;

/// Reasons for an exchange to end without an upstream's whole response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExchangeError {
    /// The upstream failed.
    Failed(Failure),
    /// The request cannot be forwarded.
    Request(RequestError),
    /// The client has cancelled the request.
    Cancelled,
    /// The client has stopped sending the body.
    ClientStalled,
}

impl ExchangeError {
    /// Returns the word of the cause in the access log, unless the client itself cancelled.
    pub(super) fn cause(self) -> Option<&'static str> {
        match self {
            ExchangeError::Failed(failure) => Some(failure.name()),
            ExchangeError::Request(_) => Some("unsendable"),
            ExchangeError::ClientStalled => Some("client_stalled"),
            ExchangeError::Cancelled => None,
        }
    }
}

impl From<Cancelled> for ExchangeError {
    fn from(_: Cancelled) -> ExchangeError {
        ExchangeError::Cancelled
    }
}

impl From<RequestError> for ExchangeError {
    fn from(error: RequestError) -> ExchangeError {
        ExchangeError::Request(error)
    }
}
