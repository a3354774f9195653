//! A client with correct QUIC and hand-made HTTP/3: it sends any frame, field section and end of stream that a test writes.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use quiche::h3::NameValue as _;
use quiche::{ConnectionId, RecvInfo, Shutdown};
pub(crate) use sluicegate_raw_client::http3::{
    CONTROL, DATA, HEADERS, SETTINGS, control, frame, headers, section,
};
pub(crate) use sluicegate_raw_client::varint;

/// The client's unidirectional streams after its control stream.
pub(crate) const ENCODER: u64 = 6;
pub(crate) const DECODER: u64 = 10;

/// Silence after which lost packets are looked for, and how much of it in a row is a failure.
const SILENCE: Duration = Duration::from_millis(500);
const SILENCES: usize = 120;

/// One act of the client.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Send(u64, Vec<u8>),
    /// Sends the bytes and STOP_SENDING in one packet: the server sees both before it responds.
    SendStopped(u64, Vec<u8>),
    /// Sends the bytes, then FIN.
    End(u64, Vec<u8>),
    Reset(u64),
    Stop(u64),
}

/// Result of a request or of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A whole response.
    Status(u16),
    /// The server reset the stream.
    Reset(u64),
    /// The server closed the connection by HTTP/3.
    Closed(u64),
}

/// Bytes that the server sent on one stream, and how it ended.
#[derive(Debug, Default)]
struct Received {
    bytes: Vec<u8>,
    finished: bool,
    reset: Option<u64>,
}

/// A connection; there is nothing on it that a test has not put there.
pub(crate) struct Raw {
    socket: UdpSocket,
    conn: quiche::Connection,
    received: BTreeMap<u64, Received>,
    /// The next request stream.
    next: u64,
}

impl Raw {
    /// Opens a connection without HTTP/3 streams.
    pub(crate) fn connect(server: SocketAddr) -> Raw {
        let mut raw = Raw::begin(server, None);
        raw.until("a handshake", |raw| raw.conn.is_established().then_some(()));
        raw
    }

    /// Resumes a session, with a request's frames on stream 0 as early data.
    pub(crate) fn resume(server: SocketAddr, session: &[u8], frames: &[u8]) -> Raw {
        let mut raw = Raw::begin(server, Some(session));
        // After its first packet the client may send early data.
        raw.flush();
        let stream = raw.open();
        raw.act(&Act::End(stream, frames.to_vec()));
        raw.until("a handshake", |raw| raw.conn.is_established().then_some(()));
        raw
    }

    /// Waits for a session that a later connection can resume.
    pub(crate) fn session(&mut self) -> Vec<u8> {
        self.until("a session", |raw| raw.conn.session().map(<[u8]>::to_vec))
    }

    /// Returns whether the server resumed the session.
    pub(crate) fn is_resumed(&self) -> bool {
        self.conn.is_resumed()
    }

    /// Closes the connection with this reason.
    pub(crate) fn close(mut self, reason: &[u8]) {
        let _ = self.conn.close(true, 0x100, reason);
        self.flush();
    }

    /// Begins a connection, which resumes a session if there is one.
    fn begin(server: SocketAddr, session: Option<&[u8]>) -> Raw {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
        config.set_application_protos(quiche::h3::APPLICATION_PROTOCOL).unwrap();
        config.set_initial_max_data(16 << 20);
        config.set_initial_max_stream_data_bidi_local(1 << 20);
        config.set_initial_max_stream_data_uni(1 << 20);
        config.set_initial_max_streams_uni(16);
        config.verify_peer(false);
        config.enable_early_data();
        let local = socket.local_addr().unwrap();
        let scid = ConnectionId::from_ref(&[7; 16]);
        let conn = quiche::connect(Some("localhost"), &scid, local, server, &mut config);
        let mut conn = conn.unwrap();
        if let Some(session) = session {
            conn.set_session(session).unwrap();
        }
        Raw { socket, conn, received: BTreeMap::new(), next: 0 }
    }

    /// Opens a connection with a control stream.
    pub(crate) fn ready(server: SocketAddr) -> Raw {
        let mut raw = Raw::connect(server);
        raw.act(&Act::Send(CONTROL, control(&[])));
        raw
    }

    /// Opens the next request stream.
    pub(crate) fn open(&mut self) -> u64 {
        let stream = self.next;
        self.next += 4;
        stream
    }

    /// Does it, as far as the server lets it.
    pub(crate) fn act(&mut self, act: &Act) {
        match act {
            Act::Send(stream, bytes) => self.send(*stream, bytes, false),
            Act::End(stream, bytes) => self.send(*stream, bytes, true),
            Act::SendStopped(stream, bytes) => {
                // Nothing is flushed in between, so that both leave in one packet.
                let _ = self.conn.stream_send(*stream, bytes, false);
                let _ = self.conn.stream_shutdown(*stream, Shutdown::Read, 0x10c);
            }
            Act::Reset(stream) => {
                let _ = self.conn.stream_shutdown(*stream, Shutdown::Write, 0x10c);
            }
            Act::Stop(stream) => {
                let _ = self.conn.stream_shutdown(*stream, Shutdown::Read, 0x10c);
            }
        }
        self.flush();
    }

