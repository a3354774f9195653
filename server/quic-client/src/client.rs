//! A connection: handshake, early data, requests and responses, timers.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use boring::error::ErrorStack;
use quiche::h3::{self, EncodedHeaders, Header, HeaderRef};
use quiche::{Config, ConnectionId, Ecn, RecvInfo, Shutdown};

use crate::closed::{Cause, Closed, NO_ERROR};
use crate::session::SavedSession;

/// H3_INTERNAL_ERROR (RFC 9114 §8.1).
const INTERNAL_ERROR: u64 = 0x102;
/// H3_REQUEST_CANCELLED.
const REQUEST_CANCELLED: u64 = 0x10c;
/// BoringSSL's word for early data that the server has accepted, `ssl_early_data_accepted`.
const EARLY_DATA_ACCEPTED: u32 = 2;

/// Identity that the server's certificate must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerName<'a> {
    /// A name, which the client sends (SNI).
    Dns(&'a str),
    /// An address. TLS does not send it (RFC 6066 §3).
    Ip(IpAddr),
}

/// Step of a connection after which requests can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// HTTP/3 has begun in early data, before the handshake is complete.
    EarlyData,
    /// The handshake is complete.
    Established {
        /// Whether the server has accepted early data, if HTTP/3 has begun in it. quiche sends again what the server rejects.
        early_data: Option<bool>,
    },
}

/// Event on the stream of a request.
#[derive(Debug)]
pub enum Event {
    /// A field section has arrived: interim responses precede the final one, trailers follow the body. Empty if sections are kept.
    Head(Vec<Header>),
    /// There is a part of the body to read.
    Body,
    /// The response has ended.
    End {
        /// It ended where a message may end.
        is_whole: bool,
    },
    /// The server has reset the response with this code.
    Reset(u64),
    /// The server processes no request on this stream or a later one (GOAWAY).
    GoAway,
}

/// Part of a request's body that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodySent {
    /// So many bytes.
    Bytes(usize),
    /// There is no room now.
    Blocked,
    /// No more can be sent: the server has its response already (RFC 9114 §4.1), or the connection ends, and the events say why.
    Stopped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Handshake,
    /// HTTP/3 has begun in early data.
    EarlyData,
    /// The handshake is complete, and HTTP/3 has begun or could not.
    Established,
}

/// PINGs that keep a silent connection open (RFC 9114 §5.1).
struct KeepAlive {
    /// The client's own idle timeout.
    idle: Duration,
    /// Silence after which a PING leaves.
    after: Duration,
    /// Time of the next PING, once the handshake is complete.
    at: Option<Instant>,
}

impl KeepAlive {
    fn begin(&mut self, quic: &quiche::Connection, now: Instant) {
        self.after = ping_after(quic, self.idle);
        self.at = Some(now + self.after);
    }
}

/// Returns half of the shorter idle timeout, of which that of this side is `idle`, so that there is time to repeat a PING (RFC 9000
/// §10.1.2).
fn ping_after(quic: &quiche::Connection, idle: Duration) -> Duration {
    let params = quic.peer_transport_params();
    // 0 is none.
    let of_peer = params.map_or(0, |params| params.max_idle_timeout);
    let of_peer = Some(Duration::from_millis(of_peer)).filter(|idle| !idle.is_zero());
    let shorter = of_peer.map_or(idle, |of_peer| idle.min(of_peer));
    (shorter / 2).max(Duration::from_millis(1))
}

/// A connection to a server of HTTP/3.
pub struct Http3Client {
    quic: quiche::Connection,
    /// Beside `quic`, once it has begun.
    http: Option<h3::Connection>,
    local: SocketAddr,
    peer: SocketAddr,
    stage: Stage,
    /// HTTP/3 begins as soon as early data can be sent.
    wants_early_data: bool,
    keep_alive: Option<KeepAlive>,
    /// Largest header section of the server, bytes; `None` for quiche's own limit.
    section: Option<u64>,
}

