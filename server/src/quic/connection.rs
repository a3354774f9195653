//! One connection: quiche, its HTTP/3 session, and when it may send.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use sluicegate_dataplane::{Ecn, Egress, ListenerId, NoRoom, TxMeta};

use super::cid::{CidGenerator, ConnectionId};
use super::reset::ResetTokens;
use super::timers::Slot;
use crate::h3;
use crate::http::clients::Client;
use crate::http::exchange::message::ToFront;

/// How far ahead of its release time a packet may leave, so that packets leave in batches. The controllers' send
/// quantum is a millisecond's worth of their rate, too.
const PACING_SLACK: Duration = Duration::from_millis(1);

/// How long a drain leaves a client with its last response before it closes the connection: what was acknowledged need
/// not have been read, and a client's stack may throw away what was not read when the close arrives. It waits no longer for
/// the acknowledgement of anything else.
const LINGER: Duration = Duration::from_secs(1);

/// How long a drain waits for a client that says nothing, although it has the last of its responses to acknowledge and was
/// probed for that: programs end without a word.
const SILENCE: Duration = Duration::from_secs(5);

/// Room asked for each packet, bytes: the UDP payload of a full Ethernet frame over IPv4.
const ROOM: usize = 1472;

/// Bytes that a connection may write before it is another's turn.
const MAX_BURST: usize = 64 << 10;

/// What ended [`Connection::emit`].
#[derive(Debug, PartialEq, Eq)]
pub enum Emitted {
    /// The quantum, or another connection's turn: there may be more to send.
    More,
    /// There is nothing to send before the deadline that [`Connection::deadline`] names.
    Nothing,
    /// There is no room for the next packet.
    NoRoom(NoRoom),
}

/// A connection and its place in the endpoint.
pub struct Connection {
    /// quiche.
    pub quic: quiche::Connection,
    /// The listener that it came in by.
    pub listener: ListenerId,
    /// Its congestion controllers'.
    pub algorithm: &'static str,
    /// Who opened it, wherever it is now.
    pub(super) client: Client,
    /// Connection IDs under which the endpoint finds it.
    pub cids: Vec<ConnectionId>,
    /// The client's first choice. It leads here for good, or a late copy of the first packet would open another connection.
    pub original_dcid: Option<Vec<u8>>,
    /// The handshake is not done.
    pub half_open: bool,
    /// Tells it from other connections in the same slot of the endpoint.
    pub serial: u64,
    /// Waiting in the endpoint's queue.
    pub ready: bool,
    /// Waiting in the endpoint's list of those whose requests want room on the way to their handlers.
    pub awaiting_ring: bool,
    /// The endpoint's timer.
    pub timer: Slot,
    /// For the access log, until there is a session.
    pub connection_record: Option<h3::ConnectionRecord>,
    /// When its last datagram came.
    pub heard: Option<Instant>,
    session: Option<h3::Session>,
    release: Option<Instant>,
    /// When its handshake must be done; `None` once it is, or was given up.
    handshake_deadline: Option<Instant>,
    /// Its handshake took too long.
    handshake_timed_out: bool,
    asked: Asked,
    /// How many requests the session had taken when that was noted.
    taken: u64,
}

/// Where a connection is between requests.
#[derive(Clone, Copy)]
enum Asked {
    /// No request yet.
    Never,
    /// Requests are open, or parts of responses unacknowledged.
    Now,
    /// Until then; the client has everything since.
    Until(Instant),
}

impl Connection {
    /// Wraps a connection that was just accepted, whose handshake must be done by `handshake_deadline`.
    pub(super) fn new(
        quic: quiche::Connection,
        listener: ListenerId,
        algorithm: &'static str,
        client: Client,
        handshake_deadline: Instant,
    ) -> Self {
        Self {
            quic,
            listener,
            algorithm,
            client,
            cids: Vec::new(),
            original_dcid: None,
            half_open: true,
            serial: 0,
            ready: false,
            awaiting_ring: false,
            timer: Slot::default(),
            connection_record: None,
            heard: None,
            session: None,
            release: None,
            handshake_deadline: Some(handshake_deadline),
            handshake_timed_out: false,
            asked: Asked::Never,
            taken: 0,
        }
    }

