//! Names the requests that cannot be forwarded.

/// Reasons not to forward a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestError {
    /// The method is not a token.
    Method,
    /// The path has characters that a request target cannot hold, or is too long.
    Path,
    /// The authority cannot stand in a field.
    Authority,
    /// The request has too many fields.
    Fields,
    /// The request asks for a tunnel that carries something else than WebSocket.
    Tunnel,
    /// Length and body of the request contradict each other.
    Length,
    /// `max-forwards` is 0 (RFC 9110 §7.6.2).
    LastHop,
}

impl RequestError {
    /// Returns the status and the text that the client gets.
    pub(super) fn status(self) -> (u16, &'static str) {
        match self {
            RequestError::Method => (400, "400 this method cannot be passed on\n"),
            RequestError::Path => (400, "400 this path cannot be passed on\n"),
            RequestError::Authority => (400, "400 this host cannot be passed on\n"),
            RequestError::Fields => (431, "431 too many header fields\n"),
            RequestError::Tunnel => (501, "501 no such tunnel on this route\n"),
            RequestError::LastHop => (200, "200 max-forwards ends here\n"),
            RequestError::Length => (400, "400 content-length does not fit the body\n"),
        }
    }
}
