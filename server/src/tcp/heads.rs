//! Heads of HTTP/2 requests that h2 refuses itself: what passes on the stream tells of them, and hyper does not.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frames::{CONTINUATION, END_HEADERS, Frame, FrameReader, GOAWAY, HEADERS, RST_STREAM};
use super::refused_head::RefusedHead;

/// Heads of which the stream is known until it is known who got them; of further ones, only the number is.
const KNOWN: usize = 1024;
/// Code of a stream that was refused before anything was done for it (RFC 9113 §7).
const REFUSED_STREAM: u32 = 0x7;

/// Heads that have arrived on a connection of HTTP/2 since the service was last asked for its own.
#[derive(Debug, Default)]
pub(super) struct Heads {
    state: RefCell<State>,
    /// Requests that the service received.
    served: Cell<u64>,
}

#[derive(Debug, Default)]
struct State {
    arrived: Vec<Arrived>,
    /// Number of those that did not fit.
    more: u64,
    /// Highest stream of a head.
    last: u32,
    /// Stream of the head whose end has not arrived.
    partial: Option<u32>,
    /// The server has closed the connection for an error.
    failed: bool,
}

#[derive(Debug)]
struct Arrived {
    stream: u32,
    /// What h2 sent in place of a response of the service.
    refused: Option<RefusedHead>,
}

impl Heads {
    /// Counts a request that the service received.
    pub(super) fn on_served(&self) {
        self.served.set(self.served.get() + 1);
    }

    fn on_received(&self, frame: Frame) {
        self.state.borrow_mut().on_received(frame);
    }

    fn on_sent(&self, frame: Frame) {
        self.state.borrow_mut().on_sent(frame);
    }

    /// Returns the refusals of heads that arrived and that the service did not receive. Call it once hyper waits for the client, and
    /// what was to be sent is sent: until then it may have a request for the service.
    pub(super) fn take_refused(&self) -> Vec<RefusedHead> {
        let state = &mut *self.state.borrow_mut();
        let served = self.served.take();
        let arrived = std::mem::take(&mut state.arrived);
        let count = arrived.len() as u64 + std::mem::take(&mut state.more);
        let unserved = usize::try_from(count.saturating_sub(served)).unwrap_or(usize::MAX);
        if unserved == 0 {
            return Vec::new();
        }
        let refused = arrived.iter().filter_map(|head| head.refused);
        // Those that nobody refused ended with the connection, or the client is to send them again on another one.
        let ended = if state.failed { unserved } else { 0 };
        let ended = std::iter::repeat_n(RefusedHead::Connection, ended);
        refused.chain(ended).take(unserved).collect()
    }
}

impl State {
    fn on_received(&mut self, frame: Frame) {
        let ends = frame.flags & END_HEADERS != 0;
        match frame.kind {
            HEADERS if frame.stream > self.last => {
                self.last = frame.stream;
                self.partial = Some(frame.stream);
            }
            CONTINUATION if self.partial == Some(frame.stream) => {}
            _ => return,
        }
        if ends {
            self.end_head();
        }
    }

    fn end_head(&mut self) {
        let Some(stream) = self.partial.take() else {
            return;
        };
        if self.arrived.len() < KNOWN {
            self.arrived.push(Arrived {
                stream,
                refused: None,
            });
        } else {
            self.more += 1;
        }
    }

    /// Takes a frame of the server. While a head is among those that arrived, the service has not responded to it.
    fn on_sent(&mut self, frame: Frame) {
        let refused = match frame.kind {
            GOAWAY => return self.on_goaway(frame),
            // h2 itself sends no other response.
            HEADERS => RefusedHead::TooLarge,
            RST_STREAM if frame.first_word() == REFUSED_STREAM => RefusedHead::TooManyStreams,
            RST_STREAM => RefusedHead::Malformed,
            _ => return,
        };
        let head = { self.arrived.iter_mut() }.find(|head| head.stream == frame.stream);
        if let Some(head) = head {
            head.refused.get_or_insert(refused);
        }
    }

    fn on_goaway(&mut self, frame: Frame) {
        if frame.second_word() != 0 {
            self.end_head();
            self.failed = true;
        }
    }
}

