//! One connection: quiche, its session of the application, and when it is to be looked at again.

mod address;
mod draining;
mod emit;
mod figures;
mod receive;
mod recorder;
mod snapshot;
mod switch;
mod too_big;
mod trace;
mod waits;

use std::net::IpAddr;
use std::time::{Duration, Instant};

use sluicegate_config::Limits;
use sluicegate_dataplane::ListenerId;

use address::Whereabouts;
pub use emit::{Emitted, PACING_SLACK};
use recorder::LastDumps;
use sluicegate_base::address::UnvalidatedAddress;
use sluicegate_base::keys::ConnectionKey;
use sluicegate_base::observe::account::{Account, Wait};
pub use switch::ControllerState;
use trace::ConnectionTrace;
pub(crate) use trace::TraceLabels;
pub(crate) use waits::Rest;

use super::activity::Activity;
use super::application::{Application, Shared};
use super::cid::ConnectionId;
use super::connection_gauges::ControllerLabels;
use super::expiry::Expiry;
use super::holders::Holder;
use super::path_size::PathSize;
use super::progress::Progress;
use super::recorder::Recorder;
use super::reset::ResetTokens;

/// State of a connection without a congestion controller.
const NO_STATE: &str = "none";

/// A connection and what its endpoint notes of it.
pub struct Connection<A: Application> {
    /// State of the QUIC connection.
    quic: quiche::Connection,
    /// Listener that its first datagram arrived at; all leave by it.
    pub(super) listener: ListenerId,
    /// Name of the congestion control algorithm.
    pub(super) algorithm: &'static str,
    /// Client or proxy that opened it, wherever it is now, or who has yet to prove its address; `None` once it does not count as one's.
    pub(super) holder: Option<Holder>,
    /// Peer's address on the active path, under which the endpoint finds it, too.
    pub(super) address: UnvalidatedAddress,
    /// What is known of the client's address.
    whereabouts: Whereabouts,
    /// Connection IDs under which the endpoint finds it.
    cids: Vec<ConnectionId>,
    /// First destination connection ID that the client chose. The endpoint keeps it for the connection's life, or a late
    /// copy of the first packet would open another connection.
    original_dcid: Option<Vec<u8>>,
    /// Whether the handshake is not complete.
    half_open: bool,
    /// Slot in the endpoint, and what tells it from other connections there.
    pub(super) key: ConnectionKey,
    /// Whether it is in the endpoint's queue for service.
    pub(super) awaits_service: bool,
    /// Whether it is in the endpoint's queue for emission.
    pub(super) awaits_emit: bool,
    /// Whether it is in the endpoint's list of those whose data waits for room in the ring to other threads.
    pub(super) awaits_room: bool,
    /// Whether the handshake waits for a signature. Until then nothing is sent: a ServerHello alone would fill a datagram with padding, which
    /// the bound on what an unvalidated address gets (RFC 9000 §8.1) counts.
    pub(super) awaits_signature: bool,
    /// Whether the endpoint has counted it among those that have ended.
    ended: bool,
    /// ControllerLabels under which the endpoint's gauges count it.
    gauged: Option<ControllerLabels>,
    /// Description for the application, until the session takes it.
    peer: Option<Box<A::Peer>>,
    /// Time at which a drain looks at it again.
    finishes: Option<Instant>,
    /// Largest datagram that may be sent or probed for, bytes of UDP payload.
    max_datagram: usize,
    may_have_moved: bool,
    /// Address that the last token was for.
    token_for: Option<IpAddr>,
    activity: Activity,
    path_size: PathSize,
    progress: Progress,
    account: Account,
    trace: Option<Box<ConnectionTrace>>,
    /// Its latest events, while it is active.
    recorder: Option<Box<Recorder>>,
    last_dumps: Option<Box<LastDumps>>,
    /// Its server name was compared with those that an operator wants to be traced.
    pub(super) was_offered_trace: bool,
    /// Time at which it was queued for service or emission; `None` while it rests.
    queued: Option<Instant>,
    /// Sums of ECN that the endpoint's counters have.
    ecn: quiche::EcnStats,
    session: Option<A>,
    /// Time at which pacing lets the next packet leave, if it holds one back.
    release: Option<Instant>,
    /// Longest recent delay of the worker after such a time; it fades.
    release_delay: Duration,
    /// Deadline of the handshake; `None` once it is complete or has timed out.
    handshake_deadline: Option<Instant>,
    handshake_timed_out: bool,
    /// It was closed because memory is short.
    given_up: bool,
    expiry: Expiry,
    /// Start of the endpoint's shutdown that was announced to its client. It ends even if the endpoint serves again.
    shut_down: Option<Instant>,
}