impl Http3Client {
    /// Starts a connection from `local` to `peer`. `id` is its source connection ID: [`random_id`], or a fixed one in a simulation.
    ///
    /// # Errors
    /// The name is none that TLS can send.
    pub fn new(
        config: &mut Config,
        name: ServerName<'_>,
        id: &[u8],
        local: SocketAddr,
        peer: SocketAddr,
    ) -> quiche::Result<Http3Client> {
        let (sni, ip) = match name {
            ServerName::Dns(name) => (Some(name), None),
            ServerName::Ip(ip) => (None, Some(ip)),
        };
        let mut quic = quiche::connect(sni, &ConnectionId::from_ref(id), local, peer, config)?;
        if let Some(ip) = ip {
            // It is looked for elsewhere in the certificate.
            let ssl = quic.ssl_mut().ok_or(quiche::Error::TlsFail)?;
            ssl.param_mut().set_ip(ip).map_err(|_| quiche::Error::TlsFail)?;
        }
        Ok(Http3Client {
            quic,
            http: None,
            local,
            peer,
            stage: Stage::Handshake,
            wants_early_data: false,
            keep_alive: None,
            section: None,
        })
    }

    /// Limits header sections of the server; call it before the first packet. A larger one closes the connection with H3_EXCESSIVE_LOAD.
    pub fn limit_sections(&mut self, bytes: u64) {
        self.section = Some(bytes);
    }

    /// Resumes a session; call it before the first packet. HTTP/3 begins in early data if `early_data`, where the session allows it.
    ///
    /// # Errors
    /// The session cannot be decoded.
    pub fn resume(&mut self, session: &SavedSession, early_data: bool) -> quiche::Result<()> {
        self.wants_early_data = early_data && session.has_params();
        self.quic.set_session(&session.to_quic())
    }

    /// Returns the newest session that the server has sent, once there is one.
    pub fn session(&self) -> Option<SavedSession> {
        SavedSession::of_quic(self.quic.session()?)
    }

    /// Sends PINGs while the connection is silent. Its own idle timeout is `idle`.
    pub fn keep_alive(&mut self, idle: Duration) {
        self.keep_alive = Some(KeepAlive { idle, after: Duration::ZERO, at: None });
    }

    /// Takes the fact that something has arrived: the idle timeouts begin again, so PINGs are put off.
    pub fn put_off_ping(&mut self, now: Instant) {
        if let Some(keep_alive) = self.keep_alive.as_mut().filter(|known| known.at.is_some()) {
            keep_alive.at = Some(now + keep_alive.after);
        }
    }

    /// Takes a datagram of the server, which is overwritten.
    pub fn receive(&mut self, datagram: &mut [u8], ecn: Ecn) {
        let info = RecvInfo { from: self.peer, to: self.local };
        // An error that matters closes the connection and is found there.
        let _ = self.quic.recv_with_ecn(datagram, info, ecn);
    }

    /// Writes the next datagram to `room` and returns its length; `None` if there is nothing to send. Check [`Self::release`] first.
    pub fn next_datagram(&mut self, room: &mut [u8]) -> Option<usize> {
        self.next_packet(room).map(|(len, _)| len)
    }

    /// Does the same, and returns the ECN mark for the datagram, too.
    pub(crate) fn next_packet(&mut self, room: &mut [u8]) -> Option<(usize, Ecn)> {
        // The connection knows why there is none.
        self.quic.send(room).ok().map(|(len, info)| (len, info.ecn))
    }

    /// Returns the time before which pacing allows no packet, if that is after `now`.
    pub fn release(&self, now: Instant) -> Option<Instant> {
        let decision = self.quic.get_next_release_time();
        let release = decision.and_then(|decision| decision.time(now));
        // The close of a connection waits for nothing.
        release.filter(|_| self.quic.local_error().is_none())
    }

    /// Returns the time at which [`Self::on_timer`] has to be called.
    pub fn deadline(&self) -> Option<Instant> {
        let ping = self.keep_alive.as_ref().and_then(|keep_alive| keep_alive.at);
        self.quic.timeout_instant().into_iter().chain(ping).min()
    }

    /// Runs what is due. Returns whether anything was.
    pub fn on_timer(&mut self, now: Instant) -> bool {
        let expired = self.quic.timeout_instant().is_some_and(|at| at <= now);
        if expired {
            self.quic.on_timeout();
        }
        let keep_alive = self.keep_alive.as_mut();
        let due = keep_alive.filter(|known| known.at.is_some_and(|at| at <= now));
        if let Some(keep_alive) = due {
            let _ = self.quic.send_ack_eliciting();
            keep_alive.at = Some(now + keep_alive.after);
            return true;
        }
        expired
    }

