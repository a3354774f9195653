//! Messages between a front and a handler that does not respond at once.

use std::time::Duration;

use bytes::Bytes;

use super::{Fields, Opaque, RequestHead};
use crate::http::peer::Peer;

/// Cost of a block beyond its bytes: one-byte blocks must not cost more memory than they are charged.
const BLOCK_OVERHEAD: u64 = 256;

/// Returns what `bytes` of a body or head count against a credit.
pub fn cost(bytes: usize) -> u64 {
    bytes as u64 + BLOCK_OVERHEAD
}

/// A request for a handler, with its body to follow.
#[derive(Clone, Debug)]
pub struct Request {
    /// Head of the request; the front has checked it.
    pub head: RequestHead,
    /// The client.
    pub peer: Peer,
    /// The handler that the gate chose; only the origin thread knows its type.
    pub handler: Opaque,
    /// Longest time that the exchange may take.
    pub timeout: Option<Duration>,
    /// The length that the client promised for the body; the front holds it to it.
    pub content_length: Option<u64>,
    /// Whether a body follows; it may be empty.
    pub has_body: bool,
}

/// A message about one exchange.
#[derive(Debug)]
pub struct Envelope<T> {
    /// The front's number for the exchange, never used twice.
    pub exchange: u64,
    /// The message.
    pub message: T,
}

/// Messages from a front to a handler.
#[derive(Debug)]
pub enum ToHandler {
    /// A new exchange: the handler may send blocks of `credit` in all, by [`cost`].
    Open {
        /// The request.
        request: Box<Request>,
        /// Credit for the response, by [`cost`].
        credit: u64,
    },
    /// The next block of the request's body.
    Data(Bytes),
    /// The request is complete.
    End(Option<Fields>),
    /// That much of the response has left the front.
    Credit(u64),
    /// The client has cancelled the request. The last message of an exchange.
    Cancel,
}

/// Messages from a handler to a front.
#[derive(Debug)]
pub enum ToFront {
    /// An informational response; counts as one block.
    Interim(u16, Fields),
    /// The head of the final response.
    Head(Head),
    /// The next block of the response's body.
    Data(Bytes),
    /// The response is complete.
    End(Option<Fields>),
    /// The handler failed: the status says how if no head was sent; what was sent must not look whole.
    Abort(u16),
    /// That much of the request's body has been used.
    Credit(u64),
    /// The handler wants no more of the request's body.
    StopBody,
    /// An entry that the front may answer the same request with for a while; `None` replaces an earlier entry by nothing.
    Keep(Option<Opaque>),
    /// Nothing of the exchange is left on the handler's side. Its last message, after a cancellation too.
    Closed,
}

/// The head of a final response.
#[derive(Debug)]
pub struct Head {
    /// Status, 200 to 599.
    pub status: u16,
    /// Fields, without those that frame the message.
    pub fields: Fields,
    /// The body's length where it is known; what a GET would have got, for HEAD.
    pub length: Option<u64>,
    /// No body and no trailers follow.
    pub end: bool,
}
