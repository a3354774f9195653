//! Heads of HTTP/2 requests that h2 refuses itself: what passes on the stream tells of them, and h2 does not.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frames::{
    CONTINUATION, END_HEADERS, END_STREAM, Frame, FrameReader, GOAWAY, HEADERS, RST_STREAM,
};
use super::refused_head::RefusedHead;

/// Heads of which the stream is known until it is known who got them; of further ones, only the number is.
const KNOWN: usize = 1024;
/// Codes of RST_STREAM (RFC 9113 §7): of a stream that ends without an error, that was refused before anything was done for it, or that
/// is no longer needed.
const NO_ERROR: u32 = 0x0;
const REFUSED_STREAM: u32 = 0x7;
const CANCEL: u32 = 0x8;

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
    sent: Sent,
}

/// Frames that the server has sent on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Nothing,
    /// A response without a body. One that h2 sends is 431; it resets the stream behind it only if the client has not ended its side.
    Head,
    /// A reset that only h2 sends, and what it says about the head.
    Refusal(RefusedHead),
    /// A response that only the service gives.
    Response,
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

    /// Forgets the heads that arrived if the service has received all of them. Call it once h2 waits for the client.
    pub(super) fn forget_served(&self) {
        let state = &mut *self.state.borrow_mut();
        if state.arrived.len() as u64 + state.more == self.served.get() {
            state.arrived.clear();
            state.more = 0;
            self.served.set(0);
        }
    }

    /// Returns the refusals of heads that arrived and that the service did not receive. Call it once h2 waits for the client, and
    /// what was to be sent is sent: until then it may have a request for the service.
    ///
    /// Nobody says which heads the service has received, only how many. While the client was slow to take what was sent, it may have
    /// responded to some of them, so what only h2 sends comes first.
    pub(super) fn take_refused(&self) -> Vec<RefusedHead> {
        let state = &mut *self.state.borrow_mut();
        let served = self.served.take();
        let arrived = std::mem::take(&mut state.arrived);
        let count = arrived.len() as u64 + std::mem::take(&mut state.more);
        let unserved = usize::try_from(count.saturating_sub(served)).unwrap_or(usize::MAX);
        if unserved == 0 {
            return Vec::new();
        }
        let refused = arrived.iter().filter_map(|head| match head.sent {
            Sent::Refusal(refused) => Some(refused),
            _ => None,
        });
        let bare = arrived.iter().filter(|head| head.sent == Sent::Head);
        let refused = refused.chain(bare.map(|_| RefusedHead::TooLarge));
        // Those that nobody refused ended with the connection, or the client is to send them again on another one.
        let ended = if state.failed { unserved } else { 0 };
        let ended = std::iter::repeat_n(RefusedHead::Connection, ended);
        refused.chain(ended).take(unserved).collect()
    }
}

impl Sent {
    /// Returns what was sent once this frame was, too.
    fn then(self, frame: Frame) -> Sent {
        let ends = frame.flags & END_STREAM != 0;
        match (self, frame.kind) {
            (Sent::Nothing, HEADERS) if ends => Sent::Head,
            (Sent::Nothing, HEADERS) => Sent::Response,
            (Sent::Nothing | Sent::Head, RST_STREAM) => match (self, frame.first_word()) {
                (_, NO_ERROR | CANCEL) => Sent::Response,
                (Sent::Head, _) => Sent::Refusal(RefusedHead::TooLarge),
                (_, REFUSED_STREAM) => Sent::Refusal(RefusedHead::TooManyStreams),
                _ => Sent::Refusal(RefusedHead::Malformed),
            },
            _ => self,
        }
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
            self.arrived.push(Arrived { stream, sent: Sent::Nothing });
        } else {
            self.more += 1;
        }
    }

    /// Takes a frame of the server.
    fn on_sent(&mut self, frame: Frame) {
        if frame.kind == GOAWAY {
            return self.on_goaway(frame);
        }
        let head = self.arrived.iter_mut().find(|head| head.stream == frame.stream);
        if let Some(head) = head {
            head.sent = head.sent.then(frame);
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
        this.received.read(bytes, |frame| this.heads.on_received(frame));
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
            self.received.read(&bytes, |frame| self.heads.on_received(frame));
        }

        fn send(&mut self, kind: u8, stream: u32, words: &[u32]) {
            self.send_with(kind, 0, stream, words);
        }

        fn send_with(&mut self, kind: u8, flags: u8, stream: u32, words: &[u32]) {
            let words: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            let bytes = frame(kind, flags | END_HEADERS, stream, &words);
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
        for stream in [1, 3, 5, 7, 9] {
            passed.receive(HEADERS, END_HEADERS, stream);
        }
        passed.heads.on_served();
        passed.send(RST_STREAM, 3, &[1]);
        passed.send_with(HEADERS, END_STREAM, 5, &[]);
        passed.send(RST_STREAM, 5, &[1]);
        passed.send(RST_STREAM, 7, &[7]);
        // The client has ended its side.
        passed.send_with(HEADERS, END_STREAM, 9, &[]);
        let expected = [
            RefusedHead::Malformed,
            RefusedHead::TooLarge,
            RefusedHead::TooManyStreams,
            RefusedHead::TooLarge,
        ];
        assert_eq!(passed.heads.take_refused(), expected);
        assert_eq!(passed.heads.take_refused(), []);
    }

    /// The client takes nothing for a while.
    #[test]
    fn responses_of_the_service_are_no_refusals() {
        let mut passed = Passed::new();
        for number in 0..10 {
            passed.receive(HEADERS, END_HEADERS, 2 * number + 1);
            passed.heads.on_served();
        }
        passed.receive(HEADERS, END_HEADERS, 21);
        passed.heads.forget_served();
        for number in 0..7 {
            passed.send(HEADERS, 2 * number + 1, &[]);
        }
        passed.send_with(HEADERS, END_STREAM, 15, &[]);
        // An early response, and one that breaks off.
        passed.send_with(HEADERS, END_STREAM, 17, &[]);
        passed.send(RST_STREAM, 17, &[NO_ERROR]);
        passed.send(RST_STREAM, 19, &[CANCEL]);
        passed.send(RST_STREAM, 21, &[1]);
        assert_eq!(passed.heads.take_refused(), [RefusedHead::Malformed]);
    }

    #[test]
    fn heads_that_the_service_receives_while_the_client_takes_nothing_are_forgotten() {
        let mut passed = Passed::new();
        passed.receive(HEADERS, END_HEADERS, 1);
        passed.heads.forget_served();
        passed.heads.on_served();
        passed.heads.forget_served();
        passed.receive(HEADERS, END_HEADERS, 3);
        passed.send_with(HEADERS, END_STREAM, 1, &[]);
        assert_eq!(passed.heads.state.borrow().arrived.len(), 1);
        passed.send(RST_STREAM, 3, &[1]);
        assert_eq!(passed.heads.take_refused(), [RefusedHead::Malformed]);
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
