//! Sessions against quiche's own client, over a pair of connections in memory.

mod cached;
mod endpoint;
mod fixture;
mod identified;
mod kept;
mod lent;
mod logged;
mod policy;
mod relay;
mod sending;
mod sharing;
mod stalled;
mod transport;
mod tunnels;
mod uploads;
mod waits;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_base::address::ClientPath;
use sluicegate_base::clock;
use sluicegate_base::keys::ConnectionKey;
use sluicegate_http::exchange::ring::OriginRing;
use sluicegate_http::peer::PeerConnection;
use sluicegate_http::route::Site;
use sluicegate_quic::application::Application as _;

use self::transport::{carry, connected};
use crate::h3::{Http3Session, SessionContext};
use quiche::h3::{Event, Header, NameValue};
use sluicegate_config::{Config, Limits};

const SEND_BUFFER: usize = 16 << 10;

const PAGE: &str = "<p>hello</p>";

/// Frames that the client received on one stream.
#[derive(Debug, Default)]
struct Seen {
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
    finished: bool,
    reset: Option<u64>,
}

impl Seen {
    fn status(&self) -> &str {
        self.headers.get(":status").map_or("", String::as_str)
    }
}

struct Pair {
    client: quiche::Connection,
    server: quiche::Connection,
    h3: quiche::h3::Connection,
    session: Http3Session,
    context: SessionContext,
    streams: BTreeMap<u64, Seen>,
    goaway: Option<u64>,
    /// Time that the test lets pass beyond the clock's.
    passed: Duration,
    /// Response that the client does not read.
    unread: Option<u64>,
}

fn limits() -> Limits {
    Limits {
        max_request_body: 1000,
        header_bytes: 2048,
        connection_send_buffer: SEND_BUFFER as u64,
        max_concurrent_streams: 4,
        ..Config::embedded().limits
    }
}

fn site() -> Arc<Site> {
    let text = format!(
        "[[route]]\npath = \"/page\"\nfixed = {{ content_type = \"text/html\", body = {PAGE:?} }}\n\
         [[route]]\npath = \"/bare\"\nfixed = {{}}\nresponse_headers = {{ remove = \"Server\" }}\n\
         [[route]]\npath = \"/bytes/\"\ngenerate = {{ max_size = \"1MiB\" }}\n\
         [[route]]\npath = \"/app/\"\nmax_request_body = 60000\nproxy = {{ upstreams = \"127.0.0.1:1\" }}\n\
         [route.request_headers]\nset = {{ \"x-set\" = \"new\" }}\nremove = [\"x-gone\"]\n\
         [route.response_headers]\nadd = {{ \"x-added\" = \"1\" }}\n"
    );
    Site::of_routes(&text, &limits())
}

/// Returns the path of a client that has proved its address.
fn client_path(server: &quiche::Connection) -> ClientPath {
    let path = server.path_stats().find(|path| path.active).unwrap();
    ClientPath { client: path.peer_addr.into(), local: path.local_addr }
}

impl Pair {
    fn new() -> Pair {
        Pair::of(connected())
    }

    fn of((mut client, mut server): (quiche::Connection, quiche::Connection)) -> Pair {
        let config = crate::h3::config(&limits()).unwrap();
        let key = ConnectionKey { slot: 0, generation: 1 };
        let path = client_path(&server);
        let session = Http3Session::new(
            &mut server,
            &config,
            key,
            PeerConnection::http3("l".into(), Box::default(), "cubic"),
            path,
        )
        .unwrap();
        let plain = quiche::h3::Config::new().unwrap();
        let h3 = quiche::h3::Connection::with_transport(&mut client, &plain).unwrap();
        Pair {
            client,
            server,
            h3,
            session,
            context: SessionContext::new(site(), config, clock::now()),
            streams: BTreeMap::new(),
            goaway: None,
            passed: Duration::ZERO,
            unread: None,
        }
    }

    /// Runs the session once, on the messages of handlers too.
    fn turn(&mut self) {
        self.context.now = clock::now() + self.passed;
        while let Some((key, message)) =
            self.context.origin_ring.as_mut().and_then(OriginRing::take)
        {
            let (session, server) = (&mut self.session, &mut self.server);
            session.on_message(server, key.stream, message, &mut self.context);
        }
        self.session.turn(&mut self.server, &mut self.context);
        if let Some(origin_ring) = &mut self.context.origin_ring {
            origin_ring.flush();
        }
    }

