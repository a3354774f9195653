//! Counts the bytes between the proxy and an upstream, and the times at which they move.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

use super::transport::ByteStream;

/// Counts the bytes moved since the current request began.
#[derive(Debug)]
pub(super) struct Meter {
    read: Cell<u64>,
    written: Cell<u64>,
    read_at: Cell<Instant>,
    written_at: Cell<Instant>,
    arrived: Notify,
}

impl Meter {
    pub(super) fn new(now: Instant) -> Meter {
        Meter {
            read: Cell::new(0),
            written: Cell::new(0),
            read_at: Cell::new(now),
            written_at: Cell::new(now),
            arrived: Notify::new(),
        }
    }

    /// Starts counting for another request.
    pub(super) fn restart(&self, now: Instant) {
        self.read.set(0);
        self.written.set(0);
        self.read_at.set(now);
        self.written_at.set(now);
    }

    /// Counts bytes that were read.
    pub(super) fn on_read(&self, count: u64) {
        self.read.set(self.read.get() + count);
        self.read_at.set(Instant::now());
        self.arrived.notify_waiters();
    }

    /// Counts bytes that the transport, or the connection of an HTTP/2 stream, has taken.
    pub(super) fn on_written(&self, count: u64) {
        self.written.set(self.written.get() + count);
        self.written_at.set(Instant::now());
    }

    /// Waits until bytes arrive.
    pub(super) fn arrived(&self) -> Notified<'_> {
        self.arrived.notified()
    }

    /// Returns the bytes of the response that were read.
    pub(super) fn read(&self) -> u64 {
        self.read.get()
    }

    /// Returns the bytes of the request that the transport has taken.
    pub(super) fn written(&self) -> u64 {
        self.written.get()
    }

    /// Returns the time of the last read.
    pub(super) fn read_at(&self) -> Instant {
        self.read_at.get()
    }

    /// Returns the time of the last write.
    pub(super) fn written_at(&self) -> Instant {
        self.written_at.get()
    }
}

/// Counts connections while they are open.
#[derive(Debug)]
pub(super) struct Open(Rc<Cell<u64>>);

impl Open {
    pub(super) fn new(gauge: &Rc<Cell<u64>>) -> Open {
        gauge.set(gauge.get() + 1);
        Open(Rc::clone(gauge))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Byte stream to an upstream that counts what moves on it.
///
/// A write that fails does not fail the exchange: an upstream may respond early and close, and its response can still be
/// read. If there is none, the read fails.
pub(super) struct MeteredStream {
    stream: ByteStream,
    meter: Rc<Meter>,
    /// Whether a write has failed; no other will succeed.
    write_failed: bool,
    /// Whether writes fail once nothing is left to read. Otherwise they wait forever.
    ends: bool,
    /// Whether nothing is left to read.
    read_ended: bool,
    _open: Open,
}

impl MeteredStream {
    pub(super) fn new(stream: ByteStream, open: Open) -> (MeteredStream, Rc<Meter>) {
        let meter = Rc::new(Meter::new(Instant::now()));
        let stream = MeteredStream {
            stream,
            meter: Rc::clone(&meter),
            write_failed: false,
            ends: false,
            read_ended: false,
            _open: open,
        };
        (stream, meter)
    }

    /// Returns a stream whose writes fail once nothing is left to read: an HTTP/2 connection does not end before its last write.
    pub(super) fn that_ends(stream: ByteStream, open: Open) -> (MeteredStream, Rc<Meter>) {
        let (stream, meter) = MeteredStream::new(stream, open);
        let ends = true;
        (MeteredStream { ends, ..stream }, meter)
    }

    /// Returns the result of a write after one that has failed.
    fn after_failure(&self) -> Poll<io::Result<usize>> {
        if self.ends && self.read_ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        Poll::Pending
    }

    fn after_write(
        &mut self,
        cx: &Context<'_>,
        result: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match result {
            Poll::Ready(Ok(count)) => {
                self.meter.on_written(count as u64);
                Poll::Ready(Ok(count))
            }
            Poll::Ready(Err(_)) => {
                self.write_failed = true;
                // The response may be there, and nobody has read since.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for MeteredStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (before, room) = (buf.filled().len(), buf.remaining());
        let result = Pin::new(&mut self.stream).poll_read(cx, buf);
        let count = buf.filled().len() - before;
        self.read_ended |= result.is_ready() && room > 0 && count == 0;
        if count > 0 {
            self.meter.on_read(count as u64);
        }
        result
    }
}

impl AsyncWrite for MeteredStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.write_failed {
            return self.after_failure();
        }
        let result = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.after_write(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.write_failed {
            return self.after_failure();
        }
        let stream = Pin::new(&mut self.stream);
        let result = match bufs {
            // A head alone, as most requests are: send(2) costs less than writev(2).
            [buf] => stream.poll_write(cx, buf),
            bufs => stream.poll_write_vectored(cx, bufs),
        };
        self.after_write(cx, result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::proxy::tests::run;

    #[test]
    fn a_response_can_be_read_after_a_write_has_failed() {
        run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let stream = TcpStream::connect(address).await.unwrap();
            let gauge = Rc::new(Cell::new(0));
            let (mut metered, meter) = MeteredStream::new(Box::new(stream), Open::new(&gauge));
            let mut peer = listener.accept().await.unwrap().0;
            peer.write_all(b"reply!").await.unwrap();
            peer.set_zero_linger().unwrap();
            drop(peer);
            let mut writes = 0;
            std::future::poll_fn(|cx| {
                while !metered.write_failed {
                    writes += 1;
                    assert!(writes < 1000, "the peer has reset the connection");
                    let write = Pin::new(&mut metered).poll_write(cx, b"x");
                    assert!(!matches!(write, Poll::Ready(Err(_))));
                }
                Poll::Ready(())
            })
            .await;
            let mut response = [0; 6];
            metered.read_exact(&mut response).await.unwrap();
            assert_eq!(&response, b"reply!");
            assert_eq!((meter.read(), gauge.get()), (6, 1));
            assert!(metered.read_u8().await.is_err());
            drop(metered);
            assert_eq!(gauge.get(), 0);
        });
    }
}
