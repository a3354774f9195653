//! A connection: sends requests and reads responses.

mod ending;
#[cfg(test)]
mod tests;
mod traffic;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use quiche::h3;

use crate::context::{Context, Line};
use crate::end::{self, End};
use crate::request::{Request, Work};
use crate::schedule::Schedule;
use crate::socket::Socket;
use crate::{tls, transport};

/// Code that closes a connection without an error, H3_NO_ERROR (RFC 9114 §8.1, as all of these).
const NO_ERROR: u64 = 0x100;
/// H3_INTERNAL_ERROR.
const INTERNAL_ERROR: u64 = 0x102;
/// H3_REQUEST_REJECTED.
const REJECTED: u64 = 0x10b;
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

/// Ends of a connection to open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way<'a> {
    /// Index of the server's address in the plan.
    pub(crate) address: usize,
    /// Own address; the system chooses it if there is none.
    pub(crate) local: Option<IpAddr>,
    /// File of the trace.
    pub(crate) trace: Option<&'a Path>,
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
    pub(crate) work: Work,
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
    /// Opens a socket to the server and starts a handshake.
    ///
    /// # Errors
    /// There is no route, no descriptor left, or no way to write the trace.
    pub(crate) fn open(
        config: &mut quiche::Config,
        Way {
            address,
            local,
            trace,
        }: Way<'_>,
        (work, pace): (&Work, Pace),
        cx: &mut Context<'_>,
    ) -> anyhow::Result<Client> {
        let socket = Socket::connect(cx.plan.addresses[address], local)?;
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
            work: work.clone(),
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

    /// Sends the next request, whose latency counts from `start`. Returns whether there was room for it.
    pub(crate) fn submit(&mut self, start: Instant, cx: &mut Context<'_>) -> bool {
        let sent = self.send_request(Request::new(start, self.next_head), cx);
        if sent {
            self.next_head = (self.next_head + 1) % cx.plan.heads.len();
            cx.count_started(start);
        }
        sent
    }

    /// Sends a request. Returns whether there was room for it.
    pub(crate) fn send_request(&mut self, request: Request, cx: &Context<'_>) -> bool {
        let Some(h3) = self.h3.as_mut() else {
            return false;
        };
        let head = &cx.requests[request.head];
        let ends = cx.plan.body.is_none();
        let Ok(stream) = h3.send_encoded_request(&mut self.quic, head, ends) else {
            // No room, or the connection is closing, which service notices.
            self.stuck = true;
            return false;
        };
        self.open.insert(stream, request);
        if !ends {
            self.uploads.push_back(stream);
        }
        true
    }

    /// Returns the times from which the latencies of its open requests count, and of those that it has to send again.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Instant> {
        let requests = self.open.values().chain(&self.work.again);
        requests.map(|request| request.start)
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

    fn begin_http(&mut self, cx: &mut Context<'_>) {
        let peer = self.socket.peer;
        self.established = true;
        self.ping_after = transport::ping_after(&self.quic);
        self.ping_at = Some(cx.now + self.ping_after);
        match h3::Connection::with_transport(&mut self.quic, &cx.h3) {
            Ok(h3) => self.h3.insert(h3).keep_sections(),
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
            tls::lines(self.quic.as_mut())
                .into_iter()
                .for_each(|line| cx.say(Line::Report(line)));
            cx.say(Line::Report("Application protocol: h3".into()));
        }
        cx.note(|| format!("connected to {peer}"));
    }

    /// Sends requests as far as its pace allows.
    fn fill(&mut self, cx: &mut Context<'_>) {
        while !self.work.is_empty() && self.has_room(cx) {
            match &mut self.pace {
                Pace::Closed => {}
                Pace::Scheduled(schedule) if schedule.due(cx.now).is_some() => {}
                _ => return,
            }
            let sent = match self.work.again.front().copied() {
                Some(request) => self.send_request(request, cx),
                None => self.submit(cx.now, cx),
            };
            if !sent {
                return;
            }
            if let Pace::Scheduled(schedule) = &mut self.pace {
                schedule.advance();
            }
            if self.work.again.pop_front().is_none() {
                self.work.new -= 1;
            }
            if self.work.is_empty() {
                self.last_request = Some(cx.now);
            }
        }
    }

    /// Returns whether all its requests have ended. One that shares a schedule never knows.
    fn is_done(&self) -> bool {
        self.work.is_empty() && self.open.is_empty() && !matches!(self.pace, Pace::Shared)
    }

    /// Returns the time at which [`Client::on_timer`] has to be called.
    pub(crate) fn deadline(&self, cx: &Context<'_>) -> Option<Instant> {
        let due = match &self.pace {
            Pace::Scheduled(schedule) if !self.work.is_empty() && self.has_room(cx) => {
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
