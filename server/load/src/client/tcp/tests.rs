//! A client against a server in the same thread, which sends the bytes that a test gives it: over TCP of this host, without TLS.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

use crate::client::pair::{Pair, Peer};
use crate::context::Line;
use crate::end::End;
use crate::plan::Plan;

/// Beginning of a connection of HTTP/2 by a client (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Types of frames.
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
/// Flags of a frame that ends the header block and the stream.
const WHOLE: u8 = 0x5;
/// Header block of `:status: 200` (RFC 7541, appendix A).
const OK: &[u8] = &[0x88];

/// A server of one connection.
struct Server {
    listener: TcpListener,
    stream: Option<TcpStream>,
    /// Everything that the client has sent.
    received: Vec<u8>,
}

impl Server {
    fn new() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Server { listener, stream: None, received: Vec::new() }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.as_mut().unwrap().write_all(bytes).unwrap();
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u8, payload: &[u8]) {
        let length = u8::try_from(payload.len()).unwrap();
        let header = [0, 0, length, kind, flags, 0, 0, 0, stream];
        self.send(&[&header, payload].concat());
    }

    /// Returns the streams of the requests that have arrived over HTTP/2.
    fn streams(&self) -> Vec<u8> {
        let mut bytes = self.received.strip_prefix(PREFACE).unwrap_or_default();
        let mut streams = Vec::new();
        while let [high, middle, low, kind, _, _, _, _, stream, ..] = *bytes {
            let length = u32::from_be_bytes([0, high, middle, low]) as usize;
            if kind == HEADERS {
                streams.push(stream);
            }
            bytes = bytes.get(9 + length..).unwrap_or_default();
        }
        streams
    }

    /// Returns how many requests have arrived over HTTP/1.1.
    fn requests(&self) -> usize {
        let ends = self.received.windows(4).filter(|end| end == b"\r\n\r\n");
        ends.count()
    }
}

impl Peer for Server {
    const SCHEME: &str = "http";

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    #[expect(clippy::disallowed_methods, reason = "any time will do")]
    fn clock() -> Instant {
        Instant::now()
    }

    fn turn(&mut self, _: Instant) {
        if self.stream.is_none()
            && let Ok((stream, _)) = self.listener.accept()
        {
            stream.set_nonblocking(true).unwrap();
            self.stream = Some(stream);
        }
        if let Some(stream) = &mut self.stream {
            match stream.read_to_end(&mut self.received) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                result => drop(result),
            }
        }
    }
}

/// Returns the two sides when the server has a connection. The client has `left` requests to send.
fn connect(server: Server, plan: &Plan, left: u64) -> Pair<'_, Server> {
    let mut pair = Pair::open(server, plan, left);
    pair.until(|pair| pair.server.stream.is_some());
    pair
}

/// Returns a client of HTTP/2 with four open requests, of eight.
fn with_streams(server: Server, plan: &Plan) -> Pair<'_, Server> {
    let mut pair = connect(server, plan, 8);
    pair.server.frame(SETTINGS, 0, 0, b"");
    pair.until(|pair| pair.server.streams() == [1, 3, 5, 7]);
    pair
}

#[test]
fn responses_of_http1_are_counted_and_the_next_request_follows() {
    let server = Server::new();
    let plan = server.plan("-n2 -m8");
    let mut pair = connect(server, &plan, 2);
    pair.until(|pair| pair.server.requests() == 1);
    let response = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
    pair.server.send(response);
    pair.until(|pair| pair.server.requests() == 2);
    pair.server.send(response);
    assert_eq!(pair.until_end(), End::Done);
    let tally = &pair.cx.tally;
    assert_eq!((tally.succeeded, tally.status[2]), (2, 2));
    assert_eq!(tally.bytes_total, 2 * response.len() as u64);
    let fields = 2 * "content-length5".len() as u64;
    assert_eq!((tally.bytes_head, tally.bytes_head_plain), (fields, fields));
    assert_eq!((tally.bytes_body, tally.connections), (10, 1));
    let said: Vec<_> = pair.lines.try_iter().collect();
    let protocol = Line::Report("Application protocol: http/1.1".into());
    assert!(said.contains(&protocol), "{said:?}");
}

