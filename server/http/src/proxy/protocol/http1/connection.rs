//! An HTTP/1.1 connection to an upstream.

use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::UPGRADE;
use http::{StatusCode, Version};
use http_body::Frame;
use tokio::io::{AsyncRead as _, AsyncReadExt as _, AsyncWrite as _, ReadBuf};
use tokio::task::coop::has_budget_remaining;
use tokio::time::Instant;

use super::body::{Body, Part};
use super::head::{self, HeadParser};
use super::outgoing::OutgoingRequest;
use super::read_size::ReadSize;
use crate::proxy::deadline::Deadline;
use crate::proxy::failure::Failure;
use crate::proxy::interim::Interims;
use crate::proxy::metered_stream::{Meter, MeteredStream, Open};
use crate::proxy::protocol::BrokenBody;
use crate::proxy::response::{BodySize, ReceivedHead};
use crate::proxy::transport::ByteStream;
use crate::proxy::tunnel::TunnelStream;
use crate::proxy::upload::UploadBody;
use crate::proxy::upstream_head::UpstreamHead;

/// Largest read, bytes, unless a larger head is allowed.
const LARGEST_READ: usize = 64 << 10;

/// HTTP/1.1 connection, which serves one exchange after another. Nothing moves on it unless somebody polls it, and
/// dropping it closes it.
pub(in crate::proxy) struct Http1Connection {
    stream: MeteredStream,
    meter: Rc<Meter>,
    opened_at: Instant,
    /// Requests sent so far.
    requests: u64,
    outgoing: OutgoingRequest,
    asks_upgrade: bool,
    is_head: bool,
    /// Largest head, bytes.
    header_bytes: usize,
    incoming: Incoming,
    /// Bytes that were read and not taken. It is empty at rest.
    buffer: BytesMut,
    read_size: ReadSize,
    heads: HeadParser,
    /// Neither end has said that the connection ends with this exchange.
    persists: bool,
    /// Waker of the connection while nobody drives it.
    alert: Arc<Alert>,
    /// Timer of whatever an exchange waits for. It stays for the next one, whose deadlines are later.
    deadline: Deadline,
}

/// What comes next from the upstream.
#[derive(Debug)]
enum Incoming {
    /// Nothing, before a request is sent.
    Silence,
    Head,
    Body(Body),
    /// Nothing of this exchange.
    Complete,
    /// Bytes of another protocol.
    Switched,
    /// Nothing: the upstream has closed the connection, or broken the protocol.
    Closed,
}

/// Notes that something may have happened on a connection that nobody drives.
#[derive(Debug, Default)]
struct Alert(AtomicBool);

impl Wake for Alert {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Http1Connection {
    /// Speaks HTTP/1.1 on a fresh stream.
    pub(in crate::proxy) fn new(
        stream: ByteStream,
        open: Open,
        header_bytes: u64,
    ) -> Http1Connection {
        let header_bytes = usize::try_from(header_bytes).unwrap_or(usize::MAX);
        let (stream, meter) = MeteredStream::new(stream, open);
        Http1Connection {
            stream,
            meter,
            opened_at: Instant::now(),
            requests: 0,
            outgoing: OutgoingRequest::default(),
            asks_upgrade: false,
            is_head: false,
            header_bytes,
            incoming: Incoming::Silence,
            buffer: BytesMut::new(),
            read_size: ReadSize::new(header_bytes.max(LARGEST_READ)),
            heads: HeadParser::new(header_bytes),
            persists: true,
            alert: Arc::default(),
            deadline: Deadline::default(),
        }
    }

    /// Sends a request. It and its response move while the connection is polled.
    pub(in crate::proxy) fn send(&mut self, head: &UpstreamHead<'_>, body: UploadBody) {
        self.meter.restart(Instant::now());
        self.requests += 1;
        self.asks_upgrade = head.contains(&UPGRADE);
        self.is_head = head.method() == "HEAD";
        self.persists = self.outgoing.begin(head, body);
        if let Incoming::Silence = self.incoming {
            self.incoming = Incoming::Head;
        }
    }

