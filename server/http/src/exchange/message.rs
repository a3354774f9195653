//! Messages between a front and a handler.
//!
//! The directions of an exchange are independent: neither the head nor the end of a response ends the request's body.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Version;
use sluicegate_base::observe::access::UpstreamTimes;
use sluicegate_base::observe::account::Wait;

use super::lent::LentRange;
use super::{Fields, Opaque, RequestHead};
use crate::peer::Peer;

/// Cost of a block beyond its bytes, so that one-byte blocks take no more memory than their credit.
const BLOCK_OVERHEAD: u64 = 256;

/// Returns the credit that a block or a head of so many bytes takes.
pub fn cost(bytes: usize) -> u64 {
    bytes as u64 + BLOCK_OVERHEAD
}

/// Request for a handler; its body follows in further messages.
#[derive(Clone, Debug)]
pub struct Request {
    /// Head of the request.
    pub head: RequestHead,
    /// Client of the request.
    pub peer: Peer,
    /// Handler that the gate chose; only the origin thread knows its type.
    pub handler: Opaque,
    /// Time limit of the exchange.
    pub timeout: Option<Duration>,
    /// Length of the body by `content-length`, bytes; the front refuses a body of any other length.
    pub content_length: Option<u64>,
    /// Whether a body follows; it may be empty.
    pub has_body: bool,
    /// Whether the front wants a [`HandlerReport`].
    pub wants_report: bool,
    /// Whether the front reads ranges itself that the handler lends it.
    pub reads_ranges: bool,
}

impl Request {
    /// Returns whether the client asks for a tunnel by an upgrade of HTTP/1.1, which 101 opens and no other status.
    pub fn asks_by_upgrade(&self) -> bool {
        self.head.protocol.is_some() && self.peer.connection.version < Version::HTTP_2
    }
}

/// Kind of status that opens the tunnel for which a request asks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Opening {
    /// 101, for an upgrade of HTTP/1.1.
    SwitchingProtocols,
    /// Any of 2xx, for CONNECT.
    Success,
}

impl Opening {
    /// Returns `None` if the request asks for no tunnel.
    pub(super) fn of(request: &Request) -> Option<Opening> {
        if request.asks_by_upgrade() {
            return Some(Opening::SwitchingProtocols);
        }
        request.head.is_tunnel().then_some(Opening::Success)
    }

    /// Returns whether a status opens the tunnel.
    pub(super) fn is(self, status: u16) -> bool {
        match self {
            Opening::SwitchingProtocols => status == 101,
            Opening::Success => (200..300).contains(&status),
        }
    }
}

/// Facts of an exchange that only its handler knows, for the access log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandlerReport {
    /// Address of the upstream that was tried last.
    pub upstream: Option<Arc<str>>,
    /// Number of attempts to get a response from an upstream.
    pub attempts: u64,
    /// Times of the exchange with upstreams.
    pub upstream_times: UpstreamTimes,
    /// Reason for which the handler failed, if it did.
    pub cause: Option<&'static str>,
}

/// Message about one exchange.
#[derive(Debug)]
pub struct Envelope<T> {
    /// Number of the exchange, which its front never uses twice.
    pub exchange: u64,
    /// Message to or from the handler.
    pub message: T,
}

/// Messages from a front to a handler.
#[derive(Debug)]
pub enum ToHandler {
    /// Opens an exchange: the handler may send blocks of `credit` in all, by [`cost`].
    Open {
        /// Request without its body.
        request: Box<Request>,
        /// Credit for the response, by [`cost`].
        credit: u64,
    },
    /// Carries the next block of the request's body.
    Data(Bytes),
    /// Ends the request, perhaps with trailers.
    End(Option<Fields>),
    /// Returns credit for blocks of the response that have left the front.
    Credit(u64),
    /// Returns a lent range, of which the front has read so many bytes; the handler sends the rest.
    RangeRead(u64),
    /// Cancels the exchange for its client; the last message of an exchange.
    Cancel,
}

/// Messages from a handler to a front.
#[derive(Debug)]
pub enum ToFront {
    /// Carries an informational response, which takes credit as one block.
    Interim(u16, Fields),
    /// Begins the final response.
    Head(Head),
    /// Carries the next block of the response's body.
    Data(Bytes),
    /// Lends a part of the response's body for the front to read, which takes no credit. Nothing of the body follows until
    /// [`ToHandler::RangeRead`].
    Range(Box<LentRange>),
    /// Ends the response, perhaps with trailers.
    End(Option<Fields>),
    /// Reports that the handler failed: the client gets this status, or a reset if the response has begun.
    Abort(u16),
    /// Returns credit for blocks of the request's body that the handler has read.
    Credit(u64),
    /// Refuses the rest of the request's body.
    StopBody,
    /// Says what the handler waits for.
    Waits(Wait),
    /// Reports facts for the access log, in place of those reported before.
    Report(Box<HandlerReport>),
    /// Closes the exchange on the handler's side; the last message of an exchange, also after a cancellation.
    Closed,
}

/// Head of a final response.
#[derive(Debug)]
pub struct Head {
    /// Status, 200 to 599; 101 where an upgrade of HTTP/1.1 opens a tunnel.
    pub status: u16,
    /// Fields without those that frame the message.
    pub fields: Fields,
    /// Length of the body in bytes, if it is known; for HEAD that of the response to GET.
    pub length: Option<u64>,
    /// No body and no trailers follow.
    pub end: bool,
}
