//! Bytes of a tunnel on a stream of HTTP/2 (RFC 8441).

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use h2::{RecvStream, SendStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::slot::StreamSlot;
use crate::proxy::metered_stream::Meter;

/// Stream of HTTP/2 as a stream of bytes. Dropping it before both directions have ended resets it.
pub(super) struct Http2Tunnel {
    send: SendStream<Bytes>,
    receive: RecvStream,
    meter: Rc<Meter>,
    /// Bytes that were received and not read.
    block: Bytes,
    _slot: StreamSlot,
}

impl Http2Tunnel {
    pub(super) fn new(
        send: SendStream<Bytes>,
        receive: RecvStream,
        meter: &Rc<Meter>,
        slot: StreamSlot,
    ) -> Http2Tunnel {
        Http2Tunnel { send, receive, meter: Rc::clone(meter), block: Bytes::new(), _slot: slot }
    }
}

impl AsyncRead for Http2Tunnel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.block.is_empty() {
            match ready!(this.receive.poll_data(cx)) {
                Some(block) => this.block = block.map_err(io::Error::other)?,
                None => return Poll::Ready(Ok(())),
            }
        }
        let count = buffer.remaining().min(this.block.len());
        buffer.put_slice(&this.block[..count]);
        this.block.advance(count);
        this.meter.on_read(count as u64);
        // It fails only if the stream is closed, which the next read finds out.
        let _ = this.receive.flow_control().release_capacity(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Http2Tunnel {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        this.send.reserve_capacity(bytes.len());
        while this.send.capacity() == 0 {
            let room = ready!(this.send.poll_capacity(cx)).transpose();
            if room.map_err(io::Error::other)?.is_none() {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
        }
        let count = this.send.capacity().min(bytes.len());
        let part = Bytes::copy_from_slice(&bytes[..count]);
        this.send.send_data(part, false).map_err(io::Error::other)?;
        this.meter.on_written(count as u64);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.send.send_data(Bytes::new(), true).map_err(io::Error::other))
    }
}
