//! Connections to upstreams, as exchanges use them.

use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::Reason;
use http::Version;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::failure::Failure;
use super::http1::Http1Connection;
use super::http2_stream::{Http2Body, Http2Stream, is_unprocessed};
use super::idle::IdleConnections;
use super::interim::Interims;
use super::metered_stream::Meter;
use super::tunnel::TunnelStream;
use super::unsendable::Unsendable;
use super::upload::{Upload, UploadBody};

/// Connection to an upstream, while one exchange uses it.
pub(super) enum UpstreamConnection {
    /// HTTP/1.1: one exchange at a time, which drives the connection itself, so that dropping the exchange closes it. A
    /// connection that is fit for another exchange goes to the idle ones.
    Exclusive(Http1Connection, Rc<IdleConnections>),
    /// HTTP/2: a stream of a connection that a task of its own drives. The exchange only sends its body.
    Shared(Http2Stream),
}

/// Value of one of the two protocols.
enum Either<A, B> {
    Http1(A),
    Http2(B),
}

/// Error of a request without a response.
#[derive(Debug)]
pub(super) enum SendError {
    /// An HTTP/1.1 connection failed.
    Http1(hyper::Error),
    /// An HTTP/2 connection or stream failed.
    Http2(h2::Error),
}

impl SendError {
    /// Returns whether the upstream says that it has not processed the request.
    pub(super) fn is_unprocessed(&self) -> bool {
        matches!(self, SendError::Http2(error) if is_unprocessed(error))
    }

    /// Returns the failure that the error stands for.
    pub(super) fn failure(&self) -> Failure {
        match self {
            SendError::Http1(error) if error.is_parse_too_large() => Failure::HeadTooLarge,
            SendError::Http1(error) if error.is_parse() => Failure::Malformed,
            SendError::Http2(error) if error.reason() == Some(Reason::HTTP_1_1_REQUIRED) => {
                Failure::Http1Required
            }
            // This end has given the whole connection up, for what other streams have made of it.
            SendError::Http2(error)
                if error.is_library() && error.reason() == Some(Reason::ENHANCE_YOUR_CALM) =>
            {
                Failure::Closed
            }
            SendError::Http2(error) if error.is_library() => Failure::Malformed,
            SendError::Http2(error) if error.is_reset() => match error.reason() {
                Some(Reason::REFUSED_STREAM) => Failure::StreamRefused,
                _ => Failure::StreamReset,
            },
            SendError::Http1(_) | SendError::Http2(_) => Failure::Closed,
        }
    }
}

impl UpstreamConnection {
    /// Sends a request. The response comes while the connection is driven; informational ones go to `interims`.
    ///
    /// # Errors
    /// The request cannot be sent over this protocol.
    pub(super) fn send(
        &mut self,
        mut request: http::Request<UploadBody>,
        interims: &Arc<Interims>,
    ) -> Result<
        impl Future<Output = Result<http::Response<ResponseBody>, SendError>> + use<>,
        Unsendable,
    > {
        let response = match self {
            UpstreamConnection::Exclusive(connection, _) => {
                interims.listen(&mut request);
                Either::Http1(connection.send(request))
            }
            UpstreamConnection::Shared(stream) => {
                Either::Http2(stream.send(request, Arc::clone(interims))?)
            }
        };
        Ok(async {
            match response {
                Either::Http1(response) => {
                    let response = response.await.map_err(SendError::Http1)?;
                    Ok(response.map(|body| ResponseBody(Either::Http1(body))))
                }
                Either::Http2(response) => {
                    let response = response.await.map_err(SendError::Http2)?;
                    Ok(response.map(|body| ResponseBody(Either::Http2(body))))
                }
            }
        })
    }

    /// Returns the meter of what has moved for this exchange.
    pub(super) fn meter(&self) -> &Meter {
        match self {
            UpstreamConnection::Exclusive(connection, _) => connection.meter(),
            UpstreamConnection::Shared(stream) => stream.meter(),
        }
    }

    /// Returns whether the connection served an exchange before this one, so that it may have been closed meanwhile.
    pub(super) fn is_reused(&self) -> bool {
        match self {
            UpstreamConnection::Exclusive(connection, _) => connection.is_reused(),
            UpstreamConnection::Shared(stream) => stream.is_reused(),
        }
    }

    /// Returns whether nothing of the request is missing, neither from the client nor on the way to the upstream.
    pub(super) fn is_sent(&self, upload: &Upload) -> bool {
        match self {
            UpstreamConnection::Exclusive(..) => upload.finished(),
            UpstreamConnection::Shared(stream) => stream.is_sent(),
        }
    }

    /// Drives the connection until `future` is ready.
    pub(super) async fn drive<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future);
        std::future::poll_fn(|cx| self.poll_with(cx, |cx| future.as_mut().poll(cx))).await
    }

    /// Calls `poll` before and after the connection has moved, so that what it has brought is seen in the same turn.
    pub(super) fn poll_with<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        if let Poll::Ready(ready) = poll(cx) {
            return Poll::Ready(ready);
        }
        match self {
            UpstreamConnection::Exclusive(connection, _) => connection.poll(cx),
            UpstreamConnection::Shared(stream) => stream.poll(cx),
        }
        poll(cx)
    }

    /// Returns whether a request for a tunnel can be sent.
    pub(super) fn takes_tunnels(&self) -> bool {
        match self {
            UpstreamConnection::Exclusive(..) => true,
            UpstreamConnection::Shared(stream) => stream.takes_tunnels(),
        }
    }

    /// Returns the byte stream of a connection that carries a tunnel after a response with this body; `None` if it failed.
    pub(super) async fn into_tunnel(self, body: ResponseBody) -> Option<TunnelStream> {
        match (self, body.0) {
            (UpstreamConnection::Exclusive(connection, _), Either::Http1(body)) => {
                drop(body);
                connection.into_tunnel().await
            }
            (UpstreamConnection::Shared(stream), Either::Http2(body)) => stream.into_tunnel(body),
            _ => None,
        }
    }

    /// Releases the connection after a complete exchange whose response had this version. An exchange that ends early
    /// drops its connection instead.
    pub(super) fn release(self, response: Version) {
        // hyper rewrites later requests to the version of an older upstream, without their bodies.
        if let UpstreamConnection::Exclusive(connection, idle) = self
            && response == Version::HTTP_11
        {
            idle.keep(connection);
        }
    }
}

/// Body of a response, whatever the protocol.
pub(super) struct ResponseBody(Either<Incoming, Http2Body>);

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = SendError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SendError>>> {
        match &mut self.0 {
            Either::Http1(body) => {
                let frame = Pin::new(body).poll_frame(cx);
                frame.map(|frame| frame.map(|frame| frame.map_err(SendError::Http1)))
            }
            Either::Http2(body) => {
                let frame = Pin::new(body).poll_frame(cx);
                frame.map(|frame| frame.map(|frame| frame.map_err(SendError::Http2)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Either::Http1(body) => body.is_end_stream(),
            Either::Http2(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Either::Http1(body) => body.size_hint(),
            Either::Http2(body) => body.size_hint(),
        }
    }
}