    /// Begins HTTP/3 as soon as that is possible. Call it after datagrams have arrived, and while [`Self::can_begin_early`].
    pub fn advance(&mut self, now: Instant) -> Option<Step> {
        if self.can_begin_early() {
            self.stage = Stage::EarlyData;
            self.begin_http();
            return Some(Step::EarlyData);
        }
        if self.stage == Stage::Established || !self.quic.is_established() {
            return None;
        }
        let is_early = self.stage == Stage::EarlyData;
        self.stage = Stage::Established;
        if let Some(keep_alive) = &mut self.keep_alive {
            keep_alive.begin(&self.quic, now);
        }
        if !is_early {
            self.begin_http();
        }
        let is_accepted = self.quic.early_data_reason() == EARLY_DATA_ACCEPTED;
        Some(Step::Established { early_data: is_early.then_some(is_accepted) })
    }

    /// Returns whether the first packet has left, and HTTP/3 can begin in early data.
    pub fn can_begin_early(&self) -> bool {
        self.wants_early_data && self.stage == Stage::Handshake && self.quic.is_in_early_data()
    }

    fn begin_http(&mut self) {
        let limit = self.section;
        let http = h3::Config::new().map(|mut config| {
            limit.into_iter().for_each(|limit| config.set_max_field_section_size(limit));
            config
        });
        match http.and_then(|config| h3::Connection::with_transport(&mut self.quic, &config)) {
            Ok(http) => self.http = Some(http),
            // It has closed the connection; if not, nothing else would.
            Err(_) => drop(self.quic.close(true, INTERNAL_ERROR, b"")),
        }
    }

    /// Returns whether [`Self::advance`] has returned [`Step::Established`].
    pub fn is_established(&self) -> bool {
        self.stage == Stage::Established
    }

    /// Returns the next event with its stream, if there is one.
    ///
    /// # Errors
    /// The server broke HTTP/3. The connection is closed with the error's code.
    pub fn poll(&mut self) -> h3::Result<Option<(u64, Event)>> {
        let Some(http) = self.http.as_mut() else {
            return Ok(None);
        };
        loop {
            let (stream, event) = match http.poll(&mut self.quic) {
                Ok(found) => found,
                Err(h3::Error::Done) => return Ok(None),
                Err(error) => {
                    // quiche has closed the connection with the error's code; if not, nothing else would.
                    let _ = self.quic.close(true, INTERNAL_ERROR, b"");
                    return Err(error);
                }
            };
            let event = match event {
                h3::Event::Headers { list, .. } => Event::Head(list),
                h3::Event::Data => Event::Body,
                h3::Event::Finished => Event::End { is_whole: !http.finished_within_frame() },
                h3::Event::Reset(code) => Event::Reset(code),
                h3::Event::GoAway => Event::GoAway,
                // For servers.
                h3::Event::PriorityUpdate => continue,
            };
            return Ok(Some((stream, event)));
        }
    }

    /// Reads from a response's body. Returns 0 if there is nothing to read now.
    ///
    /// # Errors
    /// The stream or the connection has ended, and an event says so.
    pub fn read_body(&mut self, stream: u64, body: &mut [u8]) -> h3::Result<usize> {
        let Some(http) = self.http.as_mut() else {
            return Ok(0);
        };
        match http.recv_body(&mut self.quic, stream, body) {
            Err(h3::Error::Done) => Ok(0),
            read => read,
        }
    }

    /// Returns whether the server allows another request.
    pub fn has_room(&self) -> bool {
        self.http.is_some() && self.quic.peer_streams_left_bidi() > 0
    }

    /// Sends the head of a request, and its end if `is_whole`. Returns its stream, whose number is above that of every one before.
    ///
    /// # Errors
    /// There is no room, the server takes no further requests, or the connection is closed.
    pub fn request<V: AsRef<[u8]>>(
        &mut self,
        head: &[(&str, V)],
        is_whole: bool,
    ) -> h3::Result<u64> {
        let http = self.http.as_mut().ok_or(h3::Error::StreamBlocked)?;
        let fields = head.iter();
        let fields: Vec<_> =
            fields.map(|(name, value)| HeaderRef::new(name.as_bytes(), value.as_ref())).collect();
        http.send_request(&mut self.quic, &fields, is_whole)
    }

