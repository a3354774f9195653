//! Facts of a request for the access log.

use std::net::SocketAddr;
use std::time::Duration;

/// End of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The whole response was handed to its stream.
    Complete,
    /// The client reset or stopped the stream, or closed the connection.
    Cancelled,
    /// The server reset the stream: the client took nothing of the response for too long, or sent nothing of the body.
    Stalled,
    /// The server reset the stream: the request was malformed, or its response could not be finished.
    Reset,
}

impl Outcome {
    /// Returns the word for it in a line.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Complete => "complete",
            Outcome::Cancelled => "cancelled",
            Outcome::Stalled => "stalled",
            Outcome::Reset => "reset",
        }
    }
}

/// The facts of a request that a line holds.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Time when the head was received, since 1970.
    pub received: Duration,
    /// Time from then until the end.
    pub duration: Duration,
    /// Address of the client at the end.
    pub client: SocketAddr,
    /// Name of the listener.
    pub listener: &'a str,
    /// Protocol of the request, as in `HTTP/3`.
    pub protocol: &'a str,
    /// Method as sent; empty where the head was malformed, like the next three.
    pub method: &'a str,
    /// Host, and port if there is one.
    pub authority: &'a str,
    /// Path, up to the first `?`.
    pub path: &'a str,
    /// Query, behind the first `?`.
    pub query: Option<&'a str>,
    /// Status of the response, if its head was handed to the stream.
    pub status: Option<u16>,
    /// Bytes of the response's body handed to the stream.
    pub bytes_sent: u64,
    /// Bytes of the request's body received.
    pub bytes_received: u64,
    /// Value of `referer`.
    pub referer: Option<&'a [u8]>,
    /// Value of `user-agent`.
    pub user_agent: Option<&'a [u8]>,
    /// First destination connection ID of the client, after which the connection's trace is named, too.
    pub connection: &'a [u8],
    /// Congestion control algorithm of the connection.
    pub algorithm: &'a str,
    /// End of the exchange.
    pub outcome: Outcome,
}
