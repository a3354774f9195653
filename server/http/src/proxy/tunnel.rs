//! Carries the bytes of a tunnel between a client and an upstream.

use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

use super::deadline::Deadline;
use super::exchange_error::ExchangeError;
use super::failure::Failure;
use super::metered_stream::Meter;
use super::transport::ByteStream;
use crate::block::poll_block;
use crate::exchange::handler::{BodySender, RequestBody};

/// Upstream's end of a tunnel.
pub(super) struct TunnelStream {
    pub(super) stream: ByteStream,
    pub(super) meter: Rc<Meter>,
    /// Bytes of the tunnel that came with the head of the response.
    pub(super) early: Bytes,
}

/// Tunnel between a client and an upstream. Each way holds one block at a time, and none while nothing moves.
pub(super) struct Tunnel<'a> {
    pub(super) upstream: TunnelStream,
    pub(super) client: RequestBody,
    pub(super) writer: &'a mut BodySender,
    /// Longest time without a byte in either direction; zero for any.
    pub(super) idle_timeout: Duration,
}

impl Tunnel<'_> {
    /// Carries bytes until the upstream ends its direction. The end of the client's direction is passed on, and the upstream
    /// may still respond.
    ///
    /// # Errors
    /// The upstream has reset the connection, the client has cancelled, or nothing has moved for too long.
    pub(super) async fn run(self) -> Result<(), ExchangeError> {
        let TunnelStream { stream, meter, early } = self.upstream;
        let (read, write) = tokio::io::split(stream);
        let mut up = pin!(to_upstream(self.client, write));
        let mut down = pin!(to_client(early, read, self.writer));
        let mut sent = false;
        let limit = Some(self.idle_timeout).filter(|limit| !limit.is_zero());
        let mut timer = limit.map(|limit| (limit, Deadline::default()));
        std::future::poll_fn(|cx| {
            if !sent && let Poll::Ready(ended) = up.as_mut().poll(cx) {
                if let Err(error) = ended {
                    return Poll::Ready(Err(error));
                }
                sent = true;
            }
            if let Poll::Ready(ended) = down.as_mut().poll(cx) {
                return Poll::Ready(ended);
            }
            if let Some((limit, deadline)) = &mut timer {
                let moved = meter.read_at().max(meter.written_at());
                if deadline.is_over(cx, moved + *limit) {
                    return Poll::Ready(Err(ExchangeError::Failed(Failure::TunnelTimeout)));
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// Passes the client's bytes to the upstream, and then their end. A write that fails waits: the read says why.
async fn to_upstream(
    mut client: RequestBody,
    mut write: impl AsyncWrite + Unpin,
) -> Result<(), ExchangeError> {
    while let Some(frame) = client.frame().await {
        let Ok(block) = frame?.into_data() else {
            // Trailers have no meaning here.
            continue;
        };
        if write.write_all(&block).await.is_err() || write.flush().await.is_err() {
            return std::future::pending().await;
        }
    }
    // The upstream may have closed already.
    let _ = write.shutdown().await;
    Ok(())
}

/// Passes the upstream's bytes to the client, until they end.
async fn to_client(
    early: Bytes,
    mut read: impl AsyncRead + Unpin,
    writer: &mut BodySender,
) -> Result<(), ExchangeError> {
    writer.data(early).await?;
    loop {
        let block = std::future::poll_fn(|cx| poll_block(&mut read, cx)).await;
        let block = block.map_err(|_| ExchangeError::Failed(Failure::BodyCut))?;
        if block.is_empty() {
            return Ok(());
        }
        writer.data(block).await?;
    }
}
