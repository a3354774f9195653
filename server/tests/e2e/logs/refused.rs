//! Requests that the libraries refuse before the server sees them: each has its line in the access log, and is counted.

use serde_json::Value;
use sluicegate_raw_client::http3::get as get_http3;

use crate::admin::{ADMIN, address, metrics};
use crate::raw::{Outcome, Raw as Http3};
use crate::server::{Folder, Server, Setup};
use crate::tcp::frames::{
    CONTINUATION, END_HEADERS, END_STREAM, HEADERS, frame, get, http2, ping, section,
};
use crate::tcp::raw::{Raw, status};

const TOO_LARGE: &str = "sluicegate_http_heads_refused_total{reason=\"too_large\"}";
const MALFORMED: &str = "sluicegate_http_heads_refused_total{reason=\"malformed\"}";
const STREAMS: &str = "sluicegate_http_heads_refused_total{reason=\"streams\"}";
const CONNECTION: &str = "sluicegate_http_heads_refused_total{reason=\"connection\"}";

/// A server with an access log.
struct Logged {
    server: Server,
    folder: Folder,
}

impl Logged {
    fn start() -> Logged {
        let folder = Folder::new();
        let setup = Setup::new("mio")
            .with(ADMIN)
            .replace("[[group]]", "[[group]]\ncores = [0]")
            .with("[access_log]\nfile = \"access.log\"\n[limits]\nmax_concurrent_streams = 4")
            .listener("main", "127.0.0.1:0", "cubic");
        let server = Server::start(&setup, &folder);
        Logged { server, folder }
    }

    /// Ends the server, and returns status, outcome, cause and protocol of each line; and figures of the metrics before that.
    fn lines<const N: usize>(mut self, figures: [&str; N]) -> (Vec<[Value; 4]>, [f64; N]) {
        let all = metrics(address(&mut self.server));
        let figures = figures.map(|figure| all[figure]);
        self.server.process.last_words();
        let text = std::fs::read_to_string(self.folder.path("access.log")).unwrap();
        let line = |line: &str| {
            let line: Value = serde_json::from_str(line).unwrap();
            ["status", "outcome", "cause", "protocol"].map(|key| line[key].clone())
        };
        (text.lines().map(line).collect(), figures)
    }
}

fn line(status: Option<u16>, outcome: &str, cause: Option<&str>, protocol: &str) -> [Value; 4] {
    [status.into(), outcome.into(), cause.into(), protocol.into()]
}

fn sorted(mut lines: Vec<[Value; 4]>) -> Vec<[Value; 4]> {
    lines.sort_by_cached_key(|line| format!("{line:?}"));
    lines
}

#[test]
fn heads_that_http1_refuses_have_their_lines() {
    let large = format!("GET / HTTP/1.1\r\nHost: a\r\nx: {}\r\n\r\n", "y".repeat(60_000));
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "x: y\r\n".repeat(1000));
    let good = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let (logged, mut expected) = (Logged::start(), Vec::new());
    for (request, status_sent, cause) in [
        (&*large, 431, "head_too_large"),
        (&many, 431, "head_too_large"),
        ("GET / HTTP/1.1\r\nHo st: a\r\n\r\n", 400, "head_malformed"),
        ("G<T / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "head_malformed"),
        ("GET / HTTP/9.1\r\nHost: a\r\n\r\n", 400, "head_malformed"),
        ("GET /\u{7f} HTTP/1.1\r\nHost: a\r\n\r\n", 400, "head_malformed"),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 400, "head_malformed"),
    ] {
        for before in ["", good] {
            let bytes = [before, request].concat();
            let responses = Raw::open(&logged.server).all(bytes.as_bytes());
            if before.is_empty() {
                assert_eq!(status(&responses), Some(status_sent), "{request:.40}");
            } else {
                expected.push(line(Some(200), "complete", None, "HTTP/1.1"));
            }
            expected.push(line(Some(status_sent), "complete", Some(cause), "HTTP/1.1"));
        }
    }
    let (lines, figures) = logged.lines([TOO_LARGE, MALFORMED]);
    // A refusal has its line when its connection has ended, which may be later than the next one's.
    assert_eq!(sorted(lines), sorted(expected));
    assert_eq!(figures, [4.0, 10.0]);
}

