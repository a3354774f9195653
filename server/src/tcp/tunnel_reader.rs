//! Bytes that a client sends through its tunnel.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadHalf};

use sluicegate_http::block::poll_block;

/// Stream of bytes in both directions.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Duplex for S {}

/// Bytes of the client, for the handler.
pub(super) enum TunnelReader {
    /// A whole connection, of HTTP/1.1.
    Connection {
        /// Bytes that came with the head of the request.
        early: Bytes,
        read: ReadHalf<Box<dyn Duplex>>,
    },
    /// A stream of HTTP/2.
    Stream(RecvStream),
}

impl TunnelReader {
    /// Waits for a block; an empty one is the end. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The connection has failed, or the client has reset the stream.
    pub(super) async fn next(&mut self) -> io::Result<Bytes> {
        match self {
            TunnelReader::Connection { early, .. } if !early.is_empty() => {
                Ok(std::mem::take(early))
            }
            TunnelReader::Connection { read, .. } => poll_fn(|cx| poll_block(read, cx)).await,
            TunnelReader::Stream(stream) => poll_fn(|cx| poll_data(stream, cx)).await,
        }
    }
}

/// Reads the next block that is not empty. What follows the data of a tunnel, such as trailers, has no meaning.
fn poll_data(stream: &mut RecvStream, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
    while let Some(block) = ready!(stream.poll_data(cx)) {
        let block = block.map_err(io::Error::other)?;
        // It fails only if the stream is closed, which the next read finds out.
        let _ = stream.flow_control().release_capacity(block.len());
        if !block.is_empty() {
            return Poll::Ready(Ok(block));
        }
    }
    Poll::Ready(Ok(Bytes::new()))
}

impl std::fmt::Debug for TunnelReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TunnelReader").finish_non_exhaustive()
    }
}
