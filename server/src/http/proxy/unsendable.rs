//! Requests that no upstream can be sent.

/// Reasons for a request not to be passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsendable {
    /// The method is no token.
    Method,
    /// The path holds what HTTP/1.1 has no place for, or is too long.
    Path,
    /// The authority cannot stand in a field.
    Authority,
    /// Too many fields.
    Fields,
    /// The request asks for a tunnel.
    Tunnel,
    /// Length and body of the request contradict each other.
    Length,
    /// It was to go no further than here (RFC 9110 §7.6.2).
    LastHop,
}

impl Unsendable {
    /// Returns the status and the text that the client gets.
    pub(super) fn status(self) -> (u16, &'static str) {
        match self {
            Unsendable::Method => (400, "400 this method cannot be passed on\n"),
            Unsendable::Path => (400, "400 this path cannot be passed on\n"),
            Unsendable::Authority => (400, "400 this host cannot be passed on\n"),
            Unsendable::Fields => (431, "431 too many header fields\n"),
            Unsendable::Tunnel => (501, "501 this server opens no tunnels\n"),
            Unsendable::LastHop => (200, "200 max-forwards ends here\n"),
            Unsendable::Length => (400, "400 content-length does not fit the body\n"),
        }
    }
}
