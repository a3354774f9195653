//! Counts the bytes between the proxy and an upstream, and the times at which they move.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::transport::ByteStream;

/// Counts the bytes moved since the current request began.
#[derive(Debug)]
pub(super) struct Meter {
    read: Cell<u64>,
    written: Cell<u64>,
    read_at: Cell<Instant>,
    written_at: Cell<Instant>,
}

impl Meter {
    fn new(now: Instant) -> Meter {
        Meter {
            read: Cell::new(0),
            written: Cell::new(0),
            read_at: Cell::new(now),
            written_at: Cell::new(now),
        }
    }

    /// Starts counting for another request.
    pub(super) fn restart(&self, now: Instant) {
        self.read.set(0);
        self.written.set(0);
        self.read_at.set(now);
        self.written_at.set(now);
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
    _open: Open,
}

impl MeteredStream {
    pub(super) fn new(stream: ByteStream, open: Open) -> (MeteredStream, Rc<Meter>) {
        let meter = Rc::new(Meter::new(Instant::now()));
        let stream = MeteredStream {
            stream,
            meter: Rc::clone(&meter),
            write_failed: false,
            _open: open,
        };
        (stream, meter)
    }

    fn after_write(
        &mut self,
        cx: &Context<'_>,
        result: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match result {
            Poll::Ready(Ok(count)) => {
                self.meter
                    .written
                    .set(self.meter.written.get() + count as u64);
                self.meter.written_at.set(Instant::now());
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
        let before = buf.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buf);
        let count = buf.filled().len() - before;
        if count > 0 {
            self.meter.read.set(self.meter.read.get() + count as u64);
            self.meter.read_at.set(Instant::now());
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
            return Poll::Pending;
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
            return Poll::Pending;
        }
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
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
    use crate::http::proxy::tests::run;

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
