//! Byte stream of a connection, with a count of what the client takes.

use std::cell::{Cell, OnceCell};
use std::io;
use std::os::fd::{AsRawFd as _, RawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use sluicegate_base::observe::account::AccountMark;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::lingering::Lingering;
use super::link_account::LinkAccount;
use super::read_ahead::ReadAhead;
use super::socket_info::SocketInfo;
use super::write_behind::WriteBehind;

/// Bytes that a connection has sent, below TLS.
#[derive(Debug)]
pub(super) struct Meter {
    account: LinkAccount,
    /// Socket, as long as the stream has it.
    socket: Cell<Option<RawFd>>,
    /// What the system told of it last, once the stream is gone.
    last: OnceCell<Box<SocketInfo>>,
    written: Cell<u64>,
    /// Parts of the connection whose client may still be sending: bodies of requests, mostly.
    unread: Cell<u64>,
    /// Bytes that the client had acknowledged at the last look, while the end of the connection waits for the others.
    acknowledged: Cell<Option<u64>>,
}

impl Meter {
    /// Begins to count the bytes of a connection.
    pub(super) fn new(clock: fn() -> Instant) -> Rc<Meter> {
        Rc::new(Meter {
            account: LinkAccount::begin(clock),
            socket: Cell::new(None),
            last: OnceCell::new(),
            written: Cell::new(0),
            unread: Cell::new(0),
            acknowledged: Cell::new(None),
        })
    }

    /// Returns the bytes that the system has taken so far.
    pub(super) fn written(&self) -> u64 {
        self.written.get()
    }

    /// Notes the result of a write.
    pub(super) fn on_write(&self, result: &Poll<io::Result<usize>>) {
        let is_blocked = result.is_pending();
        if self.account.is_blocked() != is_blocked {
            let window_limited = self.window_limited();
            if is_blocked {
                self.account.on_block(window_limited);
            } else {
                self.account.on_unblock(window_limited);
            }
        }
        if let Poll::Ready(Ok(count)) = result {
            self.written.set(self.written.get() + *count as u64);
            self.account.on_write();
        }
    }

    /// Lends the account.
    pub(super) fn account(&self) -> &LinkAccount {
        &self.account
    }

    /// Returns whether the connection speaks HTTP/2.
    pub(super) fn is_http2(&self) -> bool {
        self.account.is_http2()
    }

    /// Returns the socket, unless the stream is gone.
    pub(super) fn socket(&self) -> Option<RawFd> {
        self.socket.get()
    }

    /// Notes that a response begins to wait to be sent, or no longer does. Returns the same as [`Meter::moment`].
    pub(super) fn on_held(&self, is_held: bool) -> (Instant, AccountMark) {
        self.account.on_held(is_held, || self.window_limited())
    }

    /// Returns the time, and the account of what keeps the connection from sending until then.
    pub(super) fn moment(&self) -> (Instant, AccountMark) {
        self.account.moment(|| self.window_limited())
    }

    fn window_limited(&self) -> Duration {
        self.info().map_or(Duration::ZERO, |info| info.window_limited())
    }

    /// Returns what the system tells of the connection, or told when it was closed.
    pub(super) fn info(&self) -> Option<SocketInfo> {
        match self.socket.get() {
            Some(socket) => SocketInfo::read(socket),
            None => self.last.get().map(|last| **last),
        }
    }

    /// Returns the bytes that the system has taken so far, or the client where only it is left to take any.
    pub(super) fn taken(&self) -> u64 {
        self.acknowledged.get().unwrap_or_else(|| self.written())
    }

    /// Returns whether the client acknowledges too little for more to be sent, or only has to acknowledge the end.
    pub(super) fn awaits_client(&self) -> bool {
        self.is_blocked() || self.acknowledged.get().is_some()
    }

    /// Looks at how much the client has acknowledged at the end of a connection; `None` once it is everything.
    pub(super) fn look(&self) -> Option<u64> {
        self.acknowledged.set(self.acknowledged_of_more());
        self.acknowledged.get()
    }

    /// Returns how much the client has acknowledged; `None` if that is everything.
    pub(super) fn acknowledged_of_more(&self) -> Option<u64> {
        let behind = self.info().filter(|info| info.unacknowledged().is_some());
        behind.map(|info| info.acknowledged())
    }

    /// Returns whether the client acknowledges too little for more to be sent.
    pub(super) fn is_blocked(&self) -> bool {
        self.account.is_blocked()
    }

    /// Has the stream read what the client is still sending before it is closed, for a while: a system that closes a connection
    /// with unread bytes resets it, and the client may lose the response.
    pub(super) fn leave_unread(&self) {
        self.unread.set(self.unread.get() + 1);
    }

    /// Notes that the client has finished what was left unread.
    pub(super) fn on_unread_end(&self) {
        self.unread.set(self.unread.get().saturating_sub(1));
    }
}

/// Stream of TCP whose bytes a [`Meter`] counts.
#[derive(Debug)]
pub(super) struct MeteredStream {
    stream: TcpStream,
    ahead: ReadAhead,
    behind: WriteBehind,
    meter: Rc<Meter>,
    lingering: Option<Lingering>,
    is_ending: bool,
}

impl MeteredStream {
    pub(super) fn new(stream: TcpStream, meter: &Rc<Meter>) -> MeteredStream {
        meter.socket.set(Some(stream.as_raw_fd()));
        MeteredStream {
            stream,
            ahead: ReadAhead::default(),
            behind: WriteBehind::default(),
            meter: Rc::clone(meter),
            lingering: None,
            is_ending: false,
        }
    }

    /// Waits until there is something to read, or the end.
    pub(super) async fn readable(&self) {
        // A read returns the error, too. The readiness alone may be that of a socket before.
        let _ = self.stream.peek(&mut [0]).await;
    }

    /// Waits until a read would bring something, or the end.
    pub(super) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.ahead.is_empty() {
            // A read returns the error, too.
            return self.stream.poll_read_ready(cx).map(drop);
        }
        Poll::Ready(())
    }

    /// Returns whether a client that speaks TLS would not begin with the byte that waits, but one that speaks HTTP without TLS would.
    pub(super) async fn begins_with_method(&self) -> bool {
        let mut first = [0];
        let peeked = self.stream.peek(&mut first).await;
        matches!(peeked, Ok(1)) && first[0].is_ascii_uppercase()
    }

    /// Acknowledges at once what has arrived. The system would wait 40 ms for bytes to send with it, and a client that sends in small
    /// parts (RFC 9293 §3.7.4) would wait with it.
    pub(super) fn acknowledge(&self) {
        // Where the system refuses, the client waits.
        let _ = SockRef::from(&self.stream).set_tcp_quickack(true);
    }

    /// Returns whether the layer above has begun to shut the stream down.
    pub(super) fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Gathers what is written from now on until a flush.
    pub(super) fn gather(&mut self) {
        self.behind.begin();
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.behind.poll_send(&mut self.stream, cx, |result| self.meter.on_write(result))
    }
}

