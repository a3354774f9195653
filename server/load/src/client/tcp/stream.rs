//! The bytes of a connection as hyper reads and writes them, with TLS or without, and the account of them.

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use boring::ssl::SslStream;
use hyper::rt::ReadBufCursor;

use super::frames::Frames;

/// Bytes that a connection reads in a turn, so that others have theirs.
const TURN: usize = 256 << 10;
/// Size of a read: what a record of TLS carries.
pub(super) const READ: usize = 16 << 10;

/// A socket that a stream and its owner share.
#[derive(Clone, Debug)]
pub(super) struct Socket(pub(super) Rc<TcpStream>);

impl Read for Socket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        (&*self.0).read(bytes)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Account of a stream, which its owner reads, and the tasks that wait for the socket.
#[derive(Default)]
pub(super) struct Account {
    /// Bytes that were read, without TLS.
    pub(super) received: Cell<u64>,
    /// Bytes that were written, without TLS.
    pub(super) sent: Cell<u64>,
    /// Frames of what was read, if it is HTTP/2.
    pub(super) frames: RefCell<Option<Frames>>,
    /// hyper has ended the connection.
    pub(super) is_over: Cell<bool>,
    /// Bytes that may still be read in this turn.
    left: Cell<usize>,
    /// A read had to wait for the next turn.
    pub(super) is_starved: Cell<bool>,
    reader: Cell<Option<Waker>>,
    writer: Cell<Option<Waker>>,
}

impl Account {
    /// Returns the bytes of responses that were read: all of them but frames of HTTP/2 that concern the connection.
    pub(super) fn content(&self) -> u64 {
        let frames = self.frames.borrow();
        frames.as_ref().map_or(self.received.get(), |frames| frames.content)
    }

    /// Begins a turn: wakes what waits for the socket.
    pub(super) fn begin_turn(&self) {
        self.left.set(TURN);
        self.is_starved.set(false);
        let waiting = [self.reader.take(), self.writer.take()];
        waiting.into_iter().flatten().for_each(Waker::wake);
    }
}

/// Way of the bytes to the socket.
pub(super) enum Layer {
    Plain(Socket),
    Tls(SslStream<Socket>),
}

/// Stream of a connection without TLS, or after the handshake.
pub(super) struct Stream {
    pub(super) layer: Layer,
    pub(super) account: Rc<Account>,
    /// Room for a read, which all streams of a thread share.
    pub(super) buffer: Rc<RefCell<Vec<u8>>>,
}

impl Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match &mut self.layer {
            Layer::Plain(socket) => socket.read(bytes),
            Layer::Tls(tls) => tls.read(bytes),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.layer {
            Layer::Plain(socket) => socket.write(bytes),
            Layer::Tls(tls) => tls.write(bytes),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.account.is_over.set(true);
    }
}

impl hyper::rt::Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut room: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let account = Rc::clone(&self.account);
        let left = account.left.get();
        if left == 0 {
            account.is_starved.set(true);
            account.reader.set(Some(cx.waker().clone()));
            return Poll::Pending;
        }
        let buffer = Rc::clone(&self.buffer);
        let mut buffer = buffer.borrow_mut();
        let most = room.remaining().min(READ);
        let result = uninterrupted(|| self.read(&mut buffer[..most]));
        match result {
            Ok(len) => {
                let bytes = &buffer[..len];
                account.left.set(left.saturating_sub(len));
                account.received.set(account.received.get() + len as u64);
                if let Some(frames) = account.frames.borrow_mut().as_mut() {
                    frames.read(bytes);
                }
                room.put_slice(bytes);
                Poll::Ready(Ok(()))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                account.reader.set(Some(cx.waker().clone()));
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl hyper::rt::Write for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match uninterrupted(|| self.write(bytes)) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.account.writer.set(Some(cx.waker().clone()));
                Poll::Pending
            }
            result => {
                let len = result.as_ref().copied().unwrap_or(0);
                let sent = &self.account.sent;
                sent.set(sent.get() + len as u64);
                Poll::Ready(result)
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let socket = match &mut self.layer {
            Layer::Plain(socket) => socket,
            Layer::Tls(tls) => {
                // A server that does not read loses the close_notify, and sees the end of the stream.
                let _ = tls.shutdown();
                tls.get_mut()
            }
        };
        // The server may have closed it.
        let _ = socket.0.shutdown(Shutdown::Write);
        Poll::Ready(Ok(()))
    }
}

fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
