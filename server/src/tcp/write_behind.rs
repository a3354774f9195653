//! Gathers the records that TLS writes, so that one call of the system sends several.
//!
//! TLS writes each record by itself, and the system would pass each through the network stack by itself.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;

/// Most bytes that are gathered: those of four records, the most that the system passes through its stack at once.
const ROOM: usize = 64 * 1024;

thread_local! {
    /// Buffer that the connections of a thread lend each other: one that sends everything in its turn needs none afterwards.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Bytes that were written and not sent yet.
#[derive(Debug, Default)]
pub(super) struct WriteBehind {
    bytes: Vec<u8>,
    /// Whether writes are gathered until a flush.
    is_on: bool,
}

impl WriteBehind {
    /// Gathers what is written from now on until a flush.
    pub(super) fn begin(&mut self) {
        self.is_on = true;
    }

    /// Takes bytes, and sends what there is no room for. `on_write` receives the result of each call of the system.
    ///
    /// # Errors
    /// Those of the stream.
    pub(super) fn poll_write(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
        bytes: &[u8],
        on_write: impl Fn(&Poll<io::Result<usize>>),
    ) -> Poll<io::Result<usize>> {
        if self.bytes.len() + bytes.len() > ROOM {
            ready!(self.poll_send(stream, cx, &on_write))?;
        }
        if !self.is_on || bytes.len() >= ROOM {
            let written = Pin::new(stream).poll_write(cx, bytes);
            on_write(&written);
            return written;
        }
        if self.bytes.capacity() == 0 {
            self.bytes = SPARE.take();
            self.bytes.reserve_exact(ROOM);
        }
        self.bytes.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    /// Sends what was gathered.
    ///
    /// # Errors
    /// Those of the stream.
    pub(super) fn poll_send(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
        on_write: impl Fn(&Poll<io::Result<usize>>),
    ) -> Poll<io::Result<()>> {
        if self.bytes.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let mut left = &self.bytes[..];
        let sent = loop {
            if left.is_empty() {
                break Poll::Ready(Ok(()));
            }
            let written = Pin::new(&mut *stream).poll_write(cx, left);
            on_write(&written);
            match written {
                Poll::Ready(Ok(0)) => break Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => left = &left[count..],
                Poll::Ready(Err(error)) => break Poll::Ready(Err(error)),
                Poll::Pending => break Poll::Pending,
            }
        };
        if left.len() < self.bytes.capacity() {
            // A connection that waits for its client holds only what waits.
            let left = left.to_vec();
            let mut spare = std::mem::replace(&mut self.bytes, left);
            if spare.capacity() >= ROOM {
                spare.clear();
                SPARE.set(spare);
            }
        }
        sent
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::task::Waker;

    use super::*;

    /// Stream that takes so many bytes, and keeps what it has taken by calls.
    struct Sink {
        calls: Vec<Vec<u8>>,
        room: usize,
        is_closed: bool,
    }

    impl AsyncWrite for Sink {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let count = bytes.len().min(self.room);
            if count == 0 && !self.is_closed {
                return Poll::Pending;
            }
            self.room -= count;
            self.calls.push(bytes[..count].to_vec());
            Poll::Ready(Ok(count))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// A stream with what is gathered in front of it.
    struct Gathered {
        behind: WriteBehind,
        sink: Sink,
        /// Bytes that the stream was noted to have taken.
        noted: RefCell<usize>,
    }

    impl Gathered {
        fn new(room: usize) -> Gathered {
            let mut behind = WriteBehind::default();
            behind.begin();
            let sink = Sink { calls: Vec::new(), room, is_closed: false };
            Gathered { behind, sink, noted: RefCell::default() }
        }

        fn write(&mut self, bytes: &[u8]) -> Poll<io::Result<usize>> {
            let note = |written: &Poll<io::Result<usize>>| {
                if let Poll::Ready(Ok(count)) = written {
                    *self.noted.borrow_mut() += count;
                }
            };
            let mut cx = Context::from_waker(Waker::noop());
            self.behind.poll_write(&mut self.sink, &mut cx, bytes, note)
        }

        fn send(&mut self) -> Poll<io::Result<()>> {
            let mut cx = Context::from_waker(Waker::noop());
            self.behind.poll_send(&mut self.sink, &mut cx, |_| {})
        }

        fn calls(&self) -> Vec<usize> {
            self.sink.calls.iter().map(Vec::len).collect()
        }
    }

    #[test]
    fn records_leave_together_and_an_idle_connection_holds_nothing() {
        let mut stream = Gathered::new(usize::MAX);
        for _ in 0..3 {
            assert!(matches!(stream.write(&[7; 16_406]), Poll::Ready(Ok(16_406))));
        }
        assert_eq!(stream.calls(), [0; 0]);
        assert!(matches!(stream.send(), Poll::Ready(Ok(()))));
        assert_eq!(stream.calls(), [3 * 16_406]);
        assert_eq!(stream.behind.bytes.capacity(), 0);
        assert!(matches!(stream.send(), Poll::Ready(Ok(()))));
        assert_eq!(stream.calls().len(), 1);
    }

    #[test]
    fn buffer_is_bounded_and_nothing_is_lost_or_reordered() {
        let mut stream = Gathered::new(100_000);
        let mut taken = Vec::new();
        for number in 0..20 {
            let record = [number; 16_406];
            match stream.write(&record) {
                Poll::Ready(count) => taken.extend_from_slice(&record[..count.unwrap()]),
                Poll::Pending => break,
            }
        }
        assert!(stream.behind.bytes.len() <= ROOM && taken.len() < 100_000 + ROOM);
        assert!(stream.send().is_pending());
        assert_eq!(*stream.noted.borrow(), 100_000);
        stream.sink.room = usize::MAX;
        assert!(matches!(stream.send(), Poll::Ready(Ok(()))));
        assert!(stream.sink.calls.concat() == taken);
    }

    #[test]
    fn connection_that_waits_holds_only_what_waits() {
        let mut stream = Gathered::new(1000);
        let _ = stream.write(&[7; 1500]);
        assert!(stream.send().is_pending());
        assert_eq!((stream.behind.bytes.len(), stream.behind.bytes.capacity()), (500, 500));
        let mut stream = Gathered::new(0);
        let _ = stream.write(&[7; 500]);
        assert!(stream.send().is_pending());
        assert_eq!((stream.behind.bytes.len(), stream.behind.bytes.capacity()), (500, 500));
    }

    #[test]
    fn what_is_larger_than_the_buffer_and_what_comes_before_it_begins_is_passed_on() {
        let mut stream = Gathered::new(usize::MAX);
        let _ = stream.write(&[1; 10]);
        let _ = stream.write(&[2; ROOM]);
        assert_eq!(stream.calls(), [10, ROOM]);
        stream.behind = WriteBehind::default();
        let _ = stream.write(&[3; 10]);
        assert_eq!(stream.calls(), [10, ROOM, 10]);
    }

    #[test]
    fn stream_that_takes_nothing_more_is_an_error() {
        let mut stream = Gathered::new(0);
        let _ = stream.write(&[1]);
        stream.sink.is_closed = true;
        assert!(
            matches!(stream.send(), Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::WriteZero)
        );
    }
}
