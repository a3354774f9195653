//! Tunnels of connections that end. Time is the test's own.

use quiche::h3::{Event, Header};
use sluicegate_base::keys::ExchangeKey;

use super::super::super::counters::ExpiryReason;
use super::super::super::expiry::GRACE;
use super::draining::step;
use super::*;
use crate::testing::{Bench, Client, Reply, settings};

/// Age of a connection at which it ends.
const LIFETIME: Duration = Duration::from_secs(5);
/// Time that requests of an old connection get.
const DRAIN: Duration = Duration::from_secs(10);
/// Time that requests of a removed listener get.
const LIMIT: Duration = Duration::from_secs(20);
const SECOND: Duration = Duration::from_secs(1);

/// A client with an open request for a WebSocket, and its server.
struct Fixture {
    bench: Bench,
    client: Client,
    h3: quiche::h3::Connection,
    stream: u64,
    request: ExchangeKey,
    /// Bytes that the client has received through the tunnel.
    received: Vec<u8>,
    ended: bool,
}

impl Fixture {
    /// Has the request for a tunnel get this status.
    fn new(status: u16) -> Fixture {
        let mut bench = Bench::new(settings(|settings| {
            settings.limits.connection_lifetime = LIFETIME;
            settings.limits.connection_drain_timeout = DRAIN;
            settings.limits.client_timeout = Duration::ZERO;
        }));
        let mut client = bench.connect("192.0.2.1:5000");
        let plain = quiche::h3::Config::new().unwrap();
        let mut h3 = quiche::h3::Connection::with_transport(&mut client.quic, &plain).unwrap();
        let head = [
            (":method", "CONNECT"),
            (":protocol", "websocket"),
            (":scheme", "https"),
            (":authority", "localhost"),
            (":path", "/app/x"),
        ];
        let head = head.map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes()));
        let stream = h3.send_request(&mut client.quic, &head, false).unwrap();
        client.speak(&mut bench.endpoint, bench.now);
        bench.said();
        let request = bench.endpoint.shared_mut().requests.pop_front().expect("a request").key;
        let (received, ended) = (Vec::new(), false);
        let mut fixture = Fixture { bench, client, h3, stream, request, received, ended };
        fixture.give(Reply::Head(status));
        fixture
    }

    /// Sends a part of the response.
    fn give(&mut self, reply: Reply) {
        self.bench.endpoint.shared_mut().replies.push_back((self.request, reply));
        self.bench.endpoint.on_messages(1000, self.bench.now);
    }

    /// Lets client and server talk for a while; a PING for each second keeps the connection alive.
    fn talk(&mut self, time: Duration) {
        let end = self.bench.now + time;
        let mut ping = self.bench.now;
        while self.bench.now < end && self.client.quic.peer_error().is_none() {
            if self.bench.now >= ping {
                self.client.quic.send_ack_eliciting().unwrap();
                ping += SECOND;
            }
            step(&mut self.bench, &mut self.client);
            self.read();
        }
    }

    fn read(&mut self) {
        let mut buffer = [0; 1000];
        while let Ok((stream, event)) = self.h3.poll(&mut self.client.quic) {
            match event {
                Event::Data => {
                    let quic = &mut self.client.quic;
                    while let Ok(count) = self.h3.recv_body(quic, stream, &mut buffer) {
                        self.received.extend_from_slice(&buffer[..count]);
                    }
                }
                Event::Finished => self.ended |= stream == self.stream,
                _ => {}
            }
        }
    }

    /// Ends the tunnel in both directions, with a last word of the server.
    fn end(&mut self) {
        let Fixture { h3, client, .. } = self;
        h3.send_body(&mut client.quic, self.stream, b"", true).unwrap();
        client.speak(&mut self.bench.endpoint, self.bench.now);
        self.bench.said();
        self.give(Reply::Data(b"bye".to_vec()));
        self.give(Reply::End);
    }

    /// Returns the time until the server closes the connection.
    fn until_closed(&mut self) -> Duration {
        let start = self.bench.now;
        self.talk(Duration::from_secs(100));
        assert!(self.client.quic.peer_error().is_some(), "never closed");
        self.bench.now - start
    }
}

