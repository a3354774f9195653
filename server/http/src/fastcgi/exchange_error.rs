//! Names the ends of an exchange without a script's whole response.

use sluicegate_base::observe::metrics::Label as _;

use crate::exchange::Reply;
use crate::exchange::handler::Cancelled;
use crate::proxy::Failure;

/// Reasons for an exchange to end without a script's whole response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExchangeError {
    /// The FastCGI server failed.
    Failed(Failure),
    /// The body is too long to be kept until its length is known.
    LengthRequired,
    /// There is no room to keep the body until its length is known.
    NoRoom,
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
            ExchangeError::LengthRequired => Some("length_required"),
            ExchangeError::NoRoom => Some("no_room"),
            ExchangeError::ClientStalled => Some("client_stalled"),
            ExchangeError::Cancelled => None,
        }
    }

    /// Returns the response if none has begun; `None` for a client that waits for nothing.
    pub(super) fn reply(self) -> Option<Reply> {
        Some(match self {
            ExchangeError::Failed(failure) => failure.reply(),
            ExchangeError::LengthRequired => {
                Reply::plain(411, "411 state the length of the body\n")
            }
            ExchangeError::NoRoom => {
                Reply::plain(503, "503 no room for the body; state its length\n")
            }
            ExchangeError::ClientStalled => {
                Reply::plain(408, "408 the request's body stood still\n")
            }
            ExchangeError::Cancelled => return None,
        })
    }
}

impl From<Cancelled> for ExchangeError {
    fn from(_: Cancelled) -> ExchangeError {
        ExchangeError::Cancelled
    }
}
