//! What the proxy asks of the protocols that upstreams speak. Each is a folder, [`http1`], [`http2`] and [`http3`], and an arm
//! of [`Protocols::begin`]; exchanges, retries and health checks know these traits alone.

mod http1;
mod http2;
mod http3;
mod usage;

use std::fmt::Debug;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::uri::Scheme;
use http_body::Frame;
use tokio::time::Instant;

pub(super) use self::http1::{Http1Connection, Http1Stream, IdleConnections};
#[cfg(test)]
pub(super) use self::http1::{PAUSE, SURPLUS};
use self::http2::Http2Connection;
use self::http3::Http3Connection;
use super::failure::Failure;
use super::interim::Interims;
use super::metered_stream::{Meter, Open};
use super::request_error::RequestError;
use super::response::{BodySize, ReceivedHead};
use super::transport::{Opened, Protocol};
use super::tunnel::TunnelStream;
use super::upload::UploadBody;
use super::upstream_head::UpstreamHead;

/// Limits of a connection that exchanges share.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionLimits {
    /// Time for which a connection without exchanges stays open.
    pub(super) idle: Duration,
    /// Age from which on a connection gets no further exchange; zero for any.
    pub(super) max_age: Duration,
    /// Largest header section of a response, bytes.
    pub(super) header_bytes: u64,
}

/// Everything that the protocols need to begin on fresh connections to an upstream.
#[derive(Debug)]
pub(super) struct Protocols {
    /// Scheme of requests.
    pub(super) scheme: Scheme,
    pub(super) limits: ConnectionLimits,
    /// Place for connections of HTTP/1.1 after their exchanges.
    pub(super) idle: Rc<IdleConnections>,
}

/// A connection that has begun, with the exchange that has asked for it.
pub(super) struct Begun {
    pub(super) stream: Box<dyn UpstreamStream>,
    /// The connection, if further exchanges may share it.
    pub(super) shared: Option<Rc<dyn SharedConnection>>,
}

impl Protocols {
    /// Speaks HTTP on a fresh connection.
    ///
    /// # Errors
    /// The upstream has closed the connection, or does not speak the protocol.
    pub(super) async fn begin(&self, opened: Opened, open: Open) -> Result<Begun, Failure> {
        match opened {
            Opened::Stream(stream, Protocol::Http2) => {
                let scheme = self.scheme.clone();
                let opened = Http2Connection::open(stream, open, self.limits, scheme).await;
                let (connection, stream) = opened?;
                Ok(Begun { stream, shared: Some(connection) })
            }
            Opened::Stream(stream, _) => {
                let connection = Http1Connection::new(stream, open, self.limits.header_bytes);
                let stream = Http1Stream::new(Box::new(connection), &self.idle);
                Ok(Begun { stream, shared: None })
            }
            Opened::Quic(quic) => {
                let scheme = self.scheme.clone();
                let opened = Http3Connection::open(*quic, open, self.limits, scheme).await;
                let (connection, stream) = opened?;
                Ok(Begun { stream, shared: Some(connection) })
            }
        }
    }
}

/// One exchange on a connection to an upstream. Dropping it cancels the exchange.
pub(super) trait UpstreamStream {
    /// Sends a request.
    ///
    /// # Errors
    /// The request cannot be sent over this protocol.
    fn send(&mut self, head: &UpstreamHead<'_>, body: UploadBody) -> Result<(), RequestError>;

    /// Moves what can be moved now, in both directions.
    fn poll(&mut self, cx: &mut Context<'_>);

    /// Moves what can be moved, and returns the final response once, or why there is none. Informational responses go to
    /// `interims`.
    fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        interims: &Interims,
    ) -> Poll<Result<ReceivedHead, Failure>>;

    /// Moves what can be moved, and returns the next frame of the response's body.
    fn poll_body(&mut self, cx: &mut Context<'_>)
    -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>>;

    /// Size of the rest of the response's body, as far as that is known.
    fn body_size(&self) -> BodySize;

    /// Progress of a request that gets no response.
    fn progress(&self) -> Progress;

    /// Whether `deadline` is over. If not, the task is woken at `deadline` at the latest.
    fn is_over(&mut self, cx: &mut Context<'_>, deadline: Instant) -> bool;

    /// Bytes of this exchange, and the times at which they moved.
    fn meter(&self) -> &Meter;

    /// Whether the connection served another exchange before, so that it may have been closed meanwhile.
    fn is_reused(&self) -> bool;

    /// Whether nothing of the request is missing, neither from the client nor on the way to the upstream.
    fn is_sent(&self) -> bool;

    /// Whether a request for a tunnel can be sent.
    fn takes_tunnels(&self) -> bool;

    /// The bytes of the tunnel that the response has opened; `None` if the connection failed.
    fn into_tunnel(self: Box<Self>) -> Pin<Box<dyn Future<Output = Option<TunnelStream>>>>;

    /// Releases the connection after a complete exchange. One that ends early is dropped instead.
    fn release(self: Box<Self>);
}

/// The body of a response has broken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BrokenBody;

/// How far a request without a response has come, by which its exchange knows whether it may be sent once more (RFC 9110 §9.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nothing of it was sent, or the upstream says that it has not processed it.
    Unprocessed,
    /// Something was sent, and nothing has come back.
    Unanswered,
    /// Something of a response has come, for a protocol that can tell.
    Answered,
}

impl dyn UpstreamStream + '_ {
    /// Moves the stream until `future` is ready.
    pub(super) async fn drive<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future);
        std::future::poll_fn(|cx| {
            if let Poll::Ready(ready) = future.as_mut().poll(cx) {
                return Poll::Ready(ready);
            }
            self.poll(cx);
            future.as_mut().poll(cx)
        })
        .await
    }
}

/// A connection that carries several exchanges at a time.
pub(super) trait SharedConnection: Debug {
    /// Whether exchanges may still begin, now or when others have ended.
    fn is_open(&self, now: Instant) -> bool;

    /// Whether one more exchange may begin now.
    fn has_room(&self) -> bool;

    /// Whether no exchange uses the connection.
    fn is_idle(&self) -> bool;

    /// Begins an exchange; `None` if the connection is closed.
    fn begin(self: Rc<Self>) -> Option<Box<dyn UpstreamStream>>;

    /// Closes the connection once its exchanges have ended; no other begins.
    fn retire(&self);
}