    /// Closes it if its handshake should be done by now and is not, and says whether it did.
    pub(super) fn close_late_handshake(&mut self, now: Instant) -> bool {
        if self
            .handshake_deadline
            .is_none_or(|deadline| now < deadline)
        {
            return false;
        }
        self.handshake_deadline = None;
        if self.quic.is_established() {
            return false;
        }
        self.handshake_timed_out = self
            .quic
            .close(
                false,
                quiche::WireErrorCode::ConnectionRefused as u64,
                b"handshake timeout",
            )
            .is_ok();
        self.handshake_timed_out
    }

    /// The handshake is done.
    pub(super) fn on_established(&mut self) {
        self.half_open = false;
        self.handshake_deadline = None;
    }

    /// Whether nothing is left to do for it; asked once it has nothing to send. One that was given up and may not even
    /// say so, as its client never proved its address, is not waited for.
    pub(super) fn is_over(&self) -> bool {
        self.quic.is_closed() || (self.handshake_timed_out && !self.quic.is_draining())
    }

    /// Lets the HTTP/3 session work, once the handshake allows one.
    pub fn drive(&mut self, context: &mut h3::SessionContext<'_>) {
        while self.quic.path_event_next().is_some() {}
        self.quic.make_path_room();
        // In early data requests come before the handshake is done.
        let ready = self.quic.is_established() || self.quic.is_in_early_data();
        if self.session.is_none() && ready {
            match h3::Session::new(&mut self.quic, context.h3, self.connection_record.take()) {
                Ok(session) => self.session = Some(session),
                Err(error) => {
                    tracing::debug!(%error, "no HTTP/3 session");
                    let code = quiche::h3::WireErrorCode::InternalError as u64;
                    let _ = self.quic.close(true, code, b"");
                }
            }
        }
        if let Some(session) = &mut self.session {
            session.turn(&mut self.quic, context);
        }
    }

    /// Gives the peer spare connection IDs, for migration, and answers those that are new.
    pub fn issue_cids(
        &mut self,
        make: &mut CidGenerator,
        tokens: &ResetTokens,
    ) -> Vec<ConnectionId> {
        let mut fresh = Vec::new();
        if !self.quic.is_established() {
            return fresh;
        }
        while self.quic.scids_left() > 0 {
            let cid = make.generate();
            let token = u128::from_be_bytes(tokens.token(cid.as_bytes()));
            let id = quiche::ConnectionId::from_ref(cid.as_bytes());
            if self.quic.new_scid(&id, token, false).is_err() {
                break;
            }
            self.cids.push(cid);
            fresh.push(cid);
        }
        fresh
    }

    /// Announces that no further request will be taken.
    pub fn drain(&mut self) {
        if let Some(session) = &mut self.session {
            session.drain(&mut self.quic);
        }
    }

    /// Takes a message of a handler on the origin thread.
    pub fn on_message(
        &mut self,
        stream: u64,
        message: ToFront,
        context: &mut h3::SessionContext<'_>,
    ) {
        if let Some(session) = &mut self.session {
            session.on_message(&mut self.quic, stream, message, context);
        }
    }

    /// Stops the handlers of its requests: the connection is gone.
    pub fn clear(&mut self, context: &mut h3::SessionContext<'_>) {
        if let Some(session) = &mut self.session {
            session.clear(context);
        }
    }

    /// Whether a request's body waits for room on the way to its handler.
    pub fn is_awaiting_ring(&self) -> bool {
        self.session
            .as_ref()
            .is_some_and(h3::Session::is_awaiting_ring)
    }

    /// The client's address and the lowest round-trip time to it so far.
    pub fn min_rtt(&self) -> Option<(IpAddr, Duration)> {
        let path = self.quic.path_stats().find(|path| path.active)?;
        Some((path.peer_addr.ip(), path.min_rtt?))
    }

