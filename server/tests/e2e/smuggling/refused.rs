//! Requests that must not reach an upstream.

use super::fronts::NAMES;
use super::{Chain, Lines, MESSAGE_ERROR, Outcome, head, headers, total, with};
use crate::raw::{DATA, frame};

const MALFORMED: Outcome = Outcome::Reset(MESSAGE_ERROR);

/// Sends each head, without a body, and expects that its stream alone is reset and that nothing reaches the upstream.
fn refuse_each(heads: &[Lines<'_>]) {
    let mut chain = Chain::start();
    for head in heads {
        let (outcome, messages) = chain.exchange(&headers(head));
        assert_eq!(outcome, MALFORMED, "{head:?}");
        assert!(messages.is_empty(), "{head:?}: {messages:?}");
        chain.passes(&format!("{head:?}"));
    }
    assert_eq!(total(&chain.end(), "requests", "malformed"), heads.len() as u64);
}

/// `GET` with another value of a pseudo-header field.
fn replaced<'a>(name: &str, value: &'a str) -> Lines<'a> {
    let mut lines = head("GET", "/p/bad");
    let line = lines.iter_mut().find(|(known, _)| *known == name);
    line.unwrap().1 = value;
    lines
}

#[test]
fn no_line_ends_within_a_value_or_name() {
    let values = [
        "a\r\nx: y",
        "a\rb",
        "a\nb",
        "a\0b",
        "a\u{7f}b",
        "a\u{1}b",
        " a",
        "a ",
        "\ta",
        "\r\n",
        "\0",
    ];
    let mut heads: Vec<Lines<'_>> =
        values.iter().map(|value| with(head("GET", "/p/bad"), &[("x-a", value)])).collect();
    for (name, values) in [
        (":method", ["GET /p HTTP/1.1\r\nx: y", "GET\n", "GET\0", "G T", "GET\t"]),
        (":scheme", ["https\r\n", "https\n", "https\0", "https ", "ftp"]),
        (
            ":authority",
            ["localhost\r\nx: y", "localhost\n", "localhost\0", "local host", "\tlocalhost"],
        ),
        (":path", ["/p HTTP/1.1\r\nx: y", "/p\n", "/p\0", "/p x", "/p\tx"]),
    ] {
        heads.extend(values.map(|value| replaced(name, value)));
    }
    for name in NAMES {
        heads.push(with(head("GET", "/p/bad"), &[(name, "1")]));
    }
    refuse_each(&heads);
}

#[test]
fn fields_of_a_connection_and_lengths_that_are_none_are_refused() {
    let fields = [
        ("transfer-encoding", "chunked"),
        ("transfer-encoding", "identity"),
        ("connection", "close"),
        ("connection", "x-a"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "keep-alive"),
        ("upgrade", "websocket"),
        ("te", "gzip"),
        ("te", "trailers, gzip"),
        ("te", ""),
        ("content-length", ""),
        ("content-length", "+0"),
        ("content-length", "-0"),
        ("content-length", "0x0"),
        ("content-length", "0, 0"),
        ("content-length", "0 "),
        ("content-length", "00000000000000000000000000000099999999999999999999"),
        // There is no body.
        ("content-length", "5"),
    ];
    let mut heads: Vec<Lines<'_>> =
        fields.iter().map(|field| with(head("POST", "/p/bad"), &[*field])).collect();
    let twice = [("content-length", "0"), ("content-length", "5")];
    heads.push(with(head("POST", "/p/bad"), &twice));
    refuse_each(&heads);
}

