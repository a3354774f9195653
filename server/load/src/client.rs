//! A connection: sends requests and reads responses.

#[cfg(test)]
mod tests;
mod traffic;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use quiche::h3;

use crate::context::{Context, Line};
use crate::end::{self, End};
use crate::request::Request;
use crate::schedule::Schedule;
use crate::socket::Socket;
use crate::transport;

/// Code that closes a connection without an error, H3_NO_ERROR (RFC 9114 §8.1).
const NO_ERROR: u64 = 0x100;
/// H3_INTERNAL_ERROR.
const INTERNAL_ERROR: u64 = 0x102;
/// H3_REQUEST_CANCELLED.
const CANCELLED: u64 = 0x10c;
/// Pause before a batch that found no room in the kernel is sent again.
const SEND_AGAIN: Duration = Duration::from_millis(1);

/// Rule by which a connection sends requests.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// A request as soon as a response is complete.
    Closed,
    /// Requests per second, from the end of its handshake on.
    Rate(f64),
    /// Requests at the times of a schedule of its own.
    Scheduled(Schedule),
    /// Requests that the thread submits, by a schedule of all connections.
    Shared,
}

/// A connection with a socket of its own.
pub(crate) struct Client {
    socket: Socket,
    quic: quiche::Connection,
    /// The handshake is complete.
    established: bool,
    h3: Option<h3::Connection>,
    open: BTreeMap<u64, Request>,
    /// Streams whose request has more body to send.
    uploads: VecDeque<u64>,
    pace: Pace,
    /// Requests still to be sent.
    pub(crate) left: u64,
    /// Index of the next request's head.
    next_head: usize,
    begin: Instant,
    /// Time of the last packet with a part of a response or, while a body is sent, of any packet.
    heard_at: Instant,
    /// Time at which a PING keeps it from the idle timeout, unless something arrives before.
    ping_at: Option<Instant>,
    ping_after: Duration,
    /// Time of the last request, once none is left.
    last_request: Option<Instant>,
    /// Complete responses that count.
    completed: u64,
    first_byte: bool,
    /// A datagram has arrived.
    heard: bool,
    /// The server takes no further requests.
    going_away: bool,
    /// A request found no room; it is tried again after the next event.
    stuck: bool,
    /// Time at which pacing allows the next packet, or a batch is sent again.
    release: Option<Instant>,
    blocked: bool,
    /// Index of the server's address.
    pub(crate) address: usize,
}

impl Client {
    /// Opens a socket to the plan's address number `address` and starts a handshake.
    ///
    /// # Errors
    /// There is no route, no descriptor left, or no way to write the trace.
    pub(crate) fn open(
        config: &mut quiche::Config,
        (address, trace): (usize, Option<&Path>),
        (left, pace): (u64, Pace),
        cx: &mut Context<'_>,
    ) -> anyhow::Result<Client> {
        let socket = Socket::connect(cx.plan.addresses[address])?;
        let path = (socket.local, socket.peer);
        let quic = transport::connect(config, cx.plan, path, trace)?;
        cx.handshaking += 1;
        Ok(Client {
            socket,
            quic,
            established: false,
            h3: None,
            open: BTreeMap::new(),
            uploads: VecDeque::new(),
            pace,
            left,
            next_head: 0,
            begin: cx.now,
            heard_at: cx.now,
            ping_at: None,
            ping_after: Duration::ZERO,
            last_request: None,
            completed: 0,
            first_byte: false,
            heard: false,
            going_away: false,
            stuck: false,
            release: None,
            blocked: false,
            address,
        })
    }

    /// Returns whether another request can be sent now.
    pub(crate) fn has_room(&self, cx: &Context<'_>) -> bool {
        self.h3.is_some()
            && !self.going_away
            && !self.stuck
            && (self.open.len() as u64) < cx.plan.options.max_concurrent_streams
            && self.quic.peer_streams_left_bidi() > 0
    }