#[test]
fn an_old_connection_lives_on_for_its_tunnel_and_then_ends() {
    let mut one = Fixture::new(200);
    one.talk(LIFETIME + GRACE + 3 * DRAIN);
    assert_eq!(one.bench.endpoint.counters.expired[ExpiryReason::Lifetime], 1);
    assert_eq!(one.client.quic.peer_error(), None);
    one.give(Reply::Data(b"still there ".to_vec()));
    one.talk(SECOND);
    assert_eq!(one.received, b"still there ");
    one.end();
    // The datagram with the last bytes is lost, and they are sent again.
    one.bench.said();
    let waited = one.until_closed();
    assert_eq!((&*one.received, one.ended), (&b"still there bye"[..], true));
    assert!(waited < Duration::from_secs(5), "{waited:?}");
}

#[test]
fn a_client_that_acknowledges_no_end_of_a_tunnel_keeps_no_old_connection() {
    let mut one = Fixture::new(200);
    one.talk(LIFETIME + GRACE + 2 * DRAIN);
    one.end();
    let mut waited = Duration::ZERO;
    while !one.bench.endpoint.is_empty() {
        assert!(waited < Duration::from_secs(20), "never closed");
        // It sends, and receives nothing.
        let _ = one.client.quic.send_ack_eliciting();
        one.client.speak(&mut one.bench.endpoint, one.bench.now);
        one.bench.pass(SECOND);
        waited += SECOND;
    }
}

#[test]
fn a_client_that_takes_no_end_of_a_tunnel_keeps_no_old_connection() {
    let mut one = Fixture::new(200);
    one.talk(LIFETIME + GRACE + 2 * DRAIN);
    // More than the client's window; it reads nothing any more.
    one.give(Reply::Data(vec![0; 200_000]));
    one.end();
    let start = one.bench.now;
    while !one.bench.endpoint.is_empty() {
        assert!(one.bench.now - start < 20 * SECOND, "never closed");
        // A client that has got CONNECTION_CLOSE sends no more.
        let _ = one.client.quic.send_ack_eliciting();
        step(&mut one.bench, &mut one.client);
    }
    assert!(one.bench.now - start > SECOND, "its last bytes get time");
}

#[test]
fn a_refused_tunnel_is_a_request_like_others() {
    let mut one = Fixture::new(404);
    let waited = one.until_closed();
    assert!(waited >= LIFETIME * 9 / 10 + GRACE + DRAIN, "{waited:?}");
    assert!(waited < LIFETIME + GRACE + DRAIN + SECOND, "{waited:?}");
}

#[test]
fn tunnels_of_a_removed_listener_end_with_its_time() {
    // One that serves, and one that lives on for its tunnel.
    for age in [SECOND, LIFETIME + GRACE + 2 * DRAIN] {
        let mut one = Fixture::new(200);
        one.talk(age);
        let before = std::mem::take(&mut one.bench.endpoint.settings.listeners);
        one.bench.endpoint.retire_listeners(before, LIMIT);
        let waited = one.until_closed();
        assert!(waited >= LIMIT, "{waited:?} after {age:?}");
        assert!(waited < LIMIT + GRACE + 2 * SECOND, "{waited:?} after {age:?}");
    }
}

#[test]
fn a_tunnel_ends_with_the_shutdown_of_the_server() {
    let mut one = Fixture::new(200);
    one.talk(LIFETIME + GRACE + 2 * DRAIN);
    one.bench.endpoint.drain(one.bench.now);
    one.talk(DRAIN);
    assert_eq!(one.client.quic.peer_error(), None);
    one.bench.endpoint.close_all(one.bench.now);
    assert!(one.until_closed() < SECOND);
}
