//! Response in place of a handler's, with its cause for the access log.

use super::replies::no_room;
use crate::http::exchange::Reply;

/// Response of the server itself to a request that it does not, or no longer, leave to a handler.
#[derive(Debug)]
pub struct Refusal {
    /// The response.
    pub reply: Reply,
    /// Cause of a 5xx status or of 429: the `reason` of `sluicegate_http_requests_refused_total`.
    pub cause: Option<&'static str>,
}

impl Refusal {
    /// Returns a refusal by the server's own state, or by what it has counted.
    pub fn because(cause: &'static str, reply: Reply) -> Refusal {
        Refusal { reply, cause: Some(cause) }
    }

    /// Returns the refusal of a request for which there is no room.
    pub fn no_room() -> Refusal {
        Refusal::because("no_room", no_room())
    }
}

impl From<Reply> for Refusal {
    /// Returns a refusal by the request's own fault, or a response that needs no handler.
    fn from(reply: Reply) -> Refusal {
        Refusal { reply, cause: None }
    }
}
