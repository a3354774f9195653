//! Way of a tunnel's bytes to its client.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::SendStream;
use tokio::io::{AsyncWriteExt as _, WriteHalf};

use crate::tcp::body::BLOCK;
use crate::tcp::send_buffer::StreamBuffer;
use crate::tcp::tunnel_reader::Duplex;
use crate::tcp::window;

/// Way of a tunnel's bytes to its client.
pub(super) enum Outlet {
    /// The whole connection, of HTTP/1.1.
    Connection(WriteHalf<Box<dyn Duplex>>),
    /// A stream of HTTP/2, and its part of what the connection may hold for the client.
    Stream(SendStream<Bytes>, Arc<StreamBuffer>),
}

impl Outlet {
    /// Returns the most bytes that the next block may have, once the client may be sent more.
    ///
    /// # Errors
    /// The client has reset the stream, which says so in no other way while nothing is written, or the connection has ended.
    pub(super) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Outlet::Stream(stream, buffer) = self else {
            return Poll::Ready(Ok(usize::MAX));
        };
        if stream.poll_reset(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        buffer.poll_room(cx).map(|room| Ok(room.min(BLOCK)))
    }

    /// Sends a block. HTTP/2 gets only what the client's windows have room for, and the block counts as held until it drops the bytes.
    ///
    /// # Errors
    /// The client, or its stream, has gone.
    pub(super) async fn write(&mut self, block: Bytes) -> io::Result<()> {
        let (stream, buffer) = match self {
            Outlet::Connection(stream) => {
                stream.write_all(&block).await?;
                return stream.flush().await;
            }
            Outlet::Stream(stream, buffer) => (stream, buffer),
        };
        let mut held = buffer.hold(block);
        stream.reserve_capacity(held.len());
        while !held.is_empty() {
            let room = window::room(stream).await.map_err(io::Error::other)?;
            let part = held.split_to(room.min(held.len()));
            stream.send_data(part, false).map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Ends the server's side. The client may have gone.
    pub(super) async fn end(self) {
        match self {
            Outlet::Connection(mut stream) => {
                let _ = stream.shutdown().await;
            }
            Outlet::Stream(mut stream, _) => {
                let _ = stream.send_data(Bytes::new(), true);
            }
        }
    }
}

#[cfg(test)]
mod tests;