    /// Stops a response (H3_REQUEST_CANCELLED).
    fn stop(&mut self, stream: u64) {
        let stop = quiche::Shutdown::Read;
        self.client.stream_shutdown(stream, stop, 0x10c).unwrap();
    }

    /// Carries the client's packets to the session, and none back: the handshake stays unfinished.
    fn early_step(&mut self) {
        carry(&mut self.client, &mut self.server);
        self.turn();
    }

    fn step(&mut self) -> bool {
        let sent = carry(&mut self.client, &mut self.server);
        self.turn();
        let answered = carry(&mut self.server, &mut self.client);
        self.watch();
        sent || answered
    }

    /// Runs until neither side has anything to say.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            if !self.step() {
                return;
            }
        }
        panic!("no end: {:?}", self.context.counters);
    }

    fn watch(&mut self) {
        let mut buffer = [0; 4096];
        while let Ok((stream, event)) = self.h3.poll(&mut self.client) {
            if event == Event::GoAway {
                self.goaway = Some(stream);
                continue;
            }
            let seen = self.streams.entry(stream).or_default();
            match event {
                Event::Headers { list, .. } => seen.headers.extend(list.iter().map(|line| {
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                    (text(line.name()), text(line.value()))
                })),
                Event::Data if self.unread == Some(stream) => {}
                Event::Data => {
                    while let Ok(count) = self.h3.recv_body(&mut self.client, stream, &mut buffer) {
                        seen.body.extend_from_slice(&buffer[..count]);
                    }
                }
                Event::Finished => seen.finished = true,
                Event::Reset(code) => seen.reset = Some(code),
                _ => {}
            }
        }
    }

    fn request(&mut self, method: &str, path: &str, more: &[(&str, &str)], fin: bool) -> u64 {
        let target = [
            (":method", method),
            (":scheme", "https"),
            (":authority", "localhost"),
            (":path", path),
        ];
        self.send_head(&[&target, more].concat(), fin)
    }

    fn send_head(&mut self, lines: &[(&str, &str)], fin: bool) -> u64 {
        let lines = lines.iter();
        let list: Vec<Header> =
            lines.map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes())).collect();
        self.h3.send_request(&mut self.client, &list, fin).unwrap()
    }

    fn ask(&mut self, method: &str, path: &str, more: &[(&str, &str)]) -> &Seen {
        let stream = self.request(method, path, more, true);
        self.settle();
        &self.streams[&stream]
    }

    /// Sends a request with a body, with its end or without, and settles.
    fn upload(&mut self, more: &[(&str, &str)], body: &[u8], fin: bool) -> u64 {
        let stream = self.request("GET", "/page", more, false);
        let sent = self.h3.send_body(&mut self.client, stream, body, fin);
        assert_eq!(sent, Ok(body.len()));
        self.settle();
        stream
    }
}

fn counters(size: u64) -> Vec<u8> {
    let words = (0..size.div_ceil(8)).flat_map(u64::to_le_bytes);
    words.take(usize::try_from(size).unwrap()).collect()
}

#[test]
fn a_page_is_sent_whole_and_to_head_without_its_body() {
    let mut pair = Pair::new();
    let length = PAGE.len().to_string();
    for (method, body) in [("GET", PAGE), ("HEAD", "")] {
        let seen = pair.ask(method, "/page", &[]);
        assert_eq!((seen.status(), seen.finished), ("200", true), "{method}");
        assert_eq!(seen.body, body.as_bytes(), "{method}");
        assert_eq!(seen.headers["content-length"], length, "{method}");
        assert_eq!(seen.headers["content-type"], "text/html", "{method}");
        assert_eq!(seen.headers["server"], "sluicegate", "{method}");
        let date = httpdate::parse_http_date(&seen.headers["date"]);
        assert!(date.is_ok(), "{:?}", seen.headers);
    }
    assert_eq!(pair.context.counters.responses.of(200), 2);
    assert!(pair.session.is_idle());
}

#[test]
fn server_is_not_named_where_the_route_removes_it() {
    let mut pair = Pair::new();
    let seen = pair.ask("GET", "/bare", &[]);
    assert_eq!(seen.status(), "200");
    assert!(!seen.headers.contains_key("server"), "{:?}", seen.headers);
    assert!(seen.headers.contains_key("date"));
}