    fn is_idle(&self) -> bool {
        self.session.as_ref().is_none_or(h3::Session::is_idle)
    }

    /// Notices when the last response has reached the client. A drain asks for itself: what was lost and turns out to have
    /// arrived after all ends without a packet.
    pub(super) fn note_requests(&mut self, now: Instant) {
        let taken = self.session.as_ref().map_or(0, h3::Session::taken);
        // One may have come and been answered at once.
        if std::mem::replace(&mut self.taken, taken) != taken {
            self.asked = Asked::Now;
        }
        if matches!(self.asked, Asked::Now) && self.is_idle() && !self.quic.has_unacked() {
            self.asked = Asked::Until(now);
        }
    }

    /// Whether a drain that began then need not wait for it: no request is open, and the client has had every response for
    /// [`LINGER`], or been silent for [`SILENCE`]. A handshake without a request is not waited for: its client may never
    /// finish it.
    pub(super) fn is_finished(&mut self, since: Instant, now: Instant) -> bool {
        let lingered = |since| now.saturating_duration_since(since) >= LINGER;
        let spoke = self.heard.map_or(since, |heard| heard.max(since));
        self.note_requests(now);
        match self.asked {
            Asked::Now => self.is_idle() && now.saturating_duration_since(spoke) >= SILENCE,
            Asked::Until(end) if !lingered(end) => false,
            Asked::Never if !self.quic.is_established() => true,
            // What may be unacknowledged is that no further request will be taken.
            Asked::Never | Asked::Until(_) => !self.quic.has_unacked() || lingered(since),
        }
    }

    /// When it wants to be called again: a timer of quiche, the time its next packet may leave, or the end of the
    /// time for its handshake.
    pub fn deadline(&self) -> Option<Instant> {
        let quic = self.quic.timeout_instant();
        [quic, self.release, self.handshake_deadline]
            .into_iter()
            .flatten()
            .min()
    }

    /// Writes packets for one path: as many as the window, the pacing rate and the controller's quantum allow.
    pub fn emit(&mut self, out: &mut dyn Egress, now: Instant) -> Emitted {
        self.release = None;
        if self.held_back(now) && !self.quic.is_urgent() {
            return Emitted::Nothing;
        }
        let room = match out.room(self.listener, ROOM) {
            Ok(room) => room,
            Err(reason) => return Emitted::NoRoom(reason),
        };
        let sent = self.quic.send(room).or_else(|error| match error {
            quiche::Error::Done => Err(error),
            _ => {
                tracing::debug!(%error, "connection failed while sending");
                let code = quiche::WireErrorCode::InternalError as u64;
                let _ = self.quic.close(false, code, b"");
                self.quic.send(room)
            }
        });
        let Ok((first, quiche::SendInfo { from, to, .. })) = sent else {
            return Emitted::Nothing;
        };
        let meta = TxMeta {
            peer: to,
            local: Some(from),
            ecn: Ecn::NotCapable,
            departure: None,
        };
        out.commit(first, &meta);
        let quantum = self.quic.send_quantum_on_path(from, to).min(MAX_BURST);
        let mut sent = first;
        // What was urgent may have passed the pacer; what follows may not.
        while sent + first <= quantum && !self.held_back(now) {
            let room = match out.room(self.listener, ROOM) {
                Ok(room) => room,
                Err(reason) => return Emitted::NoRoom(reason),
            };
            match self.quic.send_on_path(room, Some(from), Some(to)) {
                Ok((len, _)) => {
                    out.commit(len, &meta);
                    sent += len;
                }
                Err(_) => break,
            }
        }
        Emitted::More
    }

    /// Whether pacing forbids a packet now; if so the release time is kept.
    fn held_back(&mut self, now: Instant) -> bool {
        // The last word waits for nothing: a process that ends would never say it.
        if self.quic.local_error().is_some() {
            return false;
        }
        let Some(at) = self.quic.get_next_release_time().and_then(|d| d.time(now)) else {
            return false;
        };
        if at <= now + PACING_SLACK {
            return false;
        }
        self.release = Some(at);
        true
    }
}