/// Head that h2 refuses: a word for it, its frames, the status of the response, cause and counter.
type RefusedHead = (&'static str, Vec<u8>, Option<u16>, &'static str, &'static str);

fn heads_for_http2() -> [RefusedHead; 6] {
    let capitals = [&section("/")[..], &[0x00, 1, b'X', 1, b'y']].concat();
    let connection = [&section("/")[..], &[0x00, 10], b"connection", &[1, b'x']].concat();
    let length = [&section("/")[..], &[0x00, 14], b"content-length", &[1, b'5']].concat();
    let field = [&[0x00, 1, b'x', 0x7f, 0xbd, 0x1d][..], &[b'y'; 3900]].concat();
    let large = [section("/"), field.repeat(20)].concat();
    let (first, rest) = large.split_at(16_000);
    let last = END_HEADERS | END_STREAM;
    let continued: Vec<u8> = rest
        .chunks(16_000)
        .map(|part| frame(CONTINUATION, 0, 1, part))
        .chain([frame(CONTINUATION, END_HEADERS, 1, &[])])
        .flatten()
        .collect();
    let large = [frame(HEADERS, END_STREAM, 1, first), continued].concat();
    [
        ("capitals", frame(HEADERS, last, 1, &capitals), None, "connection_error", CONNECTION),
        (
            "a field of HTTP/1.1",
            frame(HEADERS, last, 1, &connection),
            None,
            "head_malformed",
            MALFORMED,
        ),
        ("no method", frame(HEADERS, last, 1, &[0x87, 0x84]), None, "head_malformed", MALFORMED),
        ("a length", frame(HEADERS, last, 1, &length), None, "head_malformed", MALFORMED),
        ("size", large, Some(431), "head_too_large", TOO_LARGE),
        ("no field", frame(HEADERS, last, 1, &[0xfe; 9]), None, "connection_error", CONNECTION),
    ]
}

#[test]
fn heads_that_http2_refuses_have_their_lines() {
    for (what, bytes, expected, cause, figure) in heads_for_http2() {
        let logged = Logged::start();
        let mut client = http2(logged.server.address());
        client.send(&bytes);
        client.send(&get(3, "/"));
        let lives = ping(&mut client).is_some();
        drop(client);
        let (mut lines, counted) = logged.lines([figure]);
        lines.sort_by_key(|line| line[2].is_null());
        let outcome = if expected.is_some() { "complete" } else { "reset" };
        let refused = line(expected, outcome, Some(cause), "HTTP/2");
        assert_eq!(lines[0], refused, "{what}: {lines:?}");
        if lives {
            assert_eq!(lines.len(), 2, "{what}: {lines:?}");
            assert_eq!(counted, [1.0], "{what}");
        }
    }
}

#[test]
fn streams_beyond_those_that_http2_allows_have_their_lines() {
    let logged = Logged::start();
    let mut client = http2(logged.server.address());
    // Without their ends, so that they stay open.
    let requests = (0..6).map(|n| frame(HEADERS, END_HEADERS, 2 * n + 1, &section("/bytes/1")));
    client.send(&requests.flatten().collect::<Vec<_>>());
    ping(&mut client).unwrap();
    drop(client);
    let (lines, counted) = logged.lines([STREAMS]);
    let refused = line(None, "reset", Some("too_many_streams"), "HTTP/2");
    assert_eq!(lines.iter().filter(|line| **line == refused).count(), 2, "{lines:?}");
    assert_eq!(lines.len(), 6, "{lines:?}");
    assert_eq!(counted, [2.0]);
}

#[test]
fn heads_too_large_for_http3_have_their_lines() {
    // Larger than the section that the server allows, and a frame that is.
    for length in [40_000, 200_000] {
        let logged = Logged::start();
        let mut client = Http3::ready(logged.server.address());
        let value = "y".repeat(length);
        let outcome = client.exchange(&get_http3("/", &[("x", &value)]));
        assert!(matches!(outcome, Outcome::Closed(_)), "{outcome:?}");
        let (lines, counted) = logged.lines([TOO_LARGE]);
        let refused = line(None, "reset", Some("head_too_large"), "HTTP/3");
        assert_eq!(lines, [refused], "{length}");
        assert_eq!(counted, [1.0], "{length}");
    }
}