    /// Sends a head whose fields are encoded here, as [`Self::request`] does. `None` if there is no room.
    ///
    /// # Errors
    /// The server takes no further requests, or the connection is closed.
    pub fn request_fields(&mut self, head: &[Header], is_whole: bool) -> h3::Result<Option<u64>> {
        let Some(http) = self.http.as_mut() else {
            return Ok(None);
        };
        match http.send_request(&mut self.quic, head, is_whole) {
            Ok(stream) => Ok(Some(stream)),
            Err(
                h3::Error::StreamBlocked | h3::Error::TransportError(quiche::Error::StreamLimit),
            ) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a head that was encoded before, as [`Self::request`] does.
    ///
    /// # Errors
    /// As of [`Self::request`].
    pub fn request_encoded(&mut self, head: &EncodedHeaders, is_whole: bool) -> h3::Result<u64> {
        let http = self.http.as_mut().ok_or(h3::Error::StreamBlocked)?;
        http.send_encoded_request(&mut self.quic, head, is_whole)
    }

    /// Sends as much of a request's body as the server takes now, and its end after the last byte.
    pub fn send_body(&mut self, stream: u64, body: &[u8], is_last: bool) -> BodySent {
        let Some(http) = self.http.as_mut() else {
            return BodySent::Blocked;
        };
        match http.send_body(&mut self.quic, stream, body, is_last) {
            Ok(sent) => BodySent::Bytes(sent),
            Err(h3::Error::Done) => BodySent::Blocked,
            Err(_) => BodySent::Stopped,
        }
    }

    /// Sends the trailers of a request, and with them its end.
    pub fn send_trailers(&mut self, stream: u64, trailers: &[Header]) -> BodySent {
        let Some(http) = self.http.as_mut() else {
            return BodySent::Blocked;
        };
        match http.send_additional_headers(&mut self.quic, stream, trailers, true, true) {
            Ok(()) => BodySent::Bytes(0),
            Err(h3::Error::Done | h3::Error::StreamBlocked) => BodySent::Blocked,
            Err(_) => BodySent::Stopped,
        }
    }

    /// Asks the server to send no more of a response.
    pub fn cancel_response(&mut self, stream: u64) {
        // The stream may have ended.
        let _ = self.quic.stream_shutdown(stream, Shutdown::Read, REQUEST_CANCELLED);
    }

    /// Ends a stream in both directions with an error of HTTP/3.
    pub fn abort(&mut self, stream: u64, code: u64) {
        for direction in [Shutdown::Read, Shutdown::Write] {
            // The stream may have ended.
            let _ = self.quic.stream_shutdown(stream, direction, code);
        }
    }

    /// Sends a PING, or something else that the server acknowledges.
    pub fn ping(&mut self) {
        // Without a path, there is no connection left to keep.
        let _ = self.quic.send_ack_eliciting();
    }

    /// Returns the silence after which a PING keeps the connection open, with an idle timeout of `idle` on this side.
    pub fn ping_after(&self, idle: Duration) -> Duration {
        ping_after(&self.quic, idle)
    }

    /// Sends no more of a request's body.
    pub fn cancel_body(&mut self, stream: u64) {
        // The stream may have ended.
        let _ = self.quic.stream_shutdown(stream, Shutdown::Write, REQUEST_CANCELLED);
    }

    /// Closes the connection without an error. The next datagram says so.
    pub fn close(&mut self) {
        // It may be closed already.
        let _ = self.quic.close(true, NO_ERROR, b"");
    }

    /// Returns why the connection is closed, if one of the two sides has closed it.
    pub fn closed(&mut self) -> Option<Closed> {
        let quic = &mut self.quic;
        let is_over = quic.is_closed() || quic.is_draining() || quic.local_error().is_some();
        is_over.then(|| Closed { peer: self.peer, cause: Cause::of(quic) })
    }

    /// Returns the client's address.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Returns the server's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Returns the connection below HTTP/3.
    pub fn quic(&self) -> &quiche::Connection {
        &self.quic
    }

    /// Returns the connection below HTTP/3.
    pub fn quic_mut(&mut self) -> &mut quiche::Connection {
        &mut self.quic
    }

    /// Returns HTTP/3 with the connection below it, once it has begun.
    pub fn http_mut(&mut self) -> Option<(&mut h3::Connection, &mut quiche::Connection)> {
        Some((self.http.as_mut()?, &mut self.quic))
    }
}

/// Returns a connection ID that nobody can guess.
///
/// # Errors
/// There are no random bytes.
pub fn random_id() -> Result<[u8; 8], ErrorStack> {
    let mut id = [0; 8];
    boring::rand::rand_bytes(&mut id)?;
    Ok(id)
}
