//! Requests of one connection, from their events to the last byte of their responses.

mod body;
mod ending;
mod lingering;
mod order;
mod output;
mod record;
mod refusal;
mod relay;
mod requests;
mod stalled;
mod upload;
mod waits;

use sluicegate_http::overhead;
use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use quiche::h3::{Error, WireErrorCode};
use sluicegate_base::address::ClientPath;
use sluicegate_base::keys::ConnectionKey;
use sluicegate_base::observe::access::TlsSession;
use sluicegate_base::observe::account::Account;
use sluicegate_base::observe::connections::RequestSnapshot;
use sluicegate_http::exchange::front::FrontExchange;
use sluicegate_http::exchange::message::ToFront;
use sluicegate_http::exchange::stall::StallTimer;
use sluicegate_http::exchange::{Fields, Reply};
use sluicegate_http::gate::{RequestRecord, RequestRefusal, RoutedRequest};
use sluicegate_http::id_map::IdMap;
use sluicegate_http::identification::ReturnedId;
use sluicegate_http::peer::{ClientCertificate, PeerConnection};
use sluicegate_http::trusted_proxies::TrustedProxies;
use sluicegate_quic::application::{Application, Introduction, Output, ReadTotals};

use self::output::UnackedLook;
use self::stalled::StallChecks;
use super::queue::Queue;
use super::response::{BLOCK, Response};
use super::schedule::Schedule;
use super::session_context::SessionContext;

thread_local! {
    /// Holds the next block of a body while it is handed to a stream; nothing in it outlives a call.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; BLOCK].into_boxed_slice());
}

/// Largest ID of a client's bidirectional stream: as long as GOAWAY names it, every request is served.
const LAST_STREAM: u64 = (1 << 62) - 4;

/// Bytes of streams that a client may send without heads and bodies.
pub(in crate::h3) const FREE_OVERHEAD: u64 = 8 << 20;

/// The HTTP/3 side of one connection.
///
/// It holds state for open requests only, at most as many as the transport allows streams. A response that needs no handler
/// waits until the whole request has arrived, and the body is discarded. A handler on the origin thread gets the request at
/// once, and its body as it arrives.
pub struct Http3Session {
    h3: quiche::h3::Connection,
    /// Names the connection to the origin thread.
    key: ConnectionKey,
    /// Number of unsent bytes at which responses go on, if one stopped because `limits.connection_send_buffer` bytes wait to be sent.
    resume_below: Option<usize>,
    unacked: UnackedLook,
    open: IdMap<Exchange>,
    /// Streams with something to write.
    pending: Queue,
    /// Stream whose response shares because it had waited too long.
    overdue: Option<u64>,
    /// Streams cancelled in this turn whose end quiche still reports.
    cancelled: Vec<u64>,
    /// Streams whose requests may wait for something else at the end of this turn.
    changed: Vec<u64>,
    /// Streams whose body goes on to their handlers in the next turn with room in the origin's ring.
    to_pass_on: Vec<u64>,
    /// Number of handlers that have not finished, those of cancelled requests included.
    running: u64,
    /// Number of open tunnels.
    tunnels: u64,
    /// Stream behind the highest request stream seen, as GOAWAY names it.
    next_stream: u64,
    /// Requests from this stream on are refused.
    refused_from: Option<u64>,
    /// The client is to send further requests on another connection; those that come are served.
    leaving: bool,
    /// Stream that the last GOAWAY named.
    goaway: Option<u64>,
    /// The client's connection, as handlers and logs see it.
    connection: Arc<PeerConnection>,
    /// Path on which the client's address was validated last.
    path: ClientPath,
    /// Heads received, including refused ones.
    requests: u64,
    /// Requests accepted.
    taken: u64,
    /// Requests that were malformed, or reset by the client.
    wasted: u64,
    /// Resets of streams that were not open; most respond to the server's STOP_SENDING.
    late_resets: u64,
    /// Heads and trailers received so far.
    sections: u64,
    /// Bytes of heads and trailers received so far, uncompressed.
    section_bytes: u64,
    /// Bytes of bodies received so far.
    body_bytes: u64,
    /// Streams for which STOP_SENDING was sent before they had ended.
    stopped: u64,
    /// Responses that the client has stopped, by quiche's count.
    stops: u64,
    stall_checks: StallChecks,
}

