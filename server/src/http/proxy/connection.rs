//! Connections to upstreams, as exchanges use them.

use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use http::Version;
use hyper::body::Incoming;

use super::http1::Http1Connection;
use super::idle::IdleConnections;
use super::metered_stream::Meter;
use super::upload::UploadBody;

/// Connection to an upstream, while one exchange uses it.
///
/// All connections are exclusive so far. An HTTP/2 connection would be shared, and a task of its own would drive it. Its
/// variant would hold a clone of that connection's sender and a meter of the exchange's stream.
/// [`UpstreamConnection::poll_with`] would drive nothing, and [`UpstreamConnection::release`] would drop the clone.
/// [`Upstream::connection`](super::upstream::Upstream::connection) would choose the variant. The callers of these
/// functions would not change.
pub(super) enum UpstreamConnection {
    /// HTTP/1.1: one exchange at a time, which drives the connection itself, so that dropping the exchange closes it. A
    /// connection that is fit for another exchange goes to the idle ones.
    Exclusive(Http1Connection, Rc<IdleConnections>),
}

impl UpstreamConnection {
    /// Sends a request. The response comes while the connection is driven.
    pub(super) fn send(
        &mut self,
        request: http::Request<UploadBody>,
    ) -> impl Future<Output = hyper::Result<http::Response<Incoming>>> + use<> {
        let UpstreamConnection::Exclusive(connection, _) = self;
        connection.send(request)
    }

    /// Returns the meter of what has moved for this exchange.
    pub(super) fn meter(&self) -> &Meter {
        let UpstreamConnection::Exclusive(connection, _) = self;
        connection.meter()
    }

    /// Returns whether the connection served an exchange before this one, so that it may have been closed meanwhile.
    pub(super) fn is_reused(&self) -> bool {
        let UpstreamConnection::Exclusive(connection, _) = self;
        connection.is_reused()
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
        let UpstreamConnection::Exclusive(connection, _) = self;
        connection.poll(cx);
        poll(cx)
    }

    /// Releases the connection after a complete exchange whose response had this version. An exchange that ends early
    /// drops its connection instead.
    pub(super) async fn release(self, response: Version) {
        let UpstreamConnection::Exclusive(connection, idle) = self;
        // hyper rewrites later requests to the version of an older upstream, without their bodies.
        if response == Version::HTTP_11 {
            idle.keep(connection).await;
        }
    }
}
