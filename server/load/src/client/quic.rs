//! A connection of HTTP/3 over QUIC.

pub(super) mod config;
pub(crate) mod socket;
#[cfg(test)]
mod tests;
mod traffic;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use quiche::h3;

use super::exchanges::{Agreed, Exchanges};
use super::sessions::Sessions;
use super::transport::{Transport, Way};
use crate::context::Context;
use crate::end::{self, End};
use crate::poller::Watch;
use crate::request::Request;
use crate::session::Session;
use crate::tally::Tally;
use crate::tls;
use socket::Socket;

/// Code that closes a connection without an error, H3_NO_ERROR (RFC 9114 §8.1, as all of these).
const NO_ERROR: u64 = 0x100;
/// H3_INTERNAL_ERROR.
const INTERNAL_ERROR: u64 = 0x102;
/// H3_REQUEST_REJECTED.
const REJECTED: u64 = 0x10b;
/// H3_REQUEST_CANCELLED.
const CANCELLED: u64 = 0x10c;
/// BoringSSL's word for early data that the server has accepted, `ssl_early_data_accepted`.
const EARLY_DATA_ACCEPTED: u32 = 2;
/// Pause before a batch that found no room in the kernel is sent again.
const SEND_AGAIN: Duration = Duration::from_millis(1);

/// A connection of QUIC with its socket.
pub(crate) struct Quic {
    socket: Socket,
    quic: quiche::Connection,
    h3: Option<h3::Connection>,
    /// The handshake is complete, and HTTP/3 has begun or could not.
    established: bool,
    /// HTTP/3 begins as soon as early data can be sent.
    begins_early: bool,
    /// HTTP/3 has begun in early data.
    has_begun_early: bool,
    sessions: Sessions,
    /// No new session has come yet.
    awaits_session: bool,
    /// Streams whose request has more body to send.
    uploads: VecDeque<u64>,
    /// Time at which a PING keeps it from the idle timeout, unless something arrives before.
    ping_at: Option<Instant>,
    ping_after: Duration,
    /// Time at which pacing allows the next packet, or a batch is sent again.
    release: Option<Instant>,
    blocked: bool,
}

impl Quic {
    /// Opens a socket to the server and starts a handshake.
    ///
    /// # Errors
    /// There is no route or no descriptor left, the trace cannot be written, or the session cannot be decoded.
    pub(crate) fn open(
        (config, sessions): (&mut quiche::Config, &Sessions),
        way: Way<'_>,
        cx: &Context<'_>,
    ) -> anyhow::Result<Quic> {
        let socket = Socket::connect(cx.plan.addresses[way.address], way.local)?;
        let path = (socket.local, socket.peer);
        let mut quic = config::connect(config, cx.plan, path, way.trace)?;
        let session = sessions.next();
        if let Some(session) = &session {
            let resumed = quic.set_session(&session.to_quic());
            resumed.context("cannot resume the session")?;
        }
        let has_params = session.is_some_and(|session| session.has_params());
        Ok(Quic {
            socket,
            quic,
            h3: None,
            established: false,
            begins_early: has_params && cx.plan.sends_early_data(),
            has_begun_early: false,
            sessions: sessions.clone(),
            awaits_session: sessions.are_kept(),
            uploads: VecDeque::new(),
            ping_at: None,
            ping_after: Duration::ZERO,
            release: None,
            blocked: false,
        })
    }

    /// Returns whether HTTP/3 can begin before the handshake is complete.
    fn can_begin_early(&self) -> bool {
        self.begins_early && !self.established && self.quic.is_in_early_data()
    }

    /// Begins HTTP/3 in early data. What the server rejects of that, quiche sends again when the handshake is complete.
    fn begin_early(&mut self, exchanges: &mut Exchanges, cx: &Context<'_>) {
        (self.begins_early, self.has_begun_early) = (false, true);
        self.begin_http(cx);
        exchanges.on_early(cx.now);
    }

    fn begin_http(&mut self, cx: &Context<'_>) {
        match h3::Connection::with_transport(&mut self.quic, &cx.h3) {
            Ok(h3) => self.h3.insert(h3).keep_sections(),
            // It has closed the connection; if not, nothing else would.
            Err(_) => drop(self.quic.close(true, INTERNAL_ERROR, b"")),
        }
    }

    fn on_established(&mut self, exchanges: &mut Exchanges, cx: &mut Context<'_>) {
        self.established = true;
        self.ping_after = config::ping_after(&self.quic);
        self.ping_at = Some(cx.now + self.ping_after);
        if !self.has_begun_early {
            self.begin_http(cx);
        }
        let is_accepted = self.quic.early_data_reason() == EARLY_DATA_ACCEPTED;
        // Responses that have come with the end of the handshake are read later.
        let has_sent_early = self.has_begun_early && !exchanges.open.is_empty();
        let agreed = Agreed {
            lines: tls::lines(self.quic.as_mut()),
            protocol: "h3",
            is_resumed: self.quic.is_resumed(),
            early_data: has_sent_early.then_some(is_accepted),
        };
        exchanges.on_established(agreed, cx);
    }

