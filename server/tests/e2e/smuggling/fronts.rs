//! One table of messages over each front to each kind of upstream: exactly one request arrives, framed once, or none.

mod arrival;
mod lines;
mod text;

use crate::admin::{ADMIN, address, until};
use crate::fronts::Front;
use crate::raw::{self, Act, DATA, Outcome, headers};
use crate::server::{Folder, Server, Setup};
use crate::tcp::frames::{self, END_HEADERS, END_STREAM, RST_STREAM, read_frame};
use crate::tcp::raw::Raw;
use arrival::{Arrival, Recorder};
pub(super) use lines::NAMES;

/// Message of a client.
#[derive(Debug)]
enum Sent {
    /// All bytes of HTTP/1.1.
    Text(String),
    /// Field lines of HTTP/2 and HTTP/3, a body, and trailers.
    Lines(Vec<Line>, &'static str, Vec<Line>),
}

type Line = (&'static str, &'static str);

/// Message, and the request that arrives at the upstream; `None` if it must be refused.
struct Case {
    sent: Sent,
    arrives: Option<Arrival>,
}

impl Sent {
    /// Sends the message over a connection of its own, and returns whether its client gets a whole response with status 200.
    fn send(&self, front: Front, server: &Server) -> bool {
        match (self, front) {
            (Sent::Text(text), Front::Http1) => over_http1(server, text),
            (Sent::Lines(head, body, trailers), Front::Http2) => {
                over_http2(server, head, body, trailers)
            }
            (Sent::Lines(head, body, trailers), Front::Http3) => {
                over_http3(server, head, body, trailers)
            }
            _ => panic!("{self:?} over {front:?}"),
        }
    }
}

fn over_http1(server: &Server, text: &str) -> bool {
    let mut client = Raw::open(server);
    // The server may close the connection before it has read everything.
    let _ = client.try_send(text.as_bytes());
    let response = String::from_utf8_lossy(&client.rest()).into_owned();
    let finals = response.split("HTTP/1.1 ").skip(1);
    let finals = finals.filter(|response| !response.starts_with("100 "));
    let statuses: Vec<&str> = finals.map(|response| &response[..3]).collect();
    assert!(statuses.len() <= 1, "more than one response: {response}");
    statuses == ["200"]
}

fn over_http2(server: &Server, head: &[Line], body: &str, trailers: &[Line]) -> bool {
    /// `:status` of 200 in HPACK.
    const OK: u8 = 0x88;
    let mut client = frames::http2(server.address());
    let (has_body, has_trailers) = (!body.is_empty(), !trailers.is_empty());
    let end = |is_last: bool| if is_last { END_STREAM } else { 0 };
    let head_end = end(!has_body && !has_trailers);
    let mut sent = frames::frame(frames::HEADERS, END_HEADERS | head_end, 1, &section(head));
    if has_body {
        sent.extend(frames::frame(frames::DATA, end(!has_trailers), 1, body.as_bytes()));
    }
    if has_trailers {
        let flags = END_HEADERS | END_STREAM;
        sent.extend(frames::frame(frames::HEADERS, flags, 1, &section(trailers)));
    }
    // The server may close the connection before it has read everything.
    let _ = client.try_send(&sent);
    let mut is_ok = false;
    while let Some(frame) = read_frame(&mut client) {
        if frame.stream != 1 {
            continue;
        }
        match frame.kind {
            frames::HEADERS => {
                // Behind changes of the table's size.
                let first = frame.payload.iter().find(|byte| **byte & 0xe0 != 0x20);
                is_ok = first == Some(&OK);
            }
            RST_STREAM => return false,
            _ => {}
        }
        if matches!(frame.kind, frames::HEADERS | frames::DATA) && frame.flags & END_STREAM != 0 {
            return is_ok;
        }
    }
    false
}

/// Returns a field section of literals in HPACK, with any names and values.
pub(super) fn section(lines: &[(&str, &str)]) -> Vec<u8> {
    let texts = lines.iter().flat_map(|(name, value)| {
        let text = |text: &str| {
            assert!(text.len() < 127, "{text}");
            let length = u8::try_from(text.len()).unwrap();
            [&[length], text.as_bytes()].concat()
        };
        [vec![0], text(name), text(value)].concat()
    });
    texts.collect()
}

fn over_http3(server: &Server, head: &[Line], body: &str, trailers: &[Line]) -> bool {
    let mut frames = headers(head);
    if !body.is_empty() {
        frames.extend(raw::frame(DATA, body.as_bytes()));
    }
    if !trailers.is_empty() {
        frames.extend(headers(trailers));
    }
    let mut client = raw::Raw::ready(server.address());
    let stream = client.open();
    client.act(&Act::End(stream, frames));
    client.outcome(stream) == Outcome::Status(200)
}

/// Sends each message over each of the fronts to an upstream of each kind. A good request follows each of them and arrives alone.
fn check(fronts: &[Front], cases: &[Case], good: &Case) {
    for recorder in [Recorder::http1(), Recorder::http2()] {
        let mut recorder = recorder;
        let folder = Folder::new();
        let setup = Setup::new("mio")
            .replace("[[group]]", "[[group]]\ncores = [0]")
            .listener("main", "127.0.0.1:0", "cubic")
            .with(&format!(
                "[[route]]\npath = \"~ ^/p\"\n[route.proxy]\nupstreams = \"{}\"\n{ADMIN}",
                recorder.address()
            ));
        let mut server = Server::start(&setup, &folder);
        let admin = address(&mut server);
        let mut wrong = Vec::new();
        for front in fronts {
            for case in cases {
                let is_ok = case.sent.send(*front, &server);
                assert!(good.sent.send(*front, &server), "after {:?}", case.sent);
                let expected: Vec<Arrival> =
                    case.arrives.iter().chain(&good.arrives).cloned().collect();
                let arrived = recorder.take();
                if is_ok != case.arrives.is_some() || arrived != expected {
                    wrong.push(format!("{front:?} {:?}: {is_ok}, {arrived:?}", case.sent));
                }
            }
        }
        for left in ["sluicegate_tcp_connections", "sluicegate_tcp_exchanges"] {
            until(admin, left, 0.0);
        }
        server.process.last_words();
        assert_eq!(recorder.take_last(), [], "after the end");
        let upstream = recorder.address();
        assert!(wrong.is_empty(), "{upstream}: {wrong:#?}");
    }
}