    fn send(&mut self, stream: u64, bytes: &[u8], fin: bool) {
        let mut sent = 0;
        self.until("room to send", |raw| {
            match raw.conn.stream_send(stream, &bytes[sent..], fin) {
                Ok(count) => sent += count,
                // No room, which comes with acknowledgements.
                Err(quiche::Error::Done | quiche::Error::StreamLimit) => {}
                // Stopped, or closed: the outcome tells.
                Err(_) => return Some(()),
            }
            let over = sent == bytes.len() || raw.conn.peer_error().is_some();
            over.then_some(())
        });
    }

    /// Sends a request's frames on a stream of its own, and waits for what becomes of it.
    pub(crate) fn exchange(&mut self, frames: &[u8]) -> Outcome {
        let stream = self.open();
        self.act(&Act::End(stream, frames.to_vec()));
        self.outcome(stream)
    }

    /// Waits until a stream is over, or the connection.
    pub(crate) fn outcome(&mut self, stream: u64) -> Outcome {
        self.until("an outcome", |raw| {
            if let Some(closed) = raw.close_code() {
                return Some(Outcome::Closed(closed));
            }
            let received = raw.received.get(&stream)?;
            if let Some(code) = received.reset {
                return Some(Outcome::Reset(code));
            }
            received.finished.then(|| Outcome::Status(status(&received.bytes)))
        })
    }

    /// Waits until the server closes the connection; the code.
    pub(crate) fn closed(&mut self) -> u64 {
        self.until("the connection's end", Raw::close_code)
    }

    /// Waits until the server has all that was sent, or has closed the connection; whether it is still open.
    pub(crate) fn settle(&mut self) -> bool {
        self.until("acknowledgements", |raw| {
            let over = raw.conn.peer_error().is_some();
            (over || !raw.conn.has_unacked()).then_some(!over)
        })
    }

    fn close_code(&mut self) -> Option<u64> {
        let error = self.conn.peer_error()?;
        assert!(error.is_app, "not closed by HTTP/3: {error:?}");
        Some(error.error_code)
    }

    /// Sends and receives until `seen` sees something.
    fn until<T>(&mut self, what: &str, mut seen: impl FnMut(&mut Raw) -> Option<T>) -> T {
        let mut silences = 0;
        let mut buffer = vec![0; 65_536];
        loop {
            self.read();
            if let Some(found) = seen(self) {
                self.flush();
                return found;
            }
            self.flush();
            let wait = self.conn.timeout().unwrap_or(SILENCE).min(SILENCE);
            let wait = wait.max(Duration::from_millis(1));
            self.socket.set_read_timeout(Some(wait)).unwrap();
            match self.socket.recv_from(&mut buffer) {
                Ok((count, from)) => {
                    silences = 0;
                    let to = self.socket.local_addr().unwrap();
                    let _ = self.conn.recv(&mut buffer[..count], RecvInfo { from, to });
                }
                Err(_) => {
                    silences += usize::from(wait == SILENCE);
                    assert!(silences < SILENCES, "waited for {what} in vain");
                    self.conn.on_timeout();
                }
            }
            let local = self.conn.local_error();
            assert!(local.is_none() && !self.conn.is_timed_out(), "{what}: {local:?}");
        }
    }

    fn flush(&mut self) {
        let mut buffer = [0; 1500];
        while let Ok((count, info)) = self.conn.send(&mut buffer) {
            self.socket.send_to(&buffer[..count], info.to).unwrap();
        }
    }

    fn read(&mut self) {
        let mut buffer = [0; 4096];
        for stream in self.conn.readable() {
            let received = self.received.entry(stream).or_default();
            loop {
                match self.conn.stream_recv(stream, &mut buffer) {
                    Ok((count, fin)) => {
                        received.bytes.extend_from_slice(&buffer[..count]);
                        received.finished |= fin;
                    }
                    Err(quiche::Error::StreamReset(code)) => {
                        received.reset = Some(code);
                        break;
                    }
                    Err(_) => break,
                }
            }
        }
    }
}

/// A server that stops waits for connections that it believes to be in use.
impl Drop for Raw {
    fn drop(&mut self) {
        // The server may have closed it.
        let _ = self.conn.close(true, 0x100, b"");
        self.flush();
    }
}

/// Returns the final status of a response.
fn status(mut bytes: &[u8]) -> u16 {
    let mut last = None;
    while !bytes.is_empty() {
        let kind = take_varint(&mut bytes);
        let size = usize::try_from(take_varint(&mut bytes)).unwrap();
        let (payload, rest) = bytes.split_at(size);
        bytes = rest;
        if kind != HEADERS {
            continue;
        }
        let fields = quiche::h3::qpack::Decoder::new().decode(payload, u64::MAX).unwrap();
        let status = fields.iter().find(|line| line.name() == b":status");
        // Trailers have none.
        last = status.map(|line| String::from_utf8(line.value().to_vec()).unwrap()).or(last);
    }
    last.expect("a response has a head").parse().unwrap()
}

fn take_varint(bytes: &mut &[u8]) -> u64 {
    let size = 1 << (bytes[0] >> 6);
    let (head, rest) = bytes.split_at(size);
    *bytes = rest;
    let first = u64::from(head[0] & 0x3f);
    head[1..].iter().fold(first, |sum, byte| sum << 8 | u64::from(*byte))
}