    /// Returns the meter of what has moved since the last request was sent.
    pub(in crate::proxy) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Returns whether the connection served another request before the current one.
    pub(in crate::proxy) fn is_reused(&self) -> bool {
        self.requests > 1
    }

    /// Returns the time since the connection was opened.
    pub(in crate::proxy) fn age(&self, now: Instant) -> Duration {
        now - self.opened_at
    }

    /// Returns whether `deadline` is over. If not, the caller is woken at `deadline` at the latest.
    pub(in crate::proxy) fn is_over(&mut self, cx: &mut Context<'_>, deadline: Instant) -> bool {
        self.deadline.is_over(cx, deadline)
    }

    /// Writes what can be written now of the request.
    pub(in crate::proxy) fn poll(&mut self, cx: &mut Context<'_>) {
        if let Incoming::Closed = self.incoming {
            return;
        }
        // On a reused connection, the owner has looked.
        if self.requests == 1 && self.meter.written() == 0 && self.has_spoken(cx) {
            self.incoming = Incoming::Closed;
            return;
        }
        self.outgoing.poll(cx, &mut self.stream);
        if self.outgoing.is_broken() {
            self.incoming = Incoming::Closed;
        }
    }

    /// Moves what can be moved, and returns the head of the final response. Informational responses go to `interims`.
    pub(in crate::proxy) fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        interims: &Interims,
    ) -> Poll<Result<ReceivedHead, Failure>> {
        self.poll(cx);
        let response = match self.incoming {
            Incoming::Head => ready!(self.read_head(cx, interims)),
            _ => Err(Failure::Closed),
        };
        if response.is_err() {
            self.incoming = Incoming::Closed;
        }
        Poll::Ready(response)
    }

    fn read_head(
        &mut self,
        cx: &mut Context<'_>,
        interims: &Interims,
    ) -> Poll<Result<ReceivedHead, Failure>> {
        loop {
            let Some(head) = self.heads.next(&mut self.buffer)? else {
                match ready!(self.poll_read(cx)) {
                    Ok(1..) => continue,
                    Ok(0) | Err(_) => return Poll::Ready(Err(Failure::Closed)),
                }
            };
            let status = head.response.status;
            if status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS {
                interims.add(status, head.response.fields);
                if interims.too_many() {
                    return Poll::Ready(Err(Failure::TooManyInterim));
                }
                continue;
            }
            let body = head::body(&head.response, self.is_head, self.header_bytes)?;
            // Upstreams that speak HTTP/1.0 get a connection for each request.
            self.persists &= head.persists && head.response.version == Version::HTTP_11;
            self.persists &= !body.ends_with_connection();
            // Some servers send the body that a response without one announces, and it may come later.
            self.persists &=
                status != StatusCode::NO_CONTENT || !head::announces_body(&head.response);
            self.incoming = if status == StatusCode::SWITCHING_PROTOCOLS {
                Incoming::Switched
            } else if body.is_complete() {
                Incoming::Complete
            } else {
                Incoming::Body(body)
            };
            return Poll::Ready(Ok(head.response));
        }
    }

    /// Moves what can be moved, and returns the next frame of the response's body.
    pub(in crate::proxy) fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        loop {
            let body = match &mut self.incoming {
                Incoming::Body(body) => body,
                Incoming::Complete => return Poll::Ready(None),
                _ => return Poll::Ready(Some(Err(BrokenBody))),
            };
            let part = body.next(&mut self.buffer);
            let ends = body.ends_with_connection();
            if body.is_complete() {
                self.incoming = Incoming::Complete;
            }
            match part {
                Ok(Part::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Ok(Part::Trailers(lines)) => {
                    return Poll::Ready(Some(Ok(Frame::trailers(lines))));
                }
                Ok(Part::End) => return Poll::Ready(None),
                Ok(Part::Missing) => {}
                Err(BrokenBody) => {
                    self.incoming = Incoming::Closed;
                    continue;
                }
            }
            self.poll(cx);
            if let Incoming::Closed = self.incoming {
                continue;
            }
            self.incoming = match ready!(self.poll_read(cx)) {
                Ok(1..) => continue,
                Ok(0) if ends => Incoming::Complete,
                Ok(0) | Err(_) => Incoming::Closed,
            };
        }
    }

