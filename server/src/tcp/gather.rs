//! Gathers what a turn of a connection writes, so that TLS makes few records of it and the system is called seldom.
//!
//! h2 writes and flushes each frame of a body by itself, and TLS would make a record of each, with a call of the system: two for each
//! small response. So a flush from above is not passed on; who drives the connection sends what was gathered when h2 has nothing left
//! to write.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Most bytes that are gathered: those of the largest record (RFC 8446 §5.1).
const ROOM: usize = 16 * 1024;
/// Largest record at the beginning of a connection. A client can read nothing of a record before its end, and a congestion window at
/// its beginning has less than [`ROOM`].
const FIRST_RECORDS: usize = 4 * 1024;
/// Bytes after which records are as large as possible.
const FIRST_BYTES: u64 = 64 * 1024;

/// Stream that gathers what is written. It is shared by the protocol above and by what drives the connection.
pub(super) struct Gathering<S>(Rc<RefCell<Gatherer<S>>>);

struct Gatherer<S> {
    stream: S,
    /// Bytes that wait, and how many of them are sent.
    bytes: Vec<u8>,
    sent: usize,
    /// Bytes sent on the connection.
    total: u64,
    /// The stream below has not sent all that it took.
    is_unflushed: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Gathering<S> {
    pub(super) fn new(stream: S) -> Gathering<S> {
        let gatherer =
            Gatherer { stream, bytes: Vec::new(), sent: 0, total: 0, is_unflushed: false };
        Gathering(Rc::new(RefCell::new(gatherer)))
    }

    /// Returns another handle of the stream.
    pub(super) fn share(&self) -> Gathering<S> {
        Gathering(Rc::clone(&self.0))
    }

    /// Sends what was gathered.
    ///
    /// # Errors
    /// Those of the stream below.
    pub(super) fn poll_send(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_send(cx)
    }
}

impl<S: AsyncWrite + Unpin> Gatherer<S> {
    /// Takes as many of these bytes as there is room for.
    fn poll_take(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.bytes.len() == ROOM {
            ready!(self.poll_pass_on(cx))?;
        }
        if self.bytes.capacity() == 0 {
            self.bytes.reserve_exact(ROOM);
        }
        let count = bytes.len().min(ROOM - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_pass_on(cx))?;
        if self.is_unflushed {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.is_unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Passes what was gathered on to the stream below, in records.
    fn poll_pass_on(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.bytes.len() {
            let largest = if self.total < FIRST_BYTES { FIRST_RECORDS } else { ROOM };
            let record = self.bytes[self.sent..].chunks(largest).next().unwrap_or_default();
            let count = ready!(Pin::new(&mut self.stream).poll_write(cx, record))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += count;
            self.total += count as u64;
            self.is_unflushed = true;
        }
        // An idle connection holds no memory for it.
        self.bytes = Vec::new();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathering<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.borrow_mut().stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathering<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().poll_take(cx, bytes)
    }

    /// Leaves it to [`Gathering::poll_send`].
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self.0.borrow_mut();
        ready!(this.poll_send(cx))?;
        Pin::new(&mut this.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Stream that keeps the sizes of what is written, and takes so many bytes.
    struct Sink {
        writes: Vec<usize>,
        bytes: Vec<u8>,
        room: usize,
        flushes: usize,
        is_stuck: bool,
        is_closed: bool,
        is_shut: bool,
    }

    impl AsyncRead for Sink {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl AsyncWrite for Sink {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let count = bytes.len().min(self.room);
            if count == 0 {
                return if self.is_closed { Poll::Ready(Ok(0)) } else { Poll::Pending };
            }
            self.room -= count;
            self.writes.push(count);
            self.bytes.extend_from_slice(&bytes[..count]);
            Poll::Ready(Ok(count))
        }

        fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            if self.is_stuck {
                return Poll::Pending;
            }
            self.flushes += 1;
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.is_shut = true;
            Poll::Ready(Ok(()))
        }
    }

    fn gathering(room: usize) -> Gathering<Sink> {
        Gathering::new(Sink {
            writes: Vec::new(),
            bytes: Vec::new(),
            room,
            flushes: 0,
            is_stuck: false,
            is_closed: false,
            is_shut: false,
        })
    }

    /// Writes bytes that differ, and flushes after each part as h2 does. Returns how many the stream took.
    fn write(stream: &mut Gathering<Sink>, parts: &[usize], from: usize) -> usize {
        let mut cx = Context::from_waker(Waker::noop());
        let mut taken = from;
        for part in parts {
            let bytes: Vec<u8> =
                (taken..taken + part).map(|at| u8::try_from(at % 251).unwrap()).collect();
            let mut left = &bytes[..];
            while !left.is_empty() {
                let Poll::Ready(count) = Pin::new(&mut *stream).poll_write(&mut cx, left) else {
                    return taken - from;
                };
                let count = count.unwrap();
                taken += count;
                left = &left[count..];
            }
            assert!(Pin::new(&mut *stream).poll_flush(&mut cx).is_ready());
        }
        taken - from
    }

    fn send(stream: &Gathering<Sink>) -> bool {
        let sent = stream.poll_send(&mut Context::from_waker(Waker::noop()));
        sent.map(Result::unwrap).is_ready()
    }

    fn writes(stream: &Gathering<Sink>) -> Vec<usize> {
        std::mem::take(&mut stream.0.borrow_mut().stream.writes)
    }

    #[test]
    fn responses_of_a_turn_leave_together() {
        let mut stream = gathering(usize::MAX);
        write(&mut stream, &[100, 900, 100, 900], 0);
        assert_eq!(writes(&stream), [] as [usize; 0]);
        assert!(send(&stream));
        assert_eq!(writes(&stream), [2000]);
        assert_eq!(stream.0.borrow().bytes.capacity(), 0);
        assert!(send(&stream));
        assert_eq!(writes(&stream), [] as [usize; 0]);
    }

    #[test]
    fn records_are_small_at_the_beginning_and_then_full() {
        let mut stream = gathering(usize::MAX);
        let mut sent = write(&mut stream, &[64 * 1024], 0);
        assert!(send(&stream));
        assert_eq!(writes(&stream), [4096; 16]);
        sent += write(&mut stream, &[9, 16 * 1024, 9, 16 * 1024], sent);
        assert!(send(&stream));
        assert_eq!(writes(&stream), [16 * 1024, 16 * 1024, 18]);
        let expected: Vec<u8> = (0..sent).map(|at| u8::try_from(at % 251).unwrap()).collect();
        assert_eq!(stream.0.borrow().stream.bytes, expected);
    }

    #[test]
    fn what_a_client_does_not_take_waits_and_is_bounded() {
        let mut stream = gathering(5000);
        let taken = write(&mut stream, &[1000; 100], 0);
        assert_eq!(taken, ROOM);
        assert_eq!(write(&mut stream, &[1], taken), 0);
        assert!(!send(&stream));
        stream.0.borrow_mut().stream.room = usize::MAX;
        assert!(send(&stream));
        let expected: Vec<u8> = (0..taken).map(|at| u8::try_from(at % 251).unwrap()).collect();
        assert_eq!(stream.0.borrow().stream.bytes, expected);
    }

    #[test]
    fn the_stream_below_sends_all_records_of_a_turn_together() {
        let mut stream = gathering(usize::MAX);
        write(&mut stream, &[40 * 1024], 0);
        assert_eq!(stream.0.borrow().stream.flushes, 0);
        assert!(send(&stream));
        assert_eq!((writes(&stream).len(), stream.0.borrow().stream.flushes), (10, 1));
        assert!(send(&stream));
        assert_eq!(stream.0.borrow().stream.flushes, 1);
    }

    #[test]
    fn what_the_stream_below_has_not_sent_is_asked_for_again() {
        let mut stream = gathering(usize::MAX);
        write(&mut stream, &[1000], 0);
        stream.0.borrow_mut().stream.is_stuck = true;
        assert!(!send(&stream) && !send(&stream));
        assert_eq!(writes(&stream), [1000]);
        stream.0.borrow_mut().stream.is_stuck = false;
        assert!(send(&stream));
        assert_eq!(stream.0.borrow().stream.flushes, 1);
    }

    #[test]
    fn the_end_comes_behind_what_was_gathered() {
        let mut stream = gathering(0);
        write(&mut stream, &[1000], 0);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut stream).poll_shutdown(&mut cx).is_pending());
        assert!(!stream.0.borrow().stream.is_shut);
        stream.0.borrow_mut().stream.room = usize::MAX;
        assert!(Pin::new(&mut stream).poll_shutdown(&mut cx).is_ready());
        assert_eq!((writes(&stream), stream.0.borrow().stream.is_shut), (vec![1000], true));
    }

    #[test]
    fn a_stream_that_takes_nothing_more_is_an_error() {
        let mut stream = gathering(0);
        write(&mut stream, &[1], 0);
        stream.0.borrow_mut().stream.is_closed = true;
        let sent = stream.poll_send(&mut Context::from_waker(Waker::noop()));
        assert!(
            matches!(sent, Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::WriteZero)
        );
    }
}
