//! A client against a server in the same thread: over UDP of this host, in a time that the test moves.

mod resumption;
mod script;

use std::cell::Cell;
use std::net::{SocketAddr, UdpSocket};

use quiche::{RecvInfo, h3};
use sluicegate_test_support::config;

use super::*;
use crate::client::pair::{Pair, Peer};
use crate::plan::Plan;

/// Time between two turns.
const STEP: Duration = Duration::from_micros(100);

thread_local! {
    /// Time of a test.
    #[expect(clippy::disallowed_methods, reason = "any time will do")]
    static TIME: Cell<Instant> = Cell::new(Instant::now());
}

/// A server of one connection.
struct Server {
    socket: UdpSocket,
    config: quiche::Config,
    quic: Option<quiche::Connection>,
    h3: Option<h3::Connection>,
    /// Streams of requests that it has read.
    requests: Vec<u64>,
    /// It neither receives nor sends any more.
    vanished: bool,
}

impl Server {
    /// Binds a port. The server's idle timeout is `idle`.
    fn new(idle: Duration) -> Server {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut config = config(10);
        config.set_max_idle_timeout(u64::try_from(idle.as_millis()).unwrap());
        Server { socket, config, quic: None, h3: None, requests: Vec::new(), vanished: false }
    }

    fn respond(&mut self, stream: u64) {
        let (h3, quic) = (self.h3.as_mut().unwrap(), self.quic.as_mut().unwrap());
        let head = [h3::Header::new(b":status", b"204")];
        h3.send_response(quic, stream, &head, true).unwrap();
    }

    fn reject(&mut self, stream: u64) {
        let quic = self.quic.as_mut().unwrap();
        let write = quiche::Shutdown::Write;
        quic.stream_shutdown(stream, write, REJECTED).unwrap();
    }

    fn goaway(&mut self, first: u64) {
        let (h3, quic) = (self.h3.as_mut().unwrap(), self.quic.as_mut().unwrap());
        h3.send_goaway(quic, first).unwrap();
    }
}

impl Peer for Server {
    const SCHEME: &str = "https";

    fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    fn clock() -> Instant {
        TIME.get()
    }

    fn advance() {
        TIME.set(TIME.get() + STEP);
    }

    /// Receives what has arrived, reads requests, and sends what may leave.
    fn turn(&mut self, now: Instant) {
        if self.vanished {
            return;
        }
        let mut datagram = [0; 65_536];
        let to = self.socket.local_addr().unwrap();
        while let Ok((len, from)) = self.socket.recv_from(&mut datagram) {
            let quic = self.quic.get_or_insert_with(|| {
                let id = quiche::ConnectionId::from_vec(vec![7; 16]);
                quiche::accept(&id, None, to, from, &mut self.config).unwrap()
            });
            // What it cannot read, the client sends again.
            let _ = quic.recv(&mut datagram[..len], RecvInfo { from, to });
        }
        let Some(quic) = self.quic.as_mut() else {
            return;
        };
        if quic.timeout_instant().is_some_and(|at| at <= now) {
            quic.on_timeout();
        }
        if self.h3.is_none() && (quic.is_established() || quic.is_in_early_data()) {
            let settings = h3::Config::new().unwrap();
            self.h3 = Some(h3::Connection::with_transport(quic, &settings).unwrap());
        }
        while let Some((stream, event)) = self.h3.as_mut().and_then(|h3| h3.poll(quic).ok()) {
            if matches!(event, h3::Event::Headers { .. }) {
                self.requests.push(stream);
            }
        }
        while let Ok((len, info)) = quic.send(&mut datagram) {
            self.socket.send_to(&datagram[..len], info.to).unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        quiche::clock::set(None);
    }
}

/// Returns the two sides after the handshake. The client has `left` requests to send.
fn connect(server: Server, plan: &Plan, left: u64) -> Pair<'_, Server> {
    let mut pair = Pair::open(server, plan, left);
    pair.turn();
    pair.until(|pair| pair.client.exchanges.established && pair.server.h3.is_some());
    pair
}

impl Pair<'_, Server> {
    /// Lets time pass, from one timer of the two sides to the next.
    fn pass(&mut self, time: Duration) {
        let end = self.cx.now + time;
        while self.cx.now < end && self.end.is_none() {
            let server = self.server.quic.as_ref().filter(|_| !self.server.vanished);
            let server = server.and_then(quiche::Connection::timeout_instant);
            let next = self.client.deadline(&self.cx).into_iter().chain(server);
            let next = next.min().map_or(end, |next| next.min(end));
            TIME.set(self.cx.now.max(next));
            self.turn();
        }
    }
}

const SERVER_IDLE: Duration = Duration::from_secs(10);

