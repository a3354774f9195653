//! Writes a request to an upstream (RFC 9112 §3, §6 and §7).

use std::collections::HashSet;
use std::io::{IoSlice, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use http::header::{CONNECTION, TRAILER};
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Body as _, Frame};
use tokio::io::AsyncWrite;

use super::head::has_option;
use crate::exchange::handler::Cancelled;
use crate::proxy::upload::UploadBody;
use crate::proxy::upstream_head::{self, UpstreamHead};

/// Largest block that is copied behind what goes ahead of it, bytes; a larger one is written from where it is.
const COPIED: usize = 1 << 10;
/// The same on a transport that writes one buffer at a time: TLS, whose records have this size.
const COPIED_ALONE: usize = 16 << 10;
/// Bytes of copies after which no more of the body is read before they are written.
const GATHERED: usize = 16 << 10;
/// Capacity that stays for the next request, bytes.
const KEPT: usize = 4 << 10;

/// Most bytes of the first line but method and target, of the line that frames the body, and of the end of a head.
const FRAMING: usize = 64;

const CHUNK_END: &[u8] = b"\r\n";
const LAST_CHUNK_END: &[u8] = b"\r\n0\r\n\r\n";

/// Request that is written to an upstream. It holds one block of the body, and copies of small ones.
#[derive(Debug, Default)]
pub(super) struct OutgoingRequest {
    /// Bytes ahead of the block, of which `written` are written.
    bytes: Vec<u8>,
    written: usize,
    block: Bytes,
    /// Bytes behind the block.
    tail: &'static [u8],
    body: Option<Rest>,
    /// Whether the transport has something to flush.
    unflushed: bool,
    /// The client has cancelled the body, or the upstream takes nothing any more.
    is_broken: bool,
}

/// Rest of a request's body.
#[derive(Debug)]
struct Rest {
    body: UploadBody,
    framing: Framing,
}

#[derive(Debug)]
enum Framing {
    /// So many bytes.
    Length(u64),
    /// Chunks, behind which trailers follow that these `trailer` lines of the head have announced.
    Chunked(Vec<HeaderValue>),
}

impl OutgoingRequest {
    /// Begins a request. Nothing of another one is left. Returns whether the connection may persist (RFC 9112 §9.3).
    pub(super) fn begin(&mut self, head: &UpstreamHead<'_>, body: UploadBody) -> bool {
        let is_chunked = head.framing() == upstream_head::Framing::Chunked;
        // A client may end its stream after the framing was chosen. Then the request has no body, and no framing of one.
        let is_over = is_chunked && body.is_end_stream();
        let length = head.content_length(is_over);
        let mut persists = true;
        let mut announced = Vec::new();
        let bytes = &mut self.bytes;
        bytes.reserve(head.size() + FRAMING);
        bytes.extend_from_slice(head.method().as_bytes());
        bytes.push(b' ');
        bytes.extend_from_slice(head.target());
        bytes.extend_from_slice(b" HTTP/1.1\r\n");
        for (name, value) in head.lines() {
            if *name == CONNECTION {
                persists &= !has_option(value, "close");
            } else if *name == TRAILER {
                if is_over {
                    continue;
                }
                announced.extend(HeaderValue::from_bytes(value));
            }
            push_line(bytes, name, value);
        }
        self.body = None;
        if let Some(length) = length {
            bytes.extend_from_slice(b"content-length: ");
            push_number(bytes, length);
            bytes.extend_from_slice(b"\r\n");
            if length > 0 {
                self.body = Some(Rest { body, framing: Framing::Length(length) });
            }
        } else if is_chunked && !is_over {
            bytes.extend_from_slice(b"transfer-encoding: chunked\r\n");
            self.body = Some(Rest { body, framing: Framing::Chunked(announced) });
        }
        bytes.extend_from_slice(b"\r\n");
        persists
    }

    /// Returns whether all is written.
    pub(super) fn is_complete(&self) -> bool {
        self.body.is_none() && self.is_empty() && !self.is_broken
    }