/// A connection that quiche has accepted, and its limits.
pub(super) struct Accepted<A: Application> {
    pub(super) quic: quiche::Connection,
    pub(super) listener: ListenerId,
    pub(super) algorithm: &'static str,
    pub(super) holder: Holder,
    /// Description for the application.
    pub(super) peer: A::Peer,
    /// Source of the first datagram.
    pub(super) address: UnvalidatedAddress,
    pub(super) begun: Instant,
    /// Deadline of the handshake.
    pub(super) handshake_deadline: Instant,
    /// Largest datagram that may be sent or probed for, bytes of UDP payload.
    pub(super) max_datagram: usize,
}

impl<A: Application> Connection<A> {
    /// Wraps a connection that was just accepted under `cid`, to be kept under `key`. `original` is the connection ID that
    /// the client chose first.
    pub(super) fn new(
        accepted: Accepted<A>,
        key: ConnectionKey,
        cid: ConnectionId,
        original: Option<&[u8]>,
    ) -> Self {
        Self {
            quic: accepted.quic,
            listener: accepted.listener,
            algorithm: accepted.algorithm,
            holder: Some(accepted.holder),
            address: accepted.address,
            whereabouts: Whereabouts::default(),
            cids: vec![cid],
            original_dcid: original.map(<[u8]>::to_vec),
            half_open: true,
            key,
            awaits_service: false,
            awaits_emit: false,
            awaits_room: false,
            awaits_signature: false,
            ended: false,
            gauged: None,
            peer: Some(Box::new(accepted.peer)),
            finishes: None,
            max_datagram: accepted.max_datagram,
            may_have_moved: false,
            token_for: None,
            activity: Activity::new(accepted.begun),
            path_size: PathSize::default(),
            progress: Progress::new(),
            account: Account::begin(Wait::Handshake, accepted.begun),
            trace: None,
            recorder: None,
            last_dumps: None,
            was_offered_trace: false,
            queued: None,
            ecn: quiche::EcnStats::default(),
            session: None,
            release: None,
            release_delay: Duration::ZERO,
            handshake_deadline: Some(accepted.handshake_deadline),
            handshake_timed_out: false,
            given_up: false,
            shut_down: None,
            expiry: Expiry::default(),
        }
    }

    /// Runs the timers that are due at `now`. Returns the most important one, if any was due.
    pub(super) fn on_timer(&mut self, now: Instant) -> Option<Due> {
        let is_due = |deadline: Option<Instant>| deadline.is_some_and(|at| at <= now);
        let quic = is_due(self.quic.timeout_instant());
        if quic {
            self.quic.on_timeout();
            if self.quic.is_pmtu_raised()
                && self.path_size.on_timeout(self.quic.stats().acked_bytes)
            {
                self.quic.doubt_pmtu();
            }
        }
        if self.close_late_handshake(now) {
            return Some(Due::Handshake);
        }
        if quic || is_due(self.session_deadline()) || is_due(self.expiry.at()) {
            return Some(Due::Service);
        }
        // At the rest behind the emission it is looked at.
        let recorder = self.recorder.as_mut().is_some_and(|recorder| recorder.take_due(now));
        (recorder || is_due(self.release) || is_due(self.finishes)).then_some(Due::Emission)
    }

    /// Closes the connection if its handshake took too long. Returns whether it did.
    fn close_late_handshake(&mut self, now: Instant) -> bool {
        if self.handshake_deadline.is_none_or(|deadline| now < deadline) {
            return false;
        }
        self.handshake_deadline = None;
        if self.quic.is_established() {
            return false;
        }
        self.handshake_timed_out = self
            .quic
            .close(false, quiche::WireErrorCode::ConnectionRefused as u64, b"handshake timeout")
            .is_ok();
        self.handshake_timed_out
    }

    /// Returns whether its handshake was not complete when [`Connection::finish_handshake`] was last called.
    pub(super) fn is_half_open(&self) -> bool {
        self.half_open
    }

    /// Returns whether the handshake has become complete since the last call; its lifetime begins then.
    /// `draw` returns random bits.
    pub(super) fn finish_handshake(
        &mut self,
        limits: &Limits,
        draw: impl FnOnce() -> u16,
        now: Instant,
    ) -> bool {
        let finished = self.half_open && self.quic.is_established();
        if finished {
            self.half_open = false;
            self.handshake_deadline = None;
            self.expiry.start(limits, draw(), now);
        }
        finished
    }

    /// Keeps the connection ID that the client chose first.
    pub(super) fn keep_original(&mut self, dcid: Vec<u8>) {
        self.original_dcid = Some(dcid);
    }