    /// Keeps the session that the server has sent, once.
    fn keep_session(&mut self) {
        if self.awaits_session
            && let Some(bytes) = self.quic.session()
        {
            self.awaits_session = false;
            if let Some(session) = Session::of_quic(bytes) {
                self.sessions.keep(session);
            }
        }
    }

    /// Returns the end of a connection that one of the two sides has closed.
    fn why_over(&mut self, exchanges: &Exchanges) -> End {
        let by_peer = self.quic.peer_error();
        let orderly = by_peer.is_some_and(|e| e.is_app && e.error_code == NO_ERROR);
        if orderly && exchanges.open.is_empty() && exchanges.first_byte {
            return End::GoneAway;
        }
        end::of_connection(&mut self.quic, self.socket.peer)
    }
}

impl Transport for Quic {
    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn watch(&self) -> Watch {
        Watch::Input
    }

    fn receive(&mut self, exchanges: &mut Exchanges, cx: &mut Context<'_>) -> Result<(), End> {
        let counts = cx.counts();
        let before = self.quic.received_stream_bytes();
        let mut any = false;
        let (quic, tally, heard) = (&mut self.quic, &mut cx.tally, &mut exchanges.heard);
        let (from, to) = (self.socket.peer, self.socket.local);
        let result = self.socket.receive(&mut cx.buffers.receive, |bytes, size| {
            (*heard, any) = (true, true);
            if counts {
                let datagrams = bytes.len().div_ceil(size) as u64;
                tally.gro.add(datagrams);
                tally.datagrams_received += datagrams;
                tally.bytes_total += bytes.len() as u64;
            }
            for datagram in bytes.chunks_mut(size) {
                // An error that matters closes the connection and is found there.
                let _ = quic.recv(datagram, quiche::RecvInfo { from, to });
            }
        });
        // System call and decryption are part of the latencies of what they bring, as in h2load.
        cx.tick();
        // The response to a PING is not what -N waits for.
        let is_useful = self.quic.received_stream_bytes() > before || !self.uploads.is_empty();
        if is_useful || any && !self.established {
            exchanges.heard_at = cx.now;
        }
        if any && self.established {
            self.ping_at = Some(cx.now + self.ping_after);
        }
        match result {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(end::of_socket(from, &error, exchanges.heard)),
        }
    }

    fn process(&mut self, exchanges: &mut Exchanges, cx: &mut Context<'_>) {
        if self.can_begin_early() {
            self.begin_early(exchanges, cx);
        }
        if !self.established && self.quic.is_established() {
            self.on_established(exchanges, cx);
        }
        self.keep_session();
        self.take_events(exchanges, cx);
        self.upload(exchanges, cx);
    }

    fn has_room(&self, _open: usize) -> bool {
        self.h3.is_some() && self.quic.peer_streams_left_bidi() > 0
    }

    fn send(&mut self, request: &Request, cx: &Context<'_>) -> Option<u64> {
        let h3 = self.h3.as_mut()?;
        let head = &cx.requests[request.head];
        let ends = cx.plan.body.is_none();
        let stream = h3.send_encoded_request(&mut self.quic, head, ends).ok()?;
        if !ends {
            self.uploads.push_back(stream);
        }
        Some(stream)
    }

    fn flush(&mut self, exchanges: &mut Exchanges, cx: &mut Context<'_>) -> Result<(), End> {
        let (peer, heard) = (self.socket.peer, exchanges.heard);
        let sent = self.send_packets(cx);
        sent.map_err(|error| end::of_socket(peer, &error, heard))
    }

    fn is_awake(&self) -> bool {
        // The first packet has left.
        self.can_begin_early()
    }

    fn end(&mut self, exchanges: &Exchanges) -> Option<End> {
        let quic = &mut self.quic;
        let over = quic.is_closed() || quic.is_draining() || quic.local_error().is_some();
        over.then(|| self.why_over(exchanges))
    }

    fn deadline(&self) -> Option<Instant> {
        let timers = [self.quic.timeout_instant(), self.release, self.ping_at];
        timers.into_iter().flatten().min()
    }

    fn on_timer(&mut self, now: Instant) {
        if self.quic.timeout_instant().is_some_and(|at| at <= now) {
            self.quic.on_timeout();
        }
        if self.ping_at.is_some_and(|at| at <= now) {
            // A client keeps its connection open while it waits (RFC 9114 §5.1). Without a path, none is left to keep.
            let _ = self.quic.send_ack_eliciting();
            self.ping_at = Some(now + self.ping_after);
        }
    }

    fn close(&mut self) {
        // It may be closed already.
        let _ = self.quic.close(true, NO_ERROR, b"");
    }

    fn missing_handshake(&self, exchanges: &Exchanges) -> String {
        end::of_handshake(self.socket.peer, exchanges.heard)
    }

    fn count(&self, tally: &mut Tally) {
        if let Some(path) = self.quic.path_stats().next() {
            if let Some(rtt) = path.min_rtt {
                tally.min_rtt.add_time(rtt);
                tally.smoothed_rtt.add_time(path.rtt);
            }
            tally.packets_sent.add(path.sent as u64);
            tally.packets_received.add(path.recv as u64);
            tally.packets_lost.add(path.lost as u64);
        }
    }
}