#[test]
fn a_request_on_a_connection_that_closes_is_left_to_another_one() {
    let server = Server::new();
    let plan = server.plan("-n3");
    let mut pair = connect(server, &plan, 3);
    pair.until(|pair| pair.server.requests() == 1);
    pair.server.send(b"HTTP/1.1 204 No Content\r\n\r\n");
    pair.until(|pair| pair.server.requests() == 2);
    let start = pair.client.waiting().next();
    pair.server.stream = None;
    pair.leaves_requests((1, 0), (1, 1));
    // Its latency goes on.
    assert_eq!(pair.client.waiting().next(), start);
}

#[test]
fn what_a_server_may_have_processed_is_sent_once() {
    for (words, begun) in [("-d /dev/null", ""), ("", "HTTP/1.1 200 OK\r\n")] {
        let server = Server::new();
        let plan = server.plan(&format!("-n3 {words}"));
        let mut pair = connect(server, &plan, 3);
        pair.until(|pair| pair.server.requests() == 1);
        pair.server.send(b"HTTP/1.1 204 No Content\r\n\r\n");
        pair.until(|pair| pair.server.requests() == 2);
        pair.server.send(begun.as_bytes());
        pair.server.stream = None;
        pair.failed_with("closed the connection");
        assert_eq!(pair.client.waiting().count(), 1);
        assert!(pair.client.work().again.is_empty());
    }
}

#[test]
fn a_connection_that_the_server_ends_after_a_response_is_replaced() {
    let server = Server::new();
    let plan = server.plan("-n3");
    let mut pair = connect(server, &plan, 3);
    pair.until(|pair| pair.server.requests() == 1);
    let response = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhello";
    pair.server.send(response);
    pair.server.stream = None;
    pair.leaves_requests((1, 0), (2, 0));
    assert_eq!(pair.cx.tally.bytes_body, 5);
}

#[test]
fn a_server_without_a_response_has_failed() {
    for words in ["", "-p h2c"] {
        let server = Server::new();
        let plan = server.plan(words);
        let mut pair = connect(server, &plan, 1);
        pair.until(|pair| !pair.server.received.is_empty());
        pair.server.stream = None;
        pair.failed_with("closed the connection before a response was complete");
        assert_eq!(pair.client.waiting().count(), 1);
    }
}

#[test]
fn what_is_no_http_breaks_the_protocol() {
    for words in ["", "-p h2c"] {
        let server = Server::new();
        let plan = server.plan(words);
        let mut pair = connect(server, &plan, 1);
        pair.until(|pair| !pair.server.received.is_empty());
        pair.server.send(b"220 mail.example ESMTP\r\n");
        pair.failed_with("broke the protocol");
    }
}

#[test]
fn a_server_without_h2c_is_named_with_the_remedy() {
    let status = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
    for (response, part) in [
        (&status[..], "speaks HTTP/1.1 but no h2c; use --h1"),
        (b"<!doctype html>", "; if it speaks HTTP/1.1 alone, use --h1"),
        (b"", "complete; if it speaks HTTP/1.1 alone, use --h1"),
    ] {
        let server = Server::new();
        let plan = server.plan("-p h2c");
        let mut pair = connect(server, &plan, 1);
        pair.until(|pair| !pair.server.received.is_empty());
        pair.server.send(response);
        if response.is_empty() {
            pair.server.stream = None;
        }
        pair.failed_with(part);
    }
}

