//! Targets of requests: the same judgement over HTTP/1.1, HTTP/2 and HTTP/3, whatever a client writes into one.

use super::fronts::section;
use super::{Chain, Lines, Message, Outcome, head, headers};
use crate::tcp::frames::{self, END_HEADERS, END_STREAM, RST_STREAM, read_frame};
use crate::tcp::raw::{Raw, status};

/// `:status` of 200 and of 400 in HPACK.
const STATUSES: [(u8, u16); 2] = [(0x88, 200), (0x8c, 400)];

/// Status of the response over each front: HTTP/1.1, HTTP/2, HTTP/3; 0 for none.
type Statuses = [u16; 3];

/// Sends a request over each front, each followed by what must arrive at the upstream: `line`, or nothing.
fn statuses(chain: &mut Chain, lines: &Lines<'_>, line: Option<&str>) -> Statuses {
    let over_http1 = over_http1(chain, lines);
    arrives(chain, lines, line);
    let over_http2 = over_http2(chain, lines);
    arrives(chain, lines, line);
    let over_http3 = match chain.raw.exchange(&headers(lines)) {
        Outcome::Status(status) => status,
        _ => 0,
    };
    arrives(chain, lines, line);
    [over_http1, over_http2, over_http3]
}

fn arrives(chain: &mut Chain, lines: &Lines<'_>, line: Option<&str>) {
    let messages = chain.upstream.messages();
    let arrived: Vec<String> = messages.iter().map(|message| Message::read(message).line).collect();
    assert_eq!(arrived, Vec::from_iter(line), "{lines:?}");
}

fn value<'a>(lines: &Lines<'a>, wanted: &str) -> &'a str {
    let line = lines.iter().find(|(name, _)| *name == wanted);
    line.map_or("", |(_, value)| value)
}

fn over_http1(chain: &Chain, lines: &Lines<'_>) -> u16 {
    let (method, path) = (value(lines, ":method"), value(lines, ":path"));
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let mut client = Raw::open(&chain.server);
    client.send(request.as_bytes());
    status(&client.rest()).unwrap_or(0)
}

fn over_http2(chain: &Chain, lines: &Lines<'_>) -> u16 {
    let mut client = frames::http2(chain.server.address());
    let flags = END_HEADERS | END_STREAM;
    client.send(&frames::frame(frames::HEADERS, flags, 1, &section(lines)));
    while let Some(frame) = read_frame(&mut client) {
        match (frame.stream, frame.kind) {
            (1, frames::HEADERS) => {
                // Behind changes of the table's size.
                let first = frame.payload.iter().find(|byte| **byte & 0xe0 != 0x20);
                let known = STATUSES.iter().find(|(code, _)| first == Some(code));
                return known.map_or(0, |(_, status)| *status);
            }
            (1, RST_STREAM) => return 0,
            _ => {}
        }
    }
    0
}

/// Returns the spelling in which an upstream gets a character that may stand in a URI by `plain`.
fn spelling(char: char, plain: &str) -> String {
    if char.is_ascii_alphanumeric() || plain.contains(char) {
        return char.to_string();
    }
    let mut bytes = [0; 4];
    char.encode_utf8(&mut bytes).bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Takes long: there are almost 200 targets, each of which goes over three fronts, over TCP on a connection of its own.
#[test]
fn each_character_of_a_target_gets_one_judgement_over_every_front() {
    let mut chain = Chain::start();
    let others = ['\u{e9}', '\u{20ac}', '\u{1d11e}'];
    for char in ('!'..='~').chain(others) {
        for (before, plain, refused) in
            [("/p", "-._~!$&'()*+,;=:@/?", "#\\%"), ("/p?q=", "-._~!$&'()*+,;=:@/?%[]", "#")]
        {
            let target = format!("{before}{char}x");
            let lines = head("GET", &target);
            if refused.contains(char) {
                let found = statuses(&mut chain, &lines, None);
                assert_eq!(found, [400; 3], "{target}");
            } else {
                let line = format!("GET {before}{}x HTTP/1.1", spelling(char, plain));
                let found = statuses(&mut chain, &lines, Some(&line));
                assert_eq!(found, [200; 3], "{target}");
            }
        }
    }
    chain.end();
}

#[test]
fn what_clients_write_into_a_target_reaches_the_upstream_encoded_or_raw_where_a_route_says_so() {
    let mut chain = Chain::start();
    for (target, sent) in [
        ("/p?query=up{job=\"x\"}", "/p?query=up%7Bjob=%22x%22%7D"),
        ("/p/<a>`b`?<c>", "/p/%3Ca%3E%60b%60?%3Cc%3E"),
        ("/raw/<a>`b`?q={\"c\"}", "/raw/<a>`b`?q={\"c\"}"),
        ("/raw/caf\u{e9}?\u{e9}", "/raw/caf%C3%A9?%C3%A9"),
        ("/slash/group%2fproject", "/slash/group%2Fproject"),
        ("/slash/queues/%2F/q?a=%2f", "/slash/queues/%2F/q?a=%2f"),
        ("/slash/a%5Cb", "/slash/a%5Cb"),
        ("/strip/@scope%2fpkg", "/@scope%2Fpkg"),
    ] {
        let line = format!("GET {sent} HTTP/1.1");
        let found = statuses(&mut chain, &head("GET", target), Some(&line));
        assert_eq!(found, [200; 3], "{target}");
    }
    chain.end();
}

#[test]
fn targets_and_methods_that_servers_read_differently_are_refused_over_every_front() {
    let mut chain = Chain::start();
    for (method, target) in [
        ("GET", "/p#fragment"),
        ("GET", "/p?a#fragment"),
        ("GET", "/raw/a#"),
        ("GET", "/p#?a"),
        ("GET", "//other#/p"),
        ("GET", "/p/a%2Fb"),
        ("GET", "/raw/a%2Fb"),
        ("GET", "/p/a%5Cb"),
        ("GET", "/slash/..%2Fp"),
        ("GET", "/slash/a%2F..%2Fp"),
        ("GET", "/slash/a%5C.."),
        ("GET", "/slash/a\\b"),
        ("get", "/p"),
        ("Post", "/p"),
        ("x", "/p"),
    ] {
        let found = statuses(&mut chain, &head(method, target), None);
        assert_eq!(found, [400; 3], "{method} {target}");
    }
    chain.end();
}
