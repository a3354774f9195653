//! Byte streams to the upstreams of a pool, for handlers that speak another protocol than HTTP to them.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use sluicegate_base::clients::ClientPrefix;
use sluicegate_base::observe::account::Wait;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::counters::ProxyCounters;
use super::definition::RoutePool;
use super::failure::Failure;
use super::pool::Pools;
use super::transport::ByteStream;
use super::upstream::ActiveRequest;
use crate::exchange::handler::Reporter;

/// Byte stream to an upstream, which counts as a request of it until the value is dropped.
pub(crate) struct BareStream {
    stream: ByteStream,
    active: ActiveRequest,
}

/// Reason for which there is no stream, and the upstream that was tried last.
pub(crate) type Unopened = (Failure, Option<Arc<str>>);

impl Pools {
    /// Opens a stream for a client to an upstream of the pool, each within `limit`. Upstreams are tried until one can be reached: none of them has
    /// received anything.
    ///
    /// # Errors
    /// The failure of the last one.
    pub(crate) async fn open(
        &self,
        pool: &RoutePool,
        client: ClientPrefix,
        limit: Duration,
        reporter: &Reporter,
    ) -> Result<BareStream, Unopened> {
        let pool = self.pool(&pool.0);
        let mut tried = Vec::new();
        loop {
            let assigned = pool.assign(client, &tried, None);
            let assigned = reporter.during(Wait::Queue, Wait::UpstreamResponse, assigned).await;
            let active = assigned.map_err(|failure| (failure, None))?;
            let upstream = Rc::clone(active.upstream());
            let opened = upstream.bare_stream(limit);
            let opened = reporter.during(Wait::UpstreamConnect, Wait::UpstreamResponse, opened);
            let failure = match opened.await {
                Ok(stream) => {
                    self.tally().count(|c| c.opened += 1);
                    return Ok(BareStream { stream, active });
                }
                Err(failure) => failure,
            };
            active.on_failure(failure, true);
            let label = Arc::clone(upstream.label());
            tried.push(upstream);
            // Another upstream needs the same descriptors.
            if failure == Failure::Exhausted || !pool.has_untried(&tried) {
                return Err((failure, Some(label)));
            }
        }
    }

    /// Changes the counters for a request that its handler counts itself.
    pub(crate) fn count(&self, change: impl FnOnce(&mut ProxyCounters)) {
        self.tally().count(change);
    }
}

impl BareStream {
    /// Returns the address of the upstream for logs.
    pub(crate) fn label(&self) -> &Arc<str> {
        self.active.upstream().label()
    }

    /// Notes that the upstream has responded.
    pub(crate) fn on_success(&self) {
        self.active.on_success();
    }

    /// Counts the failure of the request.
    pub(crate) fn on_failure(&self, failure: Failure) {
        self.active.on_failure(failure, true);
    }
}

impl AsyncRead for BareStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for BareStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