impl Drop for MeteredStream {
    /// The number may be another socket's from now on. Requests that end with the connection ask later.
    fn drop(&mut self) {
        if self.meter.is_blocked()
            && let Some(info) = self.meter.info()
        {
            let _ = self.meter.last.set(Box::new(info));
        }
        self.meter.socket.set(None);
    }
}

impl AsyncRead for MeteredStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        this.ahead.poll_read(&mut this.stream, cx, buffer)
    }
}

impl AsyncWrite for MeteredStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let on_write = |result: &Poll<io::Result<usize>>| this.meter.on_write(result);
        this.behind.poll_write(&mut this.stream, cx, bytes, on_write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_send(cx))?;
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.meter.on_write(&result);
        result
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        this.is_ending = true;
        if this.lingering.is_none() {
            ready!(this.poll_send(cx))?;
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
        }
        let lingering = this.lingering.get_or_insert_with(Lingering::begin);
        let may_send = this.meter.unread.get() > 0;
        lingering.poll(cx, &mut this.stream, || this.meter.look(), may_send)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;
    use sluicegate_base::clock;

    #[tokio::test]
    async fn bytes_of_a_client_are_acknowledged_at_once_where_that_is_asked_for() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = MeteredStream::new(stream, &Meter::new(clock::now));
        let acknowledges_at_once = |stream: &MeteredStream| {
            let socket = SockRef::from(&stream.stream);
            socket.tcp_quickack().unwrap()
        };
        // A socket that responds is one that waits for its next response.
        for _ in 0..4 {
            client.write_all(b"hello").await.unwrap();
            stream.read_exact(&mut [0; 5]).await.unwrap();
            stream.write_all(b"hello").await.unwrap();
            client.read_exact(&mut [0; 5]).await.unwrap();
        }
        assert!(!acknowledges_at_once(&stream));
        stream.acknowledge();
        assert!(acknowledges_at_once(&stream));
    }

    /// Bytes that a client reads before it says so, as one of HTTP/2 does.
    const STEP: usize = 4 * 1024;
    /// Bytes that the client's system takes before they are read.
    const ROOM: u32 = 4 * 1024;
    /// Bytes of a response, which the system takes at once.
    const RESPONSE: usize = 128 * 1024;

    /// Returns the ends of a connection. The server's system takes a whole response, and the client's only a part.
    async fn ends() -> (TcpStream, MeteredStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpSocket::new_v4().unwrap();
        client.set_recv_buffer_size(ROOM).unwrap();
        let client = client.connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        SockRef::from(&stream).set_send_buffer_size(2 * RESPONSE).unwrap();
        (client, MeteredStream::new(stream, &Meter::new(clock::now)))
    }

    /// Ends a connection, and closes its stream.
    async fn end(mut stream: MeteredStream) {
        stream.shutdown().await.unwrap();
    }

    #[tokio::test]
    async fn client_that_sends_while_it_reads_gets_all_of_the_last_response() {
        let (mut client, mut stream) = ends().await;
        stream.write_all(&[7; RESPONSE]).await.unwrap();
        let reading = async {
            let (mut received, mut block) = (0, [0; STEP]);
            loop {
                match client.read(&mut block).await.unwrap() {
                    0 => return received,
                    count => received += count,
                }
                client.write_all(b"more").await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let ((), received) = tokio::join!(end(stream), reading);
        assert_eq!(received, RESPONSE);
    }

    #[tokio::test]
    async fn connection_ends_once_its_client_has_acknowledged_everything() {
        let (mut client, mut stream) = ends().await;
        stream.write_all(b"hello").await.unwrap();
        client.write_all(b"unread").await.unwrap();
        // The client keeps its side open.
        end(stream).await;
        let mut received = Vec::new();
        client.read_to_end(&mut received).await.unwrap();
        assert_eq!(received, b"hello");
    }
}