    /// Sends a request whose latency counts from `start`. Returns whether there was room for it.
    pub(crate) fn submit(&mut self, start: Instant, cx: &mut Context<'_>) -> bool {
        let Some(h3) = self.h3.as_mut() else {
            return false;
        };
        let head = &cx.plan.heads[self.next_head];
        let ends = cx.plan.body.is_none();
        let Ok(stream) = h3.send_request(&mut self.quic, head, ends) else {
            // No room, or the connection is closing, which service notices.
            self.stuck = true;
            return false;
        };
        self.next_head = (self.next_head + 1) % cx.plan.heads.len();
        self.open.insert(stream, Request::new(start));
        if !ends {
            self.uploads.push_back(stream);
        }
        cx.count_started(start);
        true
    }

    /// Returns the times from which the latencies of its open requests count.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Instant> {
        self.open.values().map(|request| request.start)
    }

    /// Does all that can be done now: reads responses, sends requests and packets. Returns the connection's end, if it has come.
    pub(crate) fn service(&mut self, cx: &mut Context<'_>) -> Option<End> {
        if !self.established && self.quic.is_established() {
            self.begin_http(cx);
        }
        self.take_events(cx);
        self.upload(cx);
        self.fill(cx);
        let done = self.is_done();
        if done {
            self.close();
        }
        let (peer, heard) = (self.socket.peer, self.heard);
        if let Err(error) = self.flush(cx) {
            return Some(end::of_socket(peer, &error, heard));
        }
        if done {
            return Some(End::Done);
        }
        if self.going_away && self.open.is_empty() {
            return Some(self.gone_away());
        }
        let quic = &mut self.quic;
        let over = quic.is_closed() || quic.is_draining() || quic.local_error().is_some();
        over.then(|| self.why_over())
    }

    /// Returns the end of a connection that one of the two sides has closed.
    fn why_over(&mut self) -> End {
        let by_peer = self.quic.peer_error();
        let orderly = by_peer.is_some_and(|e| e.is_app && e.error_code == NO_ERROR);
        if orderly && self.open.is_empty() && self.first_byte {
            return End::GoneAway;
        }
        end::of_connection(&mut self.quic, self.socket.peer)
    }

    /// Returns the end after GOAWAY. A server that has not responded to anything would do the same with the next connection.
    fn gone_away(&mut self) -> End {
        if self.first_byte {
            return End::GoneAway;
        }
        End::Failed(format!("{} takes no requests (GOAWAY)", self.socket.peer))
    }

    fn begin_http(&mut self, cx: &mut Context<'_>) {
        let peer = self.socket.peer;
        self.established = true;
        self.ping_after = transport::ping_after(&self.quic);
        self.ping_at = Some(cx.now + self.ping_after);
        match h3::Connection::with_transport(&mut self.quic, &cx.h3) {
            Ok(h3) => self.h3 = Some(h3),
            // It has closed the connection; if not, nothing else would.
            Err(_) => drop(self.quic.close(true, INTERNAL_ERROR, b"")),
        }
        cx.handshaking -= 1;
        cx.tally.connections += 1;
        cx.tally.connect.add_time(cx.now - self.begin);
        if let Pace::Rate(rate) = self.pace {
            self.pace = Pace::Scheduled(Schedule::new(cx.now, rate, 0, 1));
        }
        if cx.reports && cx.tally.connections == 1 {
            cx.say(Line::Report("Application protocol: h3".into()));
        }
        cx.note(|| format!("connected to {peer}"));
    }

    /// Sends requests as far as its pace allows.
    fn fill(&mut self, cx: &mut Context<'_>) {
        while self.left > 0 && self.has_room(cx) {
            match &mut self.pace {
                Pace::Closed => {}
                Pace::Scheduled(schedule) if schedule.due(cx.now).is_some() => {}
                _ => return,
            }
            if !self.submit(cx.now, cx) {
                return;
            }
            if let Pace::Scheduled(schedule) = &mut self.pace {
                schedule.advance();
            }
            self.left -= 1;
            if self.left == 0 {
                self.last_request = Some(cx.now);
            }
        }
    }

    /// Returns whether all its requests have ended. One that shares a schedule never knows.
    fn is_done(&self) -> bool {
        self.left == 0 && self.open.is_empty() && !matches!(self.pace, Pace::Shared)
    }

    /// Returns the time at which [`Client::on_timer`] has to be called.
    pub(crate) fn deadline(&self, cx: &Context<'_>) -> Option<Instant> {
        let due = match &self.pace {
            Pace::Scheduled(schedule) if self.left > 0 && self.has_room(cx) => {
                Some(schedule.next())
            }
            _ => None,
        };
        let timers = [
            self.quic.timeout_instant(),
            self.release,
            self.ping_at,
            due,
            self.closes_at(cx),
        ];
        timers.into_iter().flatten().min()
    }

    /// Returns the time at which an option's timeout closes it.
    fn closes_at(&self, cx: &Context<'_>) -> Option<Instant> {
        let options = &cx.plan.options;
        let active = options.connection_active_timeout.zip(self.last_request);
        let inactive = options.connection_inactivity_timeout;
        let active = active.map(|(limit, last)| last + limit);
        let inactive = inactive.map(|limit| self.heard_at + limit);
        active.into_iter().chain(inactive).min()
    }

    /// Runs what is due. Returns the connection's end, if that is its timeout.
    pub(crate) fn on_timer(&mut self, cx: &mut Context<'_>) -> Option<End> {
        if self.closes_at(cx).is_some_and(|at| at <= cx.now) {
            self.close();
            // It ends in either case.
            let _ = self.flush(cx);
            return Some(End::TimedOut);
        }
        self.stuck = false;
        if self.quic.timeout_instant().is_some_and(|at| at <= cx.now) {
            self.quic.on_timeout();
        }
        if self.ping_at.is_some_and(|at| at <= cx.now) {
            // A client keeps its connection open while it waits (RFC 9114 §5.1). Without a path, none is left to keep.
            let _ = self.quic.send_ack_eliciting();
            self.ping_at = Some(cx.now + self.ping_after);
        }
        None
    }

    /// Closes the connection without an error.
    fn close(&mut self) {
        // It may be closed already.
        let _ = self.quic.close(true, NO_ERROR, b"");
    }

    /// Ends the connection: its open requests count as failed if `failed`, and else not at all. Returns how many failed.
    pub(crate) fn leave(mut self, failed: bool, cx: &mut Context<'_>) -> u64 {
        self.close();
        // The server's idle timeout does the rest if this is lost.
        let _ = self.flush(cx);
        cx.open_requests -= self.open.len() as u64;
        cx.handshaking -= u64::from(!self.established);
        let counted = self.waiting().filter(|start| cx.counts_request(*start));
        let abandoned: Vec<_> = counted.filter(|_| failed).collect();
        cx.tally.abandon(abandoned.len() as u64);
        if let Some(log) = &mut cx.log {
            for start in &abandoned {
                log.write(*start, None, cx.now);
            }
        }
        self.count(cx);
        abandoned.len() as u64
    }

    /// Adds the connection's own figures to the tally.
    fn count(&self, cx: &mut Context<'_>) {
        if !self.established {
            return;
        }
        let from = cx.counted_from;
        let from = from.map_or(self.begin, |from| from.max(self.begin));
        let time = cx.now.saturating_duration_since(from);
        let tally = &mut cx.tally;
        if !time.is_zero() {
            let thousandths = u128::from(self.completed) * 1_000_000_000_000 / time.as_nanos();
            tally
                .rate
                .add(u64::try_from(thousandths).unwrap_or(u64::MAX));
        }
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

    /// Receives the datagrams of one system call.
    ///
    /// # Errors
    /// The server's port is closed.
    pub(crate) fn receive(&mut self, cx: &mut Context<'_>) -> Result<(), End> {
        let counts = cx.counts();
        let before = self.quic.received_stream_bytes();
        let mut any = false;
        let (quic, tally, heard) = (&mut self.quic, &mut cx.tally, &mut self.heard);
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
        self.stuck = false;
        // The response to a PING is not what -N waits for.
        let is_useful = self.quic.received_stream_bytes() > before || !self.uploads.is_empty();
        if is_useful || any && !self.established {
            self.heard_at = cx.now;
        }
        if any && self.established {
            self.ping_at = Some(cx.now + self.ping_after);
        }
        match result {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(end::of_socket(from, &error, self.heard)),
        }
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