#[test]
fn pings_keep_a_silent_connection_from_both_idle_timeouts() {
    let server = Server::new(SERVER_IDLE);
    // The second request leaves 100 s after the first, which has no response.
    let plan = server.plan("-n2 -m2 --rps 0.01");
    let mut pair = connect(server, &plan, 2);
    pair.pass(Duration::from_secs(95));
    assert_eq!(pair.end, None);
    assert_eq!(pair.server.requests, [0]);
    pair.pass(Duration::from_secs(10));
    assert_eq!(pair.end, None);
    assert_eq!(pair.server.requests, [0, 4]);
}

#[test]
fn the_time_of_receiving_a_response_is_part_of_its_latency() {
    const RECEIVING: Duration = Duration::from_millis(5);
    let server = Server::new(SERVER_IDLE);
    let plan = server.plan("-n1");
    let mut pair = connect(server, &plan, 1);
    pair.until(|pair| pair.server.requests == [0]);
    pair.server.respond(0);
    let sent = pair.client.waiting().next().unwrap();
    pair.server.turn(pair.cx.now);
    let woken = pair.cx.now;
    TIME.set(woken + RECEIVING);
    pair.client.receive(&mut pair.cx).unwrap();
    pair.client.service(&mut pair.cx);
    assert_eq!(pair.cx.tally.succeeded, 1);
    let latency = u64::try_from((woken + RECEIVING - sent).as_nanos()).unwrap();
    assert_eq!(pair.cx.tally.request.bounds(), Some((latency, latency)));
}

#[test]
fn a_server_that_has_vanished_is_noticed_in_spite_of_pings() {
    let server = Server::new(SERVER_IDLE);
    let plan = server.plan("-n1");
    let mut pair = connect(server, &plan, 1);
    pair.server.vanished = true;
    pair.pass(Duration::from_secs(95));
    let Some(End::Failed(cause)) = &pair.end else {
        panic!("{:?}", pair.end);
    };
    assert!(cause.contains("fell silent"), "{cause}");
}

#[test]
fn responses_to_pings_are_no_activity() {
    let server = Server::new(SERVER_IDLE);
    let plan = server.plan("-n1 -N 20s");
    let mut pair = connect(server, &plan, 1);
    let begin = pair.cx.now;
    pair.pass(Duration::from_secs(95));
    assert_eq!(pair.end, Some(End::TimedOut));
    let lasted = (pair.cx.now - begin).as_secs();
    assert!((19..=21).contains(&lasted), "{lasted} s");
}

/// Returns a client with four open requests, of eight.
fn with_requests(server: Server, plan: &Plan) -> Pair<'_, Server> {
    let mut pair = connect(server, plan, 8);
    pair.until(|pair| pair.server.requests == [0, 4, 8, 12]);
    pair
}

#[test]
fn requests_beyond_the_id_of_goaway_are_left_to_another_connection() {
    let server = Server::new(SERVER_IDLE);
    let plan = server.plan("-n8 -m4");
    let mut pair = with_requests(server, &plan);
    let starts: Vec<_> = pair.client.waiting().collect();
    pair.server.goaway(8);
    pair.until(|pair| pair.client.exchanges.going_away);
    assert!(pair.client.exchanges.open.keys().eq(&[0, 4]));
    pair.server.respond(0);
    pair.server.respond(4);
    pair.leaves_requests((2, 0), (4, 2));
    // Their latencies go on.
    assert_eq!(pair.client.waiting().collect::<Vec<_>>(), starts[2..]);
    assert_eq!((pair.cx.tally.started, pair.cx.open_requests), (4, 2));
}

#[test]
fn rejected_requests_are_left_to_another_connection() {
    let server = Server::new(SERVER_IDLE);
    let plan = server.plan("-n8 -m4");
    let mut pair = with_requests(server, &plan);
    pair.server.reject(4);
    pair.until(|pair| pair.client.exchanges.going_away);
    for stream in [0, 8, 12] {
        pair.server.respond(stream);
    }
    pair.leaves_requests((3, 0), (4, 1));
}

#[test]
fn a_server_that_rejects_everything_has_failed() {
    let server = Server::new(SERVER_IDLE);
    let plan = server.plan("-n8 -m4");
    let mut pair = with_requests(server, &plan);
    for stream in [0, 4, 8, 12] {
        pair.server.reject(stream);
    }
    pair.failed_with("takes no requests");
    let Pair { client, cx, .. } = &mut pair;
    assert_eq!(client.waiting().count(), 4);
    let starts: Vec<_> = client.waiting().collect();
    assert_eq!(cx.abandon(&starts), 4);
    assert_eq!((cx.tally.errored, cx.open_requests), (4, 0));
}