/// Stream of HTTP/2 whose frames [`Heads`] sees.
#[derive(Debug)]
pub(super) struct HeadStream<S> {
    stream: S,
    heads: Rc<Heads>,
    received: FrameReader,
    sent: FrameReader,
}

impl<S> HeadStream<S> {
    pub(super) fn new(stream: S, heads: &Rc<Heads>) -> HeadStream<S> {
        HeadStream {
            stream,
            heads: Rc::clone(heads),
            received: FrameReader::of_client(),
            sent: FrameReader::default(),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HeadStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        let bytes = buffer.filled().get(before..).unwrap_or_default();
        this.received
            .read(bytes, |frame| this.heads.on_received(frame));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HeadStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let taken = ready!(Pin::new(&mut this.stream).poll_write(cx, bytes))?;
        let bytes = bytes.get(..taken).unwrap_or_default();
        this.sent.read(bytes, |frame| this.heads.on_sent(frame));
        Poll::Ready(Ok(taken))
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
    use super::*;
    use crate::tcp::frames::tests::frame;

    /// A stream that both sides of a connection have written to.
    struct Passed {
        heads: Heads,
        received: FrameReader,
        sent: FrameReader,
    }

    impl Passed {
        fn new() -> Passed {
            Passed {
                heads: Heads::default(),
                received: FrameReader::default(),
                sent: FrameReader::default(),
            }
        }

        fn receive(&mut self, kind: u8, flags: u8, stream: u32) {
            let bytes = frame(kind, flags, stream, b"block");
            self.received
                .read(&bytes, |frame| self.heads.on_received(frame));
        }

        fn send(&mut self, kind: u8, stream: u32, words: &[u32]) {
            let words: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            let bytes = frame(kind, END_HEADERS, stream, &words);
            self.sent.read(&bytes, |frame| self.heads.on_sent(frame));
        }
    }

    #[test]
    fn heads_that_the_service_receives_are_not_refused() {
        let mut passed = Passed::new();
        passed.receive(HEADERS, END_HEADERS, 1);
        passed.receive(HEADERS, 0, 3);
        passed.receive(CONTINUATION, END_HEADERS, 3);
        passed.heads.on_served();
        passed.heads.on_served();
        assert_eq!(passed.heads.take_refused(), []);
        // Trailers, and responses later on.
        passed.receive(HEADERS, END_HEADERS, 1);
        passed.send(HEADERS, 1, &[]);
        passed.send(RST_STREAM, 3, &[8]);
        assert_eq!(passed.heads.take_refused(), []);
    }

    #[test]
    fn what_the_server_sends_says_why_a_head_was_refused() {
        let mut passed = Passed::new();
        for stream in [1, 3, 5, 7] {
            passed.receive(HEADERS, END_HEADERS, stream);
        }
        passed.heads.on_served();
        passed.send(RST_STREAM, 3, &[1]);
        passed.send(HEADERS, 5, &[]);
        passed.send(RST_STREAM, 5, &[1]);
        passed.send(RST_STREAM, 7, &[7]);
        let expected = [
            RefusedHead::Malformed,
            RefusedHead::TooLarge,
            RefusedHead::TooManyStreams,
        ];
        assert_eq!(passed.heads.take_refused(), expected);
        assert_eq!(passed.heads.take_refused(), []);
    }

    #[test]
    fn heads_end_with_a_connection_that_fails_and_not_with_one_that_is_left() {
        for (code, expected) in [(0, &[][..]), (9, &[RefusedHead::Connection; 2][..])] {
            let mut passed = Passed::new();
            passed.receive(HEADERS, END_HEADERS, 1);
            passed.receive(HEADERS, 0, 3);
            passed.send(GOAWAY, 0, &[0, code]);
            assert_eq!(passed.heads.take_refused(), expected, "{code}");
        }
    }

    #[test]
    fn heads_beyond_those_that_are_kept_are_counted() {
        let mut passed = Passed::new();
        let most = u32::try_from(KNOWN).unwrap() + 10;
        for number in 0..most {
            passed.receive(HEADERS, END_HEADERS, 2 * number + 1);
            passed.heads.on_served();
        }
        assert_eq!(passed.heads.take_refused(), []);
    }
}
