//! WebSockets of clients over TCP: how they are opened, and every way in which they end.

mod ending;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use boring::base64::encode_block;
use boring::sha::sha1;

use super::frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, NO_WINDOW, RST_STREAM, WINDOW_UPDATE, begin, frame,
    read_frame,
};
use super::raw::{Raw, status};
use super::{server, text};
use crate::admin::{ADMIN, address, metrics, until};
use crate::server::{Folder, PAGE, Server};

/// Longest wait for an upstream's connection.
const WAIT_LIMIT: Duration = Duration::from_secs(60);
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Request of the example in RFC 6455 §1.3, without the line that ends its head.
const REQUEST: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\
                       Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
const ACCEPT: &str = "sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";
/// Code of RST_STREAM with which a client cancels.
const CANCEL: [u8; 4] = [0, 0, 0, 8];

/// Starts an upstream that switches protocols; returns its connections once they have.
pub(crate) fn upstream() -> (SocketAddr, Receiver<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, switched) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") {
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            let head = text(&head);
            let mut lines = head.lines();
            let key = lines.find_map(|line| line.strip_prefix("sec-websocket-key: "));
            let accept = encode_block(&sha1(format!("{}{GUID}", key.unwrap()).as_bytes()));
            let response = format!(
                "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                 sec-websocket-accept: {accept}\r\n\r\n"
            );
            stream.write_all(response.as_bytes()).unwrap();
            if sender.send(stream).is_err() {
                return;
            }
        }
    });
    (address, switched)
}

pub(crate) fn route(upstream: SocketAddr) -> String {
    format!("[[route]]\npath = \"/chat\"\nproxy = {{ upstreams = \"{upstream}\" }}")
}

/// Returns the field section of an extended CONNECT for a WebSocket at the host `a`.
fn connect() -> Vec<u8> {
    let mut section = vec![0x87, 0x01, 1, b'a', 0x04, 5];
    section.extend_from_slice(b"/chat");
    for (name, value) in [(":method", "CONNECT"), (":protocol", "websocket")] {
        section.push(0);
        for part in [name, value] {
            section.push(u8::try_from(part.len()).unwrap());
            section.extend_from_slice(part.as_bytes());
        }
    }
    section
}

/// End of a tunnel, as its client sees it.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Whole,
    Broken,
}

/// A client with a WebSocket.
pub(crate) struct Client {
    raw: Raw,
    is_http2: bool,
}

impl Client {
    pub(crate) fn open(server: &Server, is_http2: bool) -> Client {
        if is_http2 {
            return Client::open_with(server, &[]);
        }
        let mut raw = Raw::open(server);
        raw.send(format!("{REQUEST}\r\n").as_bytes());
        raw.read_past(b"\r\n\r\n");
        Client { raw, is_http2 }
    }

    /// Opens a WebSocket over HTTP/2, with settings as SETTINGS has them.
    fn open_with(server: &Server, settings: &[u8]) -> Client {
        let raw = Raw::open_with(server.address(), b"\x02h2");
        let mut raw = begin(raw, settings);
        raw.send(&frame(HEADERS, END_HEADERS, 1, &connect()));
        let mut client = Client { raw, is_http2: true };
        let (kind, flags, head) = client.next().unwrap();
        // `:status: 200`, which does not end the stream.
        assert_eq!((kind, flags & END_STREAM, head[0]), (HEADERS, 0, 0x88));
        client
    }

    /// Reads the next frame of the stream, but for what is about its window.
    fn next(&mut self) -> Option<(u8, u8, Vec<u8>)> {
        let mut frames = std::iter::from_fn(|| read_frame(&mut self.raw));
        let frame = frames.find(|frame| frame.stream == 1 && frame.kind != WINDOW_UPDATE)?;
        Some((frame.kind, frame.flags, frame.payload))
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        if self.is_http2 {
            self.raw.send(&frame(DATA, 0, 1, bytes));
        } else {
            self.raw.send(bytes);
        }
    }

    pub(crate) fn read(&mut self, count: usize) -> Vec<u8> {
        if !self.is_http2 {
            let mut bytes = vec![0; count];
            self.raw.read_exact(&mut bytes).unwrap();
            return bytes;
        }
        let mut bytes = Vec::new();
        while bytes.len() < count {
            let (kind, _, data) = self.next().unwrap();
            assert_eq!(kind, DATA);
            bytes.extend(data);
        }
        bytes
    }

