//! A request that has ended, as a span.

use std::sync::Arc;
use std::time::Duration;

use super::TraceContext;
use crate::address::ValidatedAddress;
use crate::observe::access::{Outcome, UpstreamTimes};
use crate::observe::account::WaitTimes;

/// Longest text of a span, bytes, as in the access log.
pub const MAX_TEXT: usize = 4096;

/// Beginning of a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanStart {
    /// Trace and ID of the span.
    pub context: TraceContext,
    /// ID of the span that the request names as the parent; `None` if it begins a trace.
    pub parent: Option<[u8; 8]>,
    /// Value of `tracestate`; empty if the request has none.
    pub state: String,
}

/// A request that has ended.
#[derive(Clone, Debug)]
pub struct Span {
    /// Beginning of the span.
    pub start: SpanStart,
    /// Time when the head was received, since 1970.
    pub received: Duration,
    /// Time from then until the end.
    pub duration: Duration,
    /// Address of the client; port 0 if a trusted proxy named it without one.
    pub client: ValidatedAddress,
    /// Other end of the client's connection, if that is a trusted proxy that named the client.
    pub proxy: Option<ValidatedAddress>,
    /// Name of the listener.
    pub listener: Arc<str>,
    /// Protocol of the request, as in `HTTP/3`.
    pub protocol: &'static str,
    /// Scheme of the front.
    pub scheme: &'static str,
    /// Method as sent; empty where the head was malformed, like the next two.
    pub method: String,
    /// Host, and port if there is one.
    pub authority: String,
    /// Path without the query.
    pub path: String,
    /// Query, if spans contain it.
    pub query: Option<String>,
    /// Name of the route.
    pub route: Option<Arc<str>>,
    /// Status of the response, if its head was sent.
    pub status: Option<u16>,
    /// Bytes of the response's body that were sent.
    pub bytes_sent: u64,
    /// Bytes of the request's body that were received.
    pub bytes_received: u64,
    /// Value of `user-agent`.
    pub user_agent: Option<Vec<u8>>,
    /// ID of the request.
    pub request_id: Option<Vec<u8>>,
    /// ID of the connection, as in the access log.
    pub connection: Box<[u8]>,
    /// End of the exchange.
    pub outcome: Outcome,
    /// Reason for which the server itself responded with a 5xx status or 429, or reset the stream.
    pub cause: Option<&'static str>,
    /// Time spent on each wait.
    pub waits: WaitTimes,
    /// Call to an upstream, if there was one.
    pub upstream: Option<UpstreamCall>,
}

/// Call to an upstream.
#[derive(Clone, Debug)]
pub struct UpstreamCall {
    /// Address of the upstream that was tried last.
    pub address: Arc<str>,
    /// Number of attempts to get a response.
    pub attempts: u64,
    /// Time from the request's head to the beginning of the call.
    pub after: Duration,
    /// Times of the call.
    pub times: UpstreamTimes,
}

impl Span {
    /// Cuts texts that are longer than [`MAX_TEXT`]: a client's head may be far larger, and spans wait for their collector.
    pub(super) fn cut_texts(&mut self) {
        let texts = [&mut self.method, &mut self.authority, &mut self.path];
        for text in texts.into_iter().chain(&mut self.query) {
            if text.len() > MAX_TEXT {
                text.truncate(text.floor_char_boundary(MAX_TEXT));
                text.shrink_to_fit();
            }
        }
        for text in self.user_agent.iter_mut().chain(&mut self.request_id) {
            if text.len() > MAX_TEXT {
                text.truncate(MAX_TEXT);
                text.shrink_to_fit();
            }
        }
    }

    /// Returns the memory that it takes, bytes.
    pub(super) fn size(&self) -> u64 {
        let texts = [&self.start.state, &self.method, &self.authority, &self.path];
        let texts = texts.into_iter().chain(&self.query).map(String::capacity);
        let bytes = self.user_agent.iter().chain(&self.request_id).map(Vec::capacity);
        let heap = texts.chain(bytes).sum::<usize>() + self.connection.len();
        (size_of::<Span>() + heap) as u64
    }
}