    /// Returns whether the rest of the request can never be written.
    pub(super) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Writes what can be written now.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, stream: &mut (impl AsyncWrite + Unpin)) {
        let copied = if stream.is_write_vectored() { COPIED } else { COPIED_ALONE };
        loop {
            self.gather(cx, copied);
            if self.is_broken || self.is_empty() {
                break;
            }
            match self.poll_write(cx, stream) {
                Poll::Pending => return,
                Poll::Ready(Ok(count @ 1..)) => self.advance(count),
                Poll::Ready(Ok(0) | Err(_)) => self.is_broken = true,
            }
        }
        // The response may take long, and another request far less.
        if self.is_complete() && self.bytes.capacity() > KEPT {
            self.bytes = Vec::new();
        }
        if self.unflushed && Pin::new(stream).poll_flush(cx).is_ready() {
            self.unflushed = false;
        }
    }

    /// Returns whether nothing waits to be written.
    fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.block.is_empty() && self.tail.is_empty()
    }

    /// Takes what has arrived of the body, up to a block that is not copied. What a write has left over leaves with it: alone it
    /// would be a record of TLS, or a packet, of its own.
    fn gather(&mut self, cx: &mut Context<'_>, copied: usize) {
        if self.body.is_some() && self.written > 0 {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
        while self.block.is_empty() && self.tail.is_empty() && self.bytes.len() < GATHERED {
            let Some(rest) = &mut self.body else {
                return;
            };
            let Poll::Ready(frame) = Pin::new(&mut rest.body).poll_frame(cx) else {
                return;
            };
            if self.add(frame, copied).is_err() {
                // An end would make the request look whole.
                self.body = None;
                self.is_broken = true;
            }
        }
    }

    /// Adds a frame of the body, or its end.
    ///
    /// # Errors
    /// The client has cancelled the body, or it has another length than announced.
    fn add(
        &mut self,
        frame: Option<Result<Frame<Bytes>, Cancelled>>,
        copied: usize,
    ) -> Result<(), Cancelled> {
        let Some(frame) = frame.transpose()? else {
            return self.end(None);
        };
        let block = match frame.into_data() {
            // No chunk is empty but the last one.
            Ok(block) if block.is_empty() => return Ok(()),
            Ok(block) => block,
            Err(frame) => return self.end(frame.into_trailers().ok()),
        };
        let Some(Rest { body, framing }) = &mut self.body else {
            return Err(Cancelled);
        };
        let is_end = match framing {
            Framing::Length(left) => {
                *left = left.checked_sub(block.len() as u64).ok_or(Cancelled)?;
                *left == 0
            }
            Framing::Chunked(_) => {
                push_size(&mut self.bytes, block.len());
                let is_end = body.is_end_stream();
                self.tail = if is_end { LAST_CHUNK_END } else { CHUNK_END };
                is_end
            }
        };
        if is_end {
            self.body = None;
        }
        if block.len() > copied {
            self.block = block;
        } else {
            self.bytes.extend_from_slice(&block);
            self.bytes.extend_from_slice(self.tail);
            self.tail = &[];
        }
        Ok(())
    }

    /// Ends the body, with those of its trailers that were announced.
    ///
    /// # Errors
    /// Bytes are missing.
    fn end(&mut self, trailers: Option<HeaderMap>) -> Result<(), Cancelled> {
        match self.body.take().map(|rest| rest.framing) {
            Some(Framing::Chunked(lines)) => {
                let trailers = trailers.unwrap_or_default();
                let announced =
                    if trailers.is_empty() { HashSet::new() } else { announced(&lines) };
                self.bytes.extend_from_slice(b"0\r\n");
                for (name, value) in trailers.iter().filter(|(name, _)| announced.contains(*name)) {
                    push_line(&mut self.bytes, name, value.as_bytes());
                }
                self.bytes.extend_from_slice(b"\r\n");
                Ok(())
            }
            Some(Framing::Length(1..)) => Err(Cancelled),
            Some(Framing::Length(0)) | None => Ok(()),
        }
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<std::io::Result<usize>> {
        self.unflushed = true;
        let stream = Pin::new(stream);
        let bytes = &self.bytes[self.written..];
        if bytes.is_empty() && self.tail.is_empty() {
            return stream.poll_write(cx, &self.block);
        }
        if self.block.is_empty() && self.tail.is_empty() {
            return stream.poll_write(cx, bytes);
        }
        let parts = [bytes, &self.block, self.tail].map(IoSlice::new);
        stream.poll_write_vectored(cx, &parts)
    }

    /// Drops bytes that are written.
    fn advance(&mut self, mut count: usize) {
        let bytes = count.min(self.bytes.len() - self.written);
        self.written += bytes;
        if self.written == self.bytes.len() {
            self.bytes.clear();
            self.written = 0;
        }
        count -= bytes;
        let block = count.min(self.block.len());
        self.block.advance(block);
        count -= block;
        self.tail = self.tail.get(count..).unwrap_or_default();
    }
}

/// Returns the names of the trailers that `trailer` lines announce.
fn announced(lines: &[HeaderValue]) -> HashSet<HeaderName> {
    let lines = lines.iter().filter_map(|line| line.to_str().ok());
    let names = lines.flat_map(|line| line.split(','));
    names.filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok()).collect()
}

/// Appends a field line. Neither names nor values have line ends in them.
fn push_line(bytes: &mut Vec<u8>, name: &HeaderName, value: &[u8]) {
    bytes.extend_from_slice(name.as_str().as_bytes());
    bytes.extend_from_slice(b": ");
    bytes.extend_from_slice(value);
    bytes.extend_from_slice(b"\r\n");
}

/// Appends a number in decimal.
fn push_number(bytes: &mut Vec<u8>, number: u64) {
    // Writing into a vector cannot fail.
    let _ = write!(bytes, "{number}");
}

/// Appends the first line of a chunk.
fn push_size(bytes: &mut Vec<u8>, size: usize) {
    let digits = size.checked_ilog2().unwrap_or(0) / 4;
    for place in (0..=digits).rev() {
        let digit = (size >> (4 * place)) & 0xf;
        bytes.push(b"0123456789ABCDEF"[digit]);
    }
    bytes.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests;