    /// Reads to the end of the tunnel.
    fn end(mut self) -> End {
        let is_whole = if self.is_http2 {
            let last = std::iter::from_fn(|| self.next())
                .find(|(kind, flags, _)| *kind == RST_STREAM || *flags & END_STREAM != 0);
            last.is_some_and(|(kind, ..)| kind == DATA)
        } else {
            self.raw.ends()
        };
        if is_whole { End::Whole } else { End::Broken }
    }
}

/// Returns whether an upstream's connection ends, whatever comes before.
fn ends(mut upstream: TcpStream) -> bool {
    let mut rest = Vec::new();
    upstream
        .read_to_end(&mut rest)
        .map_or_else(|error| error.kind() == std::io::ErrorKind::ConnectionReset, |_| true)
}

/// Has the system reset a connection when it is closed.
fn reset(stream: TcpStream) {
    let socket = socket2::Socket::from(stream);
    socket.set_linger(Some(Duration::ZERO)).unwrap();
}

#[test]
fn bytes_pass_both_ways_until_either_side_ends() {
    let folder = Folder::new();
    let (address, switched) = upstream();
    let server = server(&folder, &route(address));
    for is_http2 in [false, true] {
        let mut client = Client::open(&server, is_http2);
        let mut upstream = switched.recv_timeout(WAIT_LIMIT).unwrap();
        // Within the window of HTTP/2 with which a stream begins.
        for message in [&b"one"[..], &[7; 50_000]] {
            for part in message.chunks(10_000) {
                client.send(part);
            }
            let mut received = vec![0; message.len()];
            upstream.read_exact(&mut received).unwrap();
            assert_eq!(received, message);
        }
        upstream.write_all(b"two").unwrap();
        assert_eq!(client.read(3), b"two");
        // The upstream ends first.
        drop(upstream);
        assert_eq!(client.end(), End::Whole);
        // The client ends first, and the upstream still has something to say.
        let mut client = Client::open(&server, is_http2);
        let mut upstream = switched.recv_timeout(WAIT_LIMIT).unwrap();
        if is_http2 {
            client.raw.send(&frame(DATA, END_STREAM, 1, b"bye"));
        } else {
            client.send(b"bye");
            client.raw.finish();
        }
        let mut rest = Vec::new();
        upstream.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"bye");
        upstream.write_all(b"and you").unwrap();
        drop(upstream);
        assert_eq!(client.read(7), b"and you");
        assert_eq!(client.end(), End::Whole);
    }
}

#[test]
fn a_tunnel_whose_upstream_breaks_does_not_look_ended() {
    let folder = Folder::new();
    let (address, switched) = upstream();
    let server = server(&folder, &route(address));
    for is_http2 in [false, true] {
        let mut client = Client::open(&server, is_http2);
        let mut upstream = switched.recv_timeout(WAIT_LIMIT).unwrap();
        upstream.write_all(b"part").unwrap();
        assert_eq!(client.read(4), b"part");
        reset(upstream);
        assert_eq!(client.end(), End::Broken, "{is_http2}");
    }
}

#[test]
fn a_client_that_goes_away_ends_the_upstreams_connection() {
    let folder = Folder::new();
    let (upstream, switched) = upstream();
    let mut server = server(&folder, &format!("{ADMIN}\n{}", route(upstream)));
    let admin = address(&mut server);
    for is_http2 in [false, true] {
        let client = Client::open(&server, is_http2);
        let upstream = switched.recv_timeout(WAIT_LIMIT).unwrap();
        drop(client);
        assert!(ends(upstream));
    }
    // The stream alone, beside another one.
    let mut client = Client::open(&server, true);
    let upstream = switched.recv_timeout(WAIT_LIMIT).unwrap();
    client.raw.send(&frame(RST_STREAM, 0, 1, &CANCEL));
    assert!(ends(upstream));
    client.raw.send(&super::frames::get(3, "/"));
    let mut frames = std::iter::from_fn(|| read_frame(&mut client.raw));
    assert!(frames.any(|frame| frame.stream == 3 && frame.payload == PAGE.as_bytes()));
    until(admin, "sluicegate_tcp_exchanges", 0.0);
    let found = metrics(admin);
    assert_eq!(found["sluicegate_tcp_reserved_bytes"], 0.0);
    assert_eq!(found["sluicegate_http_responses_total{code=\"101\"}"], 1.0);
}