/// Open request.
#[derive(Debug)]
struct Exchange {
    /// CONNECT: bytes behind the head are no body.
    is_connect: bool,
    schedule: Schedule,
    front: FrontExchange,
    /// Response, while it is being written or waits for its handler.
    response: Option<Response>,
    /// Reply that waits for the end of the request.
    reply: Option<Box<Reply>>,
    /// What is left of a body that the response does not need.
    lingering: Option<Lingering>,
    /// Request at its handler on the origin thread, until the handler has ended or is cancelled.
    routed: Option<RoutedRequest>,
    /// The handler has opened a tunnel, which counts.
    has_tunnel: bool,
    /// Number of the exchange in the origin's ring, which holds its memory until the request is forgotten.
    number: Option<u64>,
    /// The stream has more of the body than the handler's credit or the ring allowed.
    readable: bool,
    /// Trailers of the request, for the handler.
    trailers: Option<Fields>,
    /// Time that the request has waited for its client.
    stall: StallTimer,
    /// It is in the session's list of those whose wait may change.
    has_changed: bool,
    /// Record for the access log, until its line is written.
    record: Option<Box<RequestRecord>>,
    /// Line of the response with the request's ID.
    returned_id: Option<Box<ReturnedId>>,
}

/// Bounds of what the client may still send of a body.
#[derive(Clone, Copy, Debug)]
struct Lingering {
    /// Bytes that may still come.
    left: u64,
    until: Instant,
}

impl Application for Http3Session {
    type Shared = SessionContext;
    type Listener = Arc<TrustedProxies>;
    type Peer = PeerConnection;

    const PROTOCOLS: &[&[u8]] = quiche::h3::APPLICATION_PROTOCOL;
    /// Control, two for QPACK, and room for reserved types (RFC 9114 §6.2).
    const UNI_STREAMS: u64 = 8;
    const NO_ERROR: u64 = WireErrorCode::NoError as u64;
    const EXCESSIVE_LOAD: u64 = WireErrorCode::ExcessiveLoad as u64;

    fn is_proxy(trusted_proxies: &Arc<TrustedProxies>, address: IpAddr) -> bool {
        trusted_proxies.contains(address)
    }

    fn describe(trusted_proxies: &Arc<TrustedProxies>, accepted: Introduction) -> PeerConnection {
        let Introduction { listener, original_dcid, algorithm } = accepted;
        PeerConnection {
            trusted_proxies: Arc::clone(trusted_proxies),
            ..PeerConnection::http3(listener, original_dcid, algorithm)
        }
    }

    fn begin(
        conn: &mut quiche::Connection,
        key: ConnectionKey,
        peer: PeerConnection,
        path: ClientPath,
        context: &mut SessionContext,
    ) -> Option<Http3Session> {
        match Http3Session::new(conn, &context.h3, key, peer, path) {
            Ok(session) => Some(session),
            Err(error) => {
                tracing::debug!(%error, "no HTTP/3 session");
                let _ = conn.close(true, WireErrorCode::InternalError as u64, b"");
                None
            }
        }
    }

    /// A client that breaks the protocol has its stream reset or its connection closed, with the code of RFC 9114 §8.1.
    fn turn(&mut self, conn: &mut quiche::Connection, context: &mut SessionContext) {
        self.check_stalls(conn, context);
        self.resume_uploads(conn, context);
        loop {
            match self.h3.poll(conn) {
                Ok((stream, event)) => self.on_event(conn, stream, event, context),
                Err(Error::Done) => break,
                Err(error) => {
                    self.record_refused_head(conn, &error, context);
                    return self.fail(conn, code(error), context);
                }
            }
        }
        self.cancelled.clear();
        self.plan_head_check(conn, context);
        self.notice_stops(conn, context);
        if conn.local_error().is_some() {
            // The read of a body closed the connection, so nothing more can be written.
            self.clear(conn, context);
            return;
        }
        if self.is_flooded(conn, context.site.limits().stream_window) {
            return self.fail(conn, WireErrorCode::ExcessiveLoad, context);
        }
        let late_resets = self.late_resets.saturating_sub(self.stopped);
        let allowed = context.site.limits().cancelled_requests + self.requests / 2;
        if self.wasted + late_resets > allowed {
            return self.fail(conn, WireErrorCode::ExcessiveLoad, context);
        }
        self.send_goaway(conn);
        self.write(conn, context);
        self.note_waits_of_changed(conn, context);
    }

