//! HTTP/2 (RFC 9113) on a connection, by h2: the server of hyper sends no informational responses.

mod head;
mod stream;

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::server::{self, Builder, Handshake};
use sluicegate_config::Limits;
use tokio::io::{AsyncRead, AsyncWrite};

use super::connection::Connection;
use super::errors::ConnectionError;
use super::gather::Gathering;
use super::heads::HeadStream;
use super::paced::PacedStream;
use super::served::Served;

/// Resets of streams that the client sends before their requests were processed; with more, the connection is closed.
const PENDING_RESETS: usize = 20;
/// Resets of streams for errors of the client; with more, the connection is closed.
const ERROR_RESETS: usize = 256;
/// Requests that a connection responds to in its own turn; further ones have tasks from the beginning, which take turns with those of
/// other connections.
const AT_ONCE: u32 = 32;
/// Most bytes of a response that a stream holds before it takes no more, beside the block that it took last.
const STREAM_SEND_BUFFER: u64 = 64 * 1024;

/// Connection of HTTP/2. Streams whose response is not at hand have tasks of their own.
pub(super) struct Http2<S> {
    connection: Rc<Connection>,
    state: State<S>,
    /// Gathers what h2 writes.
    output: Gathering<S>,
    is_leaving: bool,
}

enum State<S> {
    /// The preface of the client has not arrived.
    Opening(Handshake<Stream<S>, Bytes>),
    Open(server::Connection<Stream<S>, Bytes>),
}

/// Stream of h2.
type Stream<S> = HeadStream<PacedStream<Gathering<S>>>;

impl<S: AsyncRead + AsyncWrite + Unpin> Http2<S> {
    pub(super) fn new(connection: &Rc<Connection>, stream: S) -> Http2<S> {
        let config = connection.front.config();
        let builder = builder(config.site.limits());
        let output = Gathering::new(stream);
        let stream = PacedStream::new(output.share(), connection);
        let stream = HeadStream::new(stream, &connection.heads);
        Http2 {
            connection: Rc::clone(connection),
            state: State::Opening(builder.handshake(stream)),
            output,
            is_leaving: false,
        }
    }
}

/// Returns the settings of a connection.
fn builder(limits: &Limits) -> Builder {
    let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    // Windows have 31 bits.
    let window = |bytes: u64| count(bytes).min(i32::MAX.unsigned_abs());
    let send_buffer = limits.connection_send_buffer.min(STREAM_SEND_BUFFER);
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(count(limits.max_concurrent_streams))
        .initial_window_size(window(limits.stream_window))
        .initial_connection_window_size(window(limits.connection_window))
        // Between this and header_bytes, the client gets 431.
        .max_header_list_size(count(limits.header_bytes.saturating_mul(2)))
        .max_send_buffer_size(usize::try_from(send_buffer).unwrap_or(usize::MAX))
        // WebSocket (RFC 8441 §3).
        .enable_connect_protocol()
        .max_pending_accept_reset_streams(PENDING_RESETS)
        .max_local_error_reset_streams(Some(ERROR_RESETS));
    builder
}

impl<S: AsyncRead + AsyncWrite + Unpin> Http2<S> {
    /// Serves what has arrived, until h2 waits.
    fn poll_requests(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        let mut count = 0;
        loop {
            match &mut self.state {
                State::Opening(handshake) => {
                    let mut open = ready!(Pin::new(handshake).poll(cx))?;
                    if self.is_leaving {
                        open.graceful_shutdown();
                    }
                    self.state = State::Open(open);
                }
                State::Open(open) => match ready!(open.poll_accept(cx)).transpose()? {
                    Some((request, reply)) => {
                        self.connection.heads.on_served();
                        count += 1;
                        stream::start(&self.connection, request, reply, count <= AT_ONCE, cx);
                    }
                    None => return Poll::Ready(Ok(())),
                },
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Future for Http2<S> {
    type Output = Result<(), ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let served = self.poll_requests(cx);
        if let Poll::Ready(Err(error)) = self.output.poll_send(cx)
            && served.is_pending()
        {
            return Poll::Ready(Err(error.into()));
        }
        served
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Served for Http2<S> {
    fn leave(mut self: Pin<&mut Self>) {
        self.is_leaving = true;
        if let State::Open(open) = &mut self.state {
            open.graceful_shutdown();
        }
    }
}
