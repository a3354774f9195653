//! Byte stream of a connection that leaves every other one its turn.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf, Take};
use tokio::time::{Sleep, sleep};

use super::connection::Connection;

/// Stream whose reads in a turn are bounded, and which pauses where its client achieves nothing and the thread is overloaded.
///
/// hyper and h2 read on as long as there is anything, and h2 processes frames that need no response at once. One connection could keep all
/// others waiting for it.
pub(super) struct PacedStream<S> {
    stream: Take<S>,
    connection: Rc<Connection>,
    pause: Option<Pin<Box<Sleep>>>,
    /// The last read came when the turn was over; the next one begins another turn. A tunnel is read by another task than the connection's.
    is_over: bool,
}

impl<S: AsyncRead> PacedStream<S> {
    pub(super) fn new(stream: S, connection: &Rc<Connection>) -> PacedStream<S> {
        PacedStream {
            stream: stream.take(0),
            connection: Rc::clone(connection),
            pause: None,
            is_over: false,
        }
    }

    /// Waits until the connection may read on.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<u64> {
        let progress = &self.connection.progress;
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        if std::mem::take(&mut self.is_over) {
            progress.begin_turn(self.connection.front.now());
        }
        let allowance = progress.allowance();
        if allowance > 0 {
            return Poll::Ready(allowance);
        }
        self.is_over = true;
        if progress.is_in_credit() || !self.connection.front.is_overloaded() {
            // Behind all tasks that are ready.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let Some(pause) = progress.next_pause() else {
            self.connection.on_no_progress();
            return Poll::Pending;
        };
        let pause = self.pause.insert(Box::pin(sleep(pause)));
        // It has just begun.
        let _ = pause.as_mut().poll(cx);
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PacedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let allowance = ready!(this.poll_turn(cx));
        this.stream.set_limit(allowance);
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        let count = buffer.filled().len() - before;
        this.connection.progress.on_read(count as u64);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for PacedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.stream.get_mut()).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.stream.get_mut()).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.get_ref().is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.stream.get_mut()).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.stream.get_mut()).poll_shutdown(cx)
    }
}