    fn on_message(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        message: ToFront,
        context: &mut SessionContext,
    ) {
        self.relay(conn, stream, message, context);
    }

    /// The response is 503, or a reset if it has begun.
    fn revoke(&mut self, conn: &mut quiche::Connection, stream: u64, context: &mut SessionContext) {
        if self.open.contains_key(&stream) {
            self.end_early(conn, stream, RequestRefusal::no_room(), FrontExchange::revoke, context);
        }
    }

    fn move_to(&mut self, path: ClientPath) {
        self.path = path;
    }

    fn set_algorithm(&mut self, algorithm: &'static str) {
        Arc::make_mut(&mut self.connection).algorithm = algorithm;
    }

    /// Sends GOAWAY with the largest stream ID (RFC 9114 §5.2).
    fn leave(&mut self, conn: &mut quiche::Connection) {
        self.leaving = true;
        self.send_goaway(conn);
    }

    /// Sends GOAWAY, and refuses later requests with H3_REQUEST_REJECTED.
    fn drain(&mut self, conn: &mut quiche::Connection) {
        self.refused_from.get_or_insert(self.next_stream);
        self.send_goaway(conn);
    }

    fn clear(&mut self, conn: &quiche::Connection, context: &mut SessionContext) {
        let streams: Vec<u64> = self.open.keys().copied().collect();
        for stream in streams {
            if let Some(exchange) = self.open.get_mut(&stream) {
                exchange.record(conn, context);
            }
            self.forget(stream, context);
        }
        self.pending.clear();
        self.overdue = None;
        self.cancelled.clear();
        self.changed.clear();
        self.to_pass_on.clear();
    }

    fn release_memory(&mut self) {
        self.h3.release_memory();
        self.open.shrink_to_fit();
        self.pending.release_memory();
        self.cancelled.shrink_to_fit();
        self.changed.shrink_to_fit();
        self.to_pass_on.shrink_to_fit();
    }

    fn is_leaving(&self) -> bool {
        self.leaving
    }

    fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    fn open_requests(
        &self,
        account: &Account,
        is_named: bool,
        now: Instant,
    ) -> Vec<RequestSnapshot> {
        self.requests_at(account, is_named, now)
    }

    fn has_tunnel(&self) -> bool {
        self.tunnels > 0
    }

    fn output(&self) -> Output {
        if self.pending.is_empty() {
            Output::Nothing
        } else if self.resume_below.is_some() {
            Output::Buffered
        } else if self.unacked.was_full() {
            Output::Unacknowledged
        } else {
            Output::Waiting
        }
    }

    fn awaits_room(&self) -> bool {
        !self.to_pass_on.is_empty()
    }

    fn has_room_again(&self, conn: &quiche::Connection) -> bool {
        self.resume_below.is_some_and(|most| conn.unsent() <= most)
    }

    fn taken(&self) -> u64 {
        self.taken
    }

    /// A head or trailers count as a frame beside them until they have arrived in full, so the number may also go down.
    fn read_totals(&self) -> ReadTotals {
        let frames = self.h3.received_frames().saturating_sub(self.sections);
        ReadTotals { frames, payload: self.body_bytes }
    }

    fn held(&self, conn: &quiche::Connection, context: &SessionContext) -> u64 {
        let promised = |exchange: &Exchange| {
            let origin_ring = context.origin_ring.as_ref()?;
            Some(origin_ring.promised(exchange.number?))
        };
        let promised: u64 = self.open.values().filter_map(promised).sum();
        let heads = self.h3.streams_without_head(conn).count() as u64;
        promised + heads * context.site.limits().header_bytes
    }

    fn deadline(&self) -> Option<Instant> {
        self.stall_checks.planned.map(|(_, next)| next)
    }
}

