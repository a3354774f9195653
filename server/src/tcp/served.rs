//! Connections as HTTP serves them.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

use super::errors::ConnectionError;
use super::metered::Meter;
use super::refused_head::RefusedHead;
use super::service::RequestService;
use super::tunnel::TunnelSlot;

/// A connection that serves requests until its end.
pub(super) trait Served: Future<Output = Result<(), ConnectionError>> {
    /// Asks the client to open another connection: GOAWAY, or `connection: close`.
    fn leave(self: Pin<&mut Self>);
}

/// Connection of HTTP/1.1, and the tunnel that it may become.
pub(super) struct Http1<S>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    /// Until the last one has its response, or a tunnel begins.
    requests: Option<http1::Connection<TokioIo<S>, RequestService>>,
    slot: TunnelSlot,
    rest: Option<Rest>,
    meter: Rc<Meter>,
    /// Error that ended the requests, until the connection is shut down.
    error: Option<ConnectionError>,
}

impl<S> Http1<S>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    pub(super) fn new(
        requests: http1::Connection<TokioIo<S>, RequestService>,
        slot: TunnelSlot,
        meter: &Rc<Meter>,
    ) -> Http1<S> {
        Http1 { requests: Some(requests), slot, rest: None, meter: Rc::clone(meter), error: None }
    }
}

/// What follows the requests of a connection: a tunnel, or its end.
type Rest = Pin<Box<dyn Future<Output = ()>>>;

/// Ends a connection after its last response.
async fn shut_down(mut stream: impl AsyncWrite + Unpin) {
    // The client may have closed the connection.
    let _ = stream.shutdown().await;
}

impl<S> Future for Http1<S>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    type Output = Result<(), ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(requests) = &mut this.requests {
            // hyper does not shut a connection down after a request with `upgrade`, whatever the response was.
            let ended = ready!(requests.poll_without_shutdown(cx));
            if let Err(error) = ended {
                if RefusedHead::of(&error).is_none() {
                    return Poll::Ready(Err(error.into()));
                }
                // The rest of the head may be on its way, and a reset would take the response from the client.
                this.meter.leave_unread();
                this.error = Some(error.into());
            }
            this.rest = this.requests.take().map(|requests| {
                let parts = requests.into_parts();
                let stream = parts.io.into_inner();
                if !parts.read_buf.is_empty() {
                    // The client has not awaited the last response, and may send more requests.
                    this.meter.leave_unread();
                }
                match this.slot.take().filter(|_| this.error.is_none()) {
                    Some(tunnel) => {
                        Box::pin(tunnel.run_on_connection(stream, parts.read_buf)) as Rest
                    }
                    None => Box::pin(shut_down(stream)),
                }
            });
        }
        match &mut this.rest {
            Some(rest) => {
                ready!(rest.as_mut().poll(cx));
                Poll::Ready(this.error.take().map_or(Ok(()), Err))
            }
            None => Poll::Ready(Ok(())),
        }
    }
}

impl<S> Served for Http1<S>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    fn leave(mut self: Pin<&mut Self>) {
        if let Some(requests) = &mut self.requests {
            Pin::new(requests).graceful_shutdown();
        }
    }
}