    /// Returns the controller under which the gauges count it, and the one that it has now, under which they count it from
    /// now on.
    pub(super) fn move_controller(
        &mut self,
    ) -> (Option<ControllerLabels>, Option<ControllerLabels>) {
        let now = Some(ControllerLabels {
            algorithm: self.algorithm,
            state: self.quic.congestion_state().unwrap_or(NO_STATE),
        });
        (std::mem::replace(&mut self.gauged, now), now)
    }

    /// Runs the session, once the handshake allows one. Writes no packet.
    pub fn service(&mut self, shared: &mut A::Shared, now: Instant) {
        self.take_path_events(now);
        self.quic.make_path_room();
        // In early data requests come before the handshake is done. They wait for it unless the client's address is proved.
        let ready = self.quic.is_established() || self.quic.is_in_early_data();
        if self.session.is_none()
            && ready
            && let Some(path) = self.client_path()
            && let Some(peer) = self.peer.take()
        {
            self.session = A::begin(&mut self.quic, self.key, *peer, path, shared);
        }
        if let Some(session) = &mut self.session {
            shared.look_at(&self.account);
            session.turn(&mut self.quic, shared);
        }
        let read = self.session.as_ref().map(A::read_totals);
        self.progress.on_read(read.unwrap_or_default());
    }

    /// Issues spare connection IDs, which `generate` makes, to the peer, for migration. Returns those that are new.
    pub fn issue_cids(
        &mut self,
        mut generate: impl FnMut() -> ConnectionId,
        tokens: &ResetTokens,
    ) -> Vec<ConnectionId> {
        let mut fresh = Vec::new();
        if !self.quic.is_established() {
            return fresh;
        }
        while self.quic.scids_left() > 0 {
            let cid = generate();
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

    /// Returns the connection IDs under which the endpoint finds it: its own, and the one that its client chose first.
    pub(super) fn dcids(&self) -> impl Iterator<Item = &[u8]> {
        let own = self.cids.iter().map(ConnectionId::as_bytes);
        own.chain(self.original_dcid.as_deref())
    }

    /// Returns the connection ID that the client chose first, as logs and traces name the connection.
    pub(super) fn original_id(&self) -> &[u8] {
        self.dcids().last().unwrap_or_default()
    }

    /// Returns the next connection ID that the peer has retired.
    pub(super) fn take_retired_cid(&mut self) -> Option<quiche::ConnectionId<'static>> {
        let retired = self.quic.retired_scid_next()?;
        self.cids.retain(|cid| cid.as_bytes() != retired.as_ref());
        Some(retired)
    }

    /// Takes a message to one of its streams.
    pub fn on_message(
        &mut self,
        stream: u64,
        message: <A::Shared as Shared>::Message,
        shared: &mut A::Shared,
    ) {
        if let Some(session) = &mut self.session {
            shared.look_at(&self.account);
            session.on_message(&mut self.quic, stream, message, shared);
        }
    }

    /// Ends a request whose memory other clients got.
    pub fn revoke(&mut self, stream: u64, shared: &mut A::Shared) {
        if let Some(session) = &mut self.session {
            shared.look_at(&self.account);
            session.revoke(&mut self.quic, stream, shared);
        }
    }

    /// Cancels its requests: the connection is gone.
    pub fn clear(&mut self, shared: &mut A::Shared) {
        if let Some(session) = &mut self.session {
            shared.look_at(&self.account);
            session.clear(&self.quic, shared);
        }
    }

    /// Returns whether a request's body waits for room on the way to its handler.
    pub fn awaits_room(&self) -> bool {
        self.session.as_ref().is_some_and(A::awaits_room)
    }

    /// Returns whether responses that waited for room in the send buffer can go on.
    pub(super) fn has_room_again(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.has_room_again(&self.quic))
    }

    /// Returns the state of the QUIC connection.
    #[cfg(test)]
    pub(super) fn quic(&self) -> &quiche::Connection {
        &self.quic
    }

    fn session_deadline(&self) -> Option<Instant> {
        self.session.as_ref().and_then(A::deadline)
    }

    /// Returns when it is to be looked at again: at a timer of quiche or of the session, when pacing lets the next packet go, when the
    /// handshake times out, when it expires, when a drain may close it, or when its recorder may have something to tell.
    pub fn deadline(&self) -> Option<Instant> {
        let recorder = self.recorder.as_ref().and_then(|recorder| recorder.due());
        let mut first = earlier(self.quic.timeout_instant(), self.session_deadline());
        for other in
            [self.release, self.finishes, self.handshake_deadline, self.expiry.at(), recorder]
        {
            first = earlier(first, other);
        }
        first
    }
}

/// Returns the earlier of two times, of those that there are.
fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Reason of a connection's timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// The handshake took too long; the connection is being closed.
    Handshake,
    /// A timer of quiche or of the session, after which the session may have work.
    Service,
    /// A packet that pacing held back, or a drain.
    Emission,
}