impl Http3Session {
    /// Opens the control streams on a connection that can send, and whose client has proved its address on `path`.
    ///
    /// # Errors
    /// The client allows no streams for them; the connection is then being closed.
    pub(super) fn new(
        conn: &mut quiche::Connection,
        h3: &quiche::h3::Config,
        key: ConnectionKey,
        connection: PeerConnection,
        path: ClientPath,
    ) -> Result<Http3Session, Error> {
        let connection = PeerConnection {
            server_name: conn.server_name().map(Box::from),
            alpn: conn.application_proto().into(),
            client_certificate: conn.peer_cert().and_then(certificate),
            tls: tls_session(conn),
            ..connection
        };
        Ok(Http3Session {
            h3: quiche::h3::Connection::with_transport(conn, h3)?,
            key,
            resume_below: None,
            unacked: UnackedLook::default(),
            open: IdMap::default(),
            pending: Queue::default(),
            overdue: None,
            cancelled: Vec::new(),
            changed: Vec::new(),
            to_pass_on: Vec::new(),
            running: 0,
            tunnels: 0,
            next_stream: 0,
            refused_from: None,
            leaving: false,
            goaway: None,
            connection: Arc::new(connection),
            path,
            requests: 0,
            taken: 0,
            wasted: 0,
            late_resets: 0,
            sections: 0,
            section_bytes: 0,
            body_bytes: 0,
            stopped: 0,
            stops: 0,
            stall_checks: StallChecks::default(),
        })
    }

    /// Sends GOAWAY once it is due and there is room; called each turn.
    fn send_goaway(&mut self, conn: &mut quiche::Connection) {
        let due = self.refused_from.or(self.leaving.then_some(LAST_STREAM));
        if let Some(stream) = due
            && due != self.goaway
            && self.h3.send_goaway(conn, stream).is_ok()
        {
            self.goaway = due;
        }
    }

    /// Counts bytes of a body that were read.
    fn count_read(&mut self, count: u64, context: &mut SessionContext) {
        context.counters.bytes_in += count;
        self.body_bytes += count;
    }

    fn fail(
        &mut self,
        conn: &mut quiche::Connection,
        code: WireErrorCode,
        context: &mut SessionContext,
    ) {
        context.counters.errors += 1;
        // quiche has closed the connection for most errors, and then the first code stands.
        let _ = conn.close(true, code as u64, b"");
        self.clear(conn, context);
    }

    /// Returns whether the client has sent far more on its streams than heads and bodies: frames that are empty or unknown cost the
    /// worker as much as others, and achieve nothing.
    fn is_flooded(&self, conn: &quiche::Connection, stream_window: u64) -> bool {
        // Nobody read the last window of a stream that was reset or stopped.
        let ended = self.wasted + self.late_resets + self.stopped;
        let unread = ended.saturating_mul(stream_window);
        let payload = self.section_bytes + self.body_bytes;
        let allowed = overhead::allowed(payload, FREE_OVERHEAD.saturating_add(unread));
        conn.read_bytes() > allowed
    }
}

/// Returns the certificate of a client, which the handshake has verified.
fn certificate(der: &[u8]) -> Option<Arc<ClientCertificate>> {
    ClientCertificate::from_der(der).ok().map(Arc::new)
}

/// Returns the TLS session of a connection that can send; `None` once the state of TLS was freed.
fn tls_session(conn: &mut quiche::Connection) -> Option<TlsSession> {
    let resumed = conn.is_resumed();
    conn.ssl_mut().map(|ssl| TlsSession { resumed, ..TlsSession::of(ssl) })
}

/// Returns the code to close a connection with, if quiche has not closed it for the error itself.
fn code(error: Error) -> WireErrorCode {
    match error {
        Error::ExcessiveLoad => WireErrorCode::ExcessiveLoad,
        Error::IdError => WireErrorCode::IdError,
        Error::StreamCreationError => WireErrorCode::StreamCreationError,
        Error::ClosedCriticalStream => WireErrorCode::ClosedCriticalStream,
        Error::MissingSettings => WireErrorCode::MissingSettings,
        Error::FrameUnexpected => WireErrorCode::FrameUnexpected,
        Error::FrameError => WireErrorCode::FrameError,
        Error::SettingsError => WireErrorCode::SettingsError,
        Error::MessageError => WireErrorCode::MessageError,
        Error::QpackDecompressionFailed => WireErrorCode::GeneralProtocolError,
        _ => WireErrorCode::InternalError,
    }
}