#[test]
fn bytes_behind_the_request_wait_until_the_upstream_has_switched() {
    let folder = Folder::new();
    let (address, switched) = upstream();
    let server = server(&folder, &route(address));
    let mut raw = Raw::open(&server);
    raw.send(format!("{REQUEST}\r\nearly").as_bytes());
    let mut upstream = switched.recv_timeout(WAIT_LIMIT).unwrap();
    let mut early = [0; 5];
    upstream.read_exact(&mut early).unwrap();
    assert_eq!(&early, b"early");
    upstream.write_all(b"late").unwrap();
    drop(upstream);
    let response = text(&raw.rest());
    let (head, rest) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"));
    assert!(format!("{head}\r\n").contains(ACCEPT), "{head}");
    assert_eq!(rest, "late");
}

#[test]
fn a_handshake_that_breaks_the_rules_is_refused_and_reaches_no_upstream() {
    let folder = Folder::new();
    let (address, switched) = upstream();
    let server = server(&folder, &route(address));
    let refused = |request: &str| {
        let request = request.replace("keep-alive", "close");
        let response = Raw::open(&server).all(format!("{request}\r\n").as_bytes());
        (status(&response), text(&response))
    };
    for request in [
        REQUEST.replace("Sec-WebSocket-Key", "X-Key"),
        REQUEST.replace("Sec-WebSocket-Version", "X-Version"),
        REQUEST.replace("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZQ=="),
        format!("{REQUEST}Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"),
        format!("{REQUEST}Content-Length: 5\r\n"),
        format!("{REQUEST}Transfer-Encoding: chunked\r\n"),
    ] {
        assert_eq!(refused(&request).0, Some(400), "{request}");
    }
    let (status, response) = refused(&REQUEST.replace("13", "8"));
    assert_eq!(status, Some(426));
    for line in ["sec-websocket-version: 13\r\n", "upgrade: websocket\r\n"] {
        assert!(response.contains(line), "{response}");
    }
    // A route that opens none.
    assert_eq!(refused(&REQUEST.replace("/chat", "/")).0, Some(501));
    assert!(switched.try_recv().is_err());
}

#[test]
fn a_tunnel_that_a_client_does_not_read_stops_its_upstream_and_then_ends() {
    let folder = Folder::new();
    let (upstream, switched) = upstream();
    let tables = format!("{ADMIN}\n{}\n[limits]\nclient_timeout = \"1s\"", route(upstream));
    let mut server = server(&folder, &tables);
    let admin = address(&mut server);
    let closed = Client::open_with(&server, &NO_WINDOW);
    let slow = Client::open(&server, false);
    for _ in 0..2 {
        let mut upstream = switched.recv_timeout(WAIT_LIMIT).unwrap();
        // More than all buffers hold.
        let written = (0..4000).try_for_each(|_| upstream.write_all(&[7; 16_384]));
        assert!(written.is_err());
    }
    let stalled = "sluicegate_http_requests_stalled_total{waits_for=\"response\"}";
    until(admin, stalled, 2.0);
    drop((closed, slow));
}

#[test]
fn a_silent_tunnel_ends_after_its_timeout() {
    let folder = Folder::new();
    let (address, switched) = upstream();
    let route = route(address).replace(" }", ", tunnel_timeout = \"1s\" }");
    let server = server(&folder, &route);
    for is_http2 in [false, true] {
        let client = Client::open(&server, is_http2);
        let upstream = switched.recv_timeout(WAIT_LIMIT).unwrap();
        assert_eq!(client.end(), End::Broken);
        assert!(ends(upstream));
    }
}

#[test]
fn an_open_tunnel_goes_on_in_a_drain_and_ends_with_it() {
    let folder = Folder::new();
    let (address, switched) = upstream();
    let tables = format!("[server]\ndrain_timeout = \"2s\"\n{}", route(address));
    let mut server = server(&folder, &tables);
    let mut clients = [false, true].map(|is_http2| {
        let client = Client::open(&server, is_http2);
        (client, switched.recv_timeout(WAIT_LIMIT).unwrap())
    });
    server.process.terminate();
    server.process.line_with(&["draining"]);
    for (client, upstream) in &mut clients {
        upstream.write_all(b"still there").unwrap();
        assert_eq!(client.read(11), b"still there");
        client.send(b"so am I");
        upstream.read_exact(&mut [0; 7]).unwrap();
    }
    server.process.wait();
    for (client, upstream) in clients {
        assert_eq!(client.end(), End::Broken);
        assert!(ends(upstream));
    }
}