    /// Returns the size of the rest of the response's body.
    pub(in crate::proxy) fn body_size(&self) -> BodySize {
        match &self.incoming {
            Incoming::Body(body) => body.size(),
            Incoming::Complete => BodySize { length: Some(0), is_end: true },
            // Nothing of it can be read, and nobody may take it for a whole one.
            _ => BodySize { length: None, is_end: false },
        }
    }

    /// Reads behind what is in the buffer, which has a bound. Returns the number of bytes; 0 at the end.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let held = self.buffer.len();
        let size = self.read_size.next(held);
        if self.buffer.capacity() - held < size {
            self.buffer.reserve(size);
        }
        let count = ready!(pin!(self.stream.read_buf(&mut self.buffer)).poll(cx))?;
        self.read_size.on_read(count);
        Poll::Ready(Ok(count))
    }

    /// Returns whether the upstream has sent anything, or closed the connection, although nothing was asked of it.
    fn has_spoken(&mut self, cx: &mut Context<'_>) -> bool {
        let mut byte = [0];
        Pin::new(&mut self.stream).poll_read(cx, &mut ReadBuf::new(&mut byte)).is_ready()
    }

    /// Ends an exchange, and from then on only remembers whether something happens, for [`Http1Connection::resume`].
    pub(in crate::proxy) fn rest(&mut self) {
        let is_complete =
            self.outgoing.is_complete() && matches!(self.incoming, Incoming::Complete);
        // Bytes behind a response belong to none.
        if !is_complete || !self.persists || !self.buffer.is_empty() {
            self.incoming = Incoming::Closed;
            // The upstream may wait for TLS to say that nothing follows.
            let _ = Pin::new(&mut self.stream)
                .poll_shutdown(&mut Context::from_waker(std::task::Waker::noop()));
            return;
        }
        self.incoming = Incoming::Silence;
        self.buffer = BytesMut::new();
        self.alert.0.store(false, Ordering::Relaxed);
        let waker = Arc::clone(&self.alert).into();
        let cx = &mut Context::from_waker(&waker);
        self.deadline.rest(cx);
        self.listen(cx);
        // Beyond a task's budget tokio reads nothing, and wakes the alert only after other tasks may have taken the connection.
        if !has_budget_remaining() {
            self.alert.0.store(true, Ordering::Relaxed);
        }
    }

    /// Looks at a connection at rest, if anything has happened there.
    pub(in crate::proxy) fn resume(&mut self, cx: &mut Context<'_>) {
        if self.alert.0.load(Ordering::Relaxed) {
            self.listen(cx);
        }
    }

    /// Looks at a connection at rest, and wakes the caller for what happens later.
    pub(in crate::proxy) fn watch(&mut self, cx: &mut Context<'_>) {
        // The caller's waker is in place of the alert, which therefore has to expect anything.
        self.alert.0.store(true, Ordering::Relaxed);
        self.listen(cx);
    }

    /// Closes a connection at rest on which the upstream does anything.
    fn listen(&mut self, cx: &mut Context<'_>) {
        if self.is_ready() && self.has_spoken(cx) {
            self.incoming = Incoming::Closed;
        }
    }

    /// Returns whether another request can be sent, as far as the last look has shown.
    pub(in crate::proxy) fn is_ready(&self) -> bool {
        matches!(self.incoming, Incoming::Silence)
    }

    /// Returns the byte stream after the upstream has switched to the protocol that the request asked for; `None` if it has not.
    pub(in crate::proxy) fn into_tunnel(self) -> Option<TunnelStream> {
        let has_switched = matches!(self.incoming, Incoming::Switched) && self.asks_upgrade;
        (has_switched && self.outgoing.is_complete()).then(|| TunnelStream {
            stream: Box::new(self.stream),
            meter: self.meter,
            early: self.buffer.freeze(),
        })
    }
}
