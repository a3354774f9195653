//! Bodies of responses, as their protocol takes them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use sluicegate_http::exchange::Generator;

use super::exchange::{Exchange, Next};
use super::request_guard::RequestGuard;
use super::send_buffer::StreamBuffer;

/// Largest block that is handed over at once, bytes.
pub(super) const BLOCK: usize = 32 * 1024;
/// Largest part of a response that HTTP/2 may hold for a client when the request counts as complete, bytes. The stream takes a block
/// as soon as its window has room for its first byte; the end of a response follows as a block of its own, so that it
/// waits until there is room for all in front of it.
const END: usize = 1024;

/// Error of a response that cannot be completed: HTTP/2 resets the stream, HTTP/1.1 closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the response was not completed")]
pub(super) struct Broken;

/// Body of a response.
#[derive(Debug)]
pub(super) struct ResponseBody {
    content: Content,
    /// End of the block that was taken last, if it may be that of the body.
    end: Option<Bytes>,
    /// Bytes that are left, if the length is known.
    left: Option<u64>,
    /// It is the response to a request that had stalled before.
    is_late: bool,
    /// Part of its stream of the bytes that HTTP/2 holds for the client.
    buffer: Option<Arc<StreamBuffer>>,
    guard: RequestGuard,
}

/// Source of a body.
#[derive(Debug)]
pub(super) enum Content {
    /// Nothing, or nothing more.
    Empty,
    /// Bytes in memory.
    Bytes(Bytes),
    /// Bytes that are generated from an offset on.
    Generated(Generator, u64),
    /// Blocks of a handler.
    Handler(Exchange),
}

impl ResponseBody {
    /// Returns a body of `left` bytes, if that is known.
    pub(super) fn new(content: Content, left: Option<u64>, guard: RequestGuard) -> ResponseBody {
        let mut body = ResponseBody {
            content,
            end: None,
            left,
            is_late: guard.request.has_stalled(),
            buffer: guard.connection.stream_buffer(),
            guard,
        };
        body.note();
        body
    }

    /// Updates what the watchdog sees, and notes the end.
    fn note(&mut self) {
        let (output, over) = match &self.content {
            Content::Empty => (false, true),
            Content::Bytes(_) | Content::Generated(..) => {
                (self.left != Some(0), self.left == Some(0))
            }
            Content::Handler(_) => {
                let exchange = self.guard.request.exchange();
                let all = self.left == Some(0);
                // hyper asks a body of HTTP/1.1 for nothing after its length.
                let ended = exchange.is_empty() || !self.guard.connection.is_http2();
                (exchange.has_output(), all && ended || self.left.is_none() && exchange.is_empty())
            }
        };
        let (output, over) = (output || self.end.is_some(), over && self.end.is_none());
        self.guard.request.set_output(output && !over);
        if !self.guard.connection.is_http2() {
            self.guard.request.note_wait();
        }
        if over {
            self.guard.request.exchange().complete();
            if let Content::Handler(exchange) = &mut self.content {
                exchange.finish();
            }
        }
    }

    /// Notes that the block that was taken last waits for the client's window of HTTP/2.
    pub(super) fn on_shut_window(&self) {
        self.guard.request.note_wait();
    }

    /// Returns the next block of what is in memory or is generated, of at most `most` bytes.
    fn next_known(&mut self, most: usize) -> Option<Bytes> {
        match &mut self.content {
            Content::Bytes(bytes) if !bytes.is_empty() => {
                Some(bytes.split_to(bytes.len().min(most)))
            }
            Content::Generated(generator, offset) => {
                let mut block = BytesMut::zeroed(most);
                let count = generator.read(*offset, &mut block);
                *offset += count as u64;
                block.truncate(count);
                (count > 0).then(|| block.freeze())
            }
            Content::Bytes(_) | Content::Empty | Content::Handler(_) => None,
        }
    }

    /// Counts a block that is handed over.
    fn sent(&mut self, mut block: Bytes) -> Frame<Bytes> {
        if self.guard.connection.is_http2() {
            self.guard.request.set_held(true);
            let is_last = self.left.is_none_or(|left| left <= block.len() as u64);
            if is_last && block.len() > END {
                self.end = Some(block.split_off(block.len() - END));
            }
        }
        let length = block.len() as u64;
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(length);
        }
        self.guard.request.on_sent(length);
        self.note();
        let held = match &self.buffer {
            Some(buffer) => buffer.hold(block),
            None => block,
        };
        Frame::data(held)
    }

    /// Returns how much may be taken at once, once more may.
    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<usize> {
        let Some(buffer) = &self.buffer else {
            return Poll::Ready(usize::MAX);
        };
        let room = buffer.poll_room(cx);
        // What waits here waits for the client to take what HTTP/2 holds of this stream.
        if room.is_pending() {
            self.guard.request.set_held(true);
            self.guard.request.note_wait();
        }
        room.map(|room| room.min(BLOCK))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let this = &mut *self;
        this.guard.request.set_held(false);
        if !this.is_late && this.guard.request.has_stalled() {
            return Poll::Ready(Some(Err(Broken)));
        }
        if let Some(end) = this.end.take() {
            return Poll::Ready(Some(Ok(this.sent(end))));
        }
        let most = ready!(this.poll_room(cx));
        let Content::Handler(exchange) = &mut this.content else {
            let block = this.next_known(most.min(BLOCK));
            return Poll::Ready(block.map(|block| Ok(this.sent(block))));
        };
        let Poll::Ready(next) = exchange.poll_next(cx, most) else {
            this.guard.request.note_wait();
            return Poll::Pending;
        };
        match next {
            Next::Data(block) => Poll::Ready(Some(Ok(this.sent(block)))),
            Next::Broken => Poll::Ready(Some(Err(Broken))),
            Next::End(trailers) => {
                this.content = Content::Empty;
                this.note();
                Poll::Ready(trailers.map(|fields| {
                    let trailers: HeaderMap = fields.into_iter().collect();
                    Ok(Frame::trailers(trailers))
                }))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.guard.request.exchange().is_taken()
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