#[test]
fn pseudo_header_fields_come_once_in_front_and_fit() {
    let mut heads: Vec<Lines<'_>> = Vec::new();
    for (name, value) in head("GET", "/p/bad") {
        heads.push(with(head("GET", "/p/bad"), &[(name, value)]));
        heads.push(replaced(name, ""));
        let mut without = head("GET", "/p/bad");
        without.retain(|(known, _)| *known != name);
        heads.push(without.clone());
        // Late.
        heads.push(with(without, &[("x-a", "b"), (name, value)]));
    }
    for field in [
        (":status", "200"),
        (":protocol", "websocket"),
        (":x", "y"),
        (":", "y"),
        (":Path", "/p"),
        ("host", "other"),
    ] {
        heads.push(with(head("GET", "/p/bad"), &[field]));
    }
    heads.push(with(head("GET", "/p/bad"), &[("host", "localhost"), ("host", "localhost")]));
    for authority in [
        "user@localhost",
        "localhost/p",
        "localhost?x",
        "localhost#x",
        "localhost\\x",
        "localhost::",
        "localhost:4433x",
        "local,host",
    ] {
        heads.push(replaced(":authority", authority));
    }
    for path in ["http://localhost/p", "https://other/p", "p", "?p", "#", "*", "localhost:443"] {
        heads.push(replaced(":path", path));
    }
    refuse_each(&heads);
}

#[test]
fn paths_that_servers_read_differently_get_400() {
    let mut chain = Chain::start();
    for path in [
        "/p/%00",
        "/p/%2f..%2Fadmin",
        "/p%5cadmin",
        "/p\\..\\admin",
        "/p/%",
        "/p/%0",
        "/p/%zz",
        "/p/..;/admin",
    ] {
        let (found, messages) = chain.exchange(&headers(&head("GET", path)));
        assert_eq!(found, Outcome::Status(400), "{path}");
        assert!(messages.is_empty(), "{path}: {messages:?}");
        chain.passes(path);
    }
    chain.end();
}

#[test]
fn tunnels_are_refused_in_every_form() {
    let mut chain = Chain::start();
    let connect = vec![(":method", "CONNECT"), (":authority", "localhost:80")];
    let extended = with(head("CONNECT", "/p/ws"), &[(":protocol", "connect-udp")]);
    for (lines, outcome) in [
        (connect.clone(), Outcome::Status(501)),
        (vec![(":method", "CONNECT")], MALFORMED),
        (head("CONNECT", "/p/bad"), MALFORMED),
        (with(connect.clone(), &[(":path", "/p")]), MALFORMED),
        (with(connect, &[(":scheme", "https")]), MALFORMED),
        (extended, Outcome::Status(501)),
    ] {
        let (found, messages) = chain.exchange(&headers(&lines));
        assert_eq!(found, outcome, "{lines:?}");
        assert!(messages.is_empty(), "{lines:?}: {messages:?}");
        chain.passes(&format!("{lines:?}"));
    }
    chain.end();
}

/// Heads go on at once: what follows them is refused by never letting the request become whole.
#[test]
fn bodies_that_break_their_word_never_become_whole() {
    let mut chain = Chain::start();
    let post = |more: &[(&'static str, &'static str)]| headers(&with(head("POST", "/p/bad"), more));
    let body = frame(DATA, b"12345");
    let long = [("content-length", "6")];
    let short = [("content-length", "4")];
    let mut cases = vec![
        ("a short body", [post(&long), body.clone()].concat()),
        ("no body", [post(&long), frame(DATA, b"")].concat()),
        ("a long body", [post(&short), body.clone()].concat()),
        ("a body where there is none", [post(&[("content-length", "0")]), body.clone()].concat()),
    ];
    for trailer in [
        ("content-length", "5"),
        ("transfer-encoding", "chunked"),
        ("host", "other"),
        (":path", "/p/other"),
        (":method", "GET"),
        ("connection", "close"),
        ("X-Upper", "1"),
        ("x-a", "1\r\n\r\nGET /p/smuggled HTTP/1.1"),
    ] {
        let frames = [post(&[]), body.clone(), headers(&[trailer])].concat();
        cases.push(("a trailer", frames));
    }
    let count = cases.len() as u64;
    for (what, frames) in cases {
        let (outcome, messages) = chain.exchange(&frames);
        assert_eq!(outcome, MALFORMED, "{what}");
        assert!(messages.is_empty(), "{what}: {messages:?}");
        chain.passes(what);
    }
    assert_eq!(total(&chain.end(), "requests", "malformed"), count);
}