#[test]
fn requests_that_no_route_serves_get_their_status() {
    let mut pair = Pair::new();
    let large = "x".repeat(2048);
    for (method, path, more, status) in [
        ("GET", "/none", ("x", "y"), "404"),
        ("GET", "/bytes/2MiB", ("x", "y"), "404"),
        ("POST", "/bytes/1", ("x", "y"), "405"),
        ("GET", "/page", ("content-length", "0"), "200"),
        ("GET", "/page", ("cookie", large.as_str()), "431"),
    ] {
        let seen = pair.ask(method, path, &[more]);
        assert_eq!(seen.status(), status, "{method} {path}");
        assert!(seen.finished, "{method} {path}");
        assert_eq!(seen.headers.contains_key("allow"), status == "405");
    }
    assert!(pair.session.is_idle());
}

#[test]
fn generated_bytes_are_exact() {
    let mut pair = Pair::new();
    for size in [0, 1, 7, 100_000] {
        let seen = pair.ask("GET", &format!("/bytes/{size}"), &[]);
        assert!(seen.finished && seen.body == counters(size), "size {size}");
        assert_eq!(seen.headers["content-length"], size.to_string());
    }
    assert_eq!(pair.context.counters.bytes_out, 100_008);
    let sizes = [200_000, 300_001, 99_999];
    let streams = sizes.map(|size| pair.request("GET", &format!("/bytes/{size}"), &[], true));
    pair.settle();
    for (stream, size) in streams.iter().zip(sizes) {
        let seen = &pair.streams[stream];
        assert!(seen.finished && seen.body == counters(size), "size {size}");
    }
    assert!(pair.session.is_idle());
}

#[test]
fn malformed_messages_reset_their_stream_only() {
    let mut pair = Pair::new();
    for (method, path, more) in [
        ("GET", "page", ("x", "y")),
        ("G T", "/page", ("x", "y")),
        ("GET", "/page", ("x y", "z")),
        ("GET", "/page", ("connection", "close")),
        ("GET", "/page", ("x", "a\r\nb")),
        ("GET", "/page", ("content-length", "5")),
    ] {
        let seen = pair.ask(method, path, &[more]);
        assert_eq!((seen.reset, seen.status()), (Some(0x10e), ""), "{method} {path} {more:?}");
    }
    let short = pair.upload(&[("content-length", "5")], b"1234", true);
    let long = pair.upload(&[("content-length", "5")], b"123456", true);
    for stream in [short, long] {
        assert_eq!(pair.streams[&stream].reset, Some(0x10e));
    }
    assert_eq!((pair.context.counters.malformed, pair.context.counters.requests), (8, 8));
    assert_eq!(pair.ask("GET", "/page", &[]).status(), "200");
    assert!(pair.session.is_idle());
}

#[test]
fn draining_refuses_new_requests_and_finishes_the_others() {
    let mut pair = Pair::new();
    let accepted = pair.request("GET", "/bytes/500000", &[], true);
    pair.step();
    assert!(!pair.session.is_idle());
    pair.session.drain(&mut pair.server);
    // Sent before the client is notified.
    let late = pair.request("GET", "/page", &[], true);
    pair.settle();
    assert_eq!(pair.goaway, Some(accepted + 4));
    assert_eq!(pair.streams[&accepted].body, counters(500_000));
    assert_eq!(pair.streams[&late].reset, Some(0x10b));
    assert_eq!(pair.context.counters.gate.rejected, 1);
    assert!(pair.session.is_idle());
}

#[test]
fn cancelled_requests_beyond_the_limit_close_the_connection() {
    let mut pair = Pair::new();
    let mut cancelled = 0;
    while pair.server.local_error().is_none() && cancelled < 450 {
        let stream = pair.request("GET", "/bytes/500000", &[], true);
        pair.step();
        pair.stop(stream);
        pair.step();
        cancelled += 1;
    }
    assert_eq!(pair.server.local_error().map(|error| error.error_code), Some(0x107));
    assert!(
        pair.context.counters.cancelled > 100 && pair.context.counters.errors == 1,
        "{:?}",
        pair.context.counters
    );
    assert!(pair.session.is_idle());
}
