//! Bytes that a client sends through its tunnel.

use std::future::poll_fn;
use std::io;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadHalf};

use crate::http::block::poll_block;

/// Stream of bytes in both directions.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Duplex for S {}

/// Bytes of the client, for the handler.
pub(super) struct TunnelReader {
    /// Bytes that came with the head of the request.
    early: Bytes,
    read: ReadHalf<Box<dyn Duplex>>,
}

impl TunnelReader {
    /// Returns the reader of a stream, in front of which come `early` bytes.
    pub(super) fn new(early: Bytes, read: ReadHalf<Box<dyn Duplex>>) -> TunnelReader {
        TunnelReader { early, read }
    }

    /// Waits for a block; an empty one is the end. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> io::Result<Bytes> {
        if !self.early.is_empty() {
            return Ok(std::mem::take(&mut self.early));
        }
        poll_fn(|cx| poll_block(&mut self.read, cx)).await
    }
}

impl std::fmt::Debug for TunnelReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TunnelReader").finish_non_exhaustive()
    }
}