#[test]
fn responses_of_http2_are_counted_as_they_were_received() {
    let server = Server::new();
    let plan = server.plan("-n8 -m4 -p h2c");
    let mut pair = with_streams(server, &plan);
    for stream in [5, 1, 7, 3] {
        pair.server.frame(HEADERS, WHOLE, stream, OK);
    }
    pair.until(|pair| pair.server.streams().len() == 8);
    for stream in [9, 11, 13, 15] {
        pair.server.frame(HEADERS, WHOLE, stream, OK);
    }
    assert_eq!(pair.until_end(), End::Done);
    let tally = &pair.cx.tally;
    assert_eq!((tally.succeeded, tally.completed), (8, 8));
    let plain = 8 * ":status200".len() as u64;
    assert_eq!((tally.bytes_head, tally.bytes_head_plain), (8, plain));
    assert_eq!(tally.bytes_total, 9 + 8 * 10);
}

#[test]
fn a_server_limits_the_open_streams() {
    let server = Server::new();
    let plan = server.plan("-n12 -m4 -p h2c");
    let mut pair = connect(server, &plan, 12);
    pair.until(|pair| pair.server.streams() == [1, 3, 5, 7]);
    // SETTINGS_MAX_CONCURRENT_STREAMS.
    pair.server.frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 2]);
    let mut answered = 0;
    while pair.end.is_none() {
        pair.turn();
        let open = pair.server.streams().split_off(answered);
        // Those that left before the limit arrived are the first four.
        assert!(open.len() <= if answered == 0 { 4 } else { 2 }, "{open:?}");
        answered += open.len();
        for stream in open {
            pair.server.frame(HEADERS, WHOLE, stream, OK);
        }
    }
    assert_eq!(pair.end, Some(End::Done));
    assert_eq!(pair.cx.tally.succeeded, 12);
}

#[test]
fn streams_beyond_that_of_goaway_are_left_to_another_connection() {
    let server = Server::new();
    let plan = server.plan("-n8 -m4 -p h2c");
    let mut pair = with_streams(server, &plan);
    let starts: Vec<_> = pair.client.waiting().collect();
    pair.server.frame(GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0]);
    pair.until(|pair| pair.client.exchanges.going_away);
    assert!(pair.client.exchanges.open.keys().eq(&[1, 3]));
    for stream in [1, 3] {
        pair.server.frame(HEADERS, WHOLE, stream, OK);
    }
    pair.leaves_requests((2, 0), (4, 2));
    // Their latencies go on.
    assert_eq!(pair.client.waiting().collect::<Vec<_>>(), starts[2..]);
    assert_eq!((pair.cx.tally.started, pair.cx.open_requests), (4, 2));
}

/// REFUSED_STREAM says that the server did not process a request, CANCEL does not.
#[test]
fn refused_streams_are_left_to_another_connection() {
    let server = Server::new();
    let plan = server.plan("-n8 -m4 -p h2c");
    let mut pair = with_streams(server, &plan);
    pair.server.frame(HEADERS, WHOLE, 1, OK);
    pair.until(|pair| pair.server.streams().len() == 5);
    pair.server.frame(RST_STREAM, 0, 3, &[0, 0, 0, 7]);
    pair.until(|pair| pair.client.exchanges.going_away);
    pair.server.frame(RST_STREAM, 0, 5, &[0, 0, 0, 8]);
    for stream in [7, 9] {
        pair.server.frame(HEADERS, WHOLE, stream, OK);
    }
    pair.leaves_requests((3, 1), (3, 1));
}

#[test]
fn a_server_that_refuses_everything_has_failed() {
    let server = Server::new();
    let plan = server.plan("-n8 -m4 -p h2c");
    let mut pair = with_streams(server, &plan);
    for stream in [1, 3, 5, 7] {
        pair.server.frame(RST_STREAM, 0, stream, &[0, 0, 0, 7]);
    }
    pair.failed_with("takes no requests");
}

#[test]
fn a_connection_of_http2_that_breaks_fails_its_requests() {
    let server = Server::new();
    let plan = server.plan("-n8 -m4 -p h2c");
    let mut pair = with_streams(server, &plan);
    pair.server.frame(HEADERS, WHOLE, 1, OK);
    pair.until(|pair| pair.server.streams().len() == 5);
    pair.server.stream = None;
    pair.failed_with("closed the connection");
    assert_eq!(pair.client.waiting().count(), 4);
    assert!(pair.client.work().again.is_empty());
}
