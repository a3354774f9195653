//! Messages of HTTP/2 and HTTP/3 that an upstream could read differently (RFC 9113 §8.2, RFC 9114 §4.2).

use super::arrival::Arrival;
use super::{Case, Line, Sent, check};
use crate::fronts::Front;

fn head(method: &'static str, path: &'static str, more: &[Line]) -> Vec<Line> {
    let pseudo =
        [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)];
    [&pseudo, more].concat()
}

fn case(head: Vec<Line>, body: &'static str, trailers: &[Line], arrives: Option<Arrival>) -> Case {
    Case { sent: Sent::Lines(head, body, trailers.to_vec()), arrives }
}

/// Returns a GET with further fields that is refused.
fn refused(more: &[Line]) -> Case {
    case(head("GET", "/p", more), "", &[], None)
}

/// Returns a GET with another value of a pseudo-header field that is refused.
fn replaced(name: &str, value: &'static str) -> Case {
    let mut lines = head("GET", "/p", &[]);
    lines.iter_mut().find(|line| line.0 == name).unwrap().1 = value;
    case(lines, "", &[], None)
}

/// Returns a POST with further fields and that body, which arrives without them.
fn passed(more: &[Line], body: &'static str) -> Case {
    let arrives = Arrival::of("POST /p", body);
    case(head("POST", "/p", more), body, &[], Some(arrives))
}

/// Values that end their line, or begin or end with white space.
const VALUES: &[&str] = &[
    "a\r\nx: y",
    "a\rb",
    "a\nb",
    "a\0b",
    "\r\n\r\nGET /p/smuggled HTTP/1.1",
    "a\u{1}b",
    "a\u{7f}b",
    " a",
    "a ",
    "\ta",
    "a\t",
];

/// Names that are no tokens, or have capitals.
pub(in crate::smuggling) const NAMES: &[&str] = &[
    "x\r\ny",
    "x\ny",
    "x\0",
    "x y",
    "x:",
    "x\t",
    "",
    "\u{e9}",
    "x: y\r\nz",
    "X-Upper",
    "Content-Length",
    "Transfer-Encoding",
    "(x)",
    ":",
    " x",
];

/// Values that pseudo-header fields cannot have.
const PSEUDO: &[(&str, [&str; 5])] = &[
    (":method", ["GET /p HTTP/1.1\r\nx: y", "GET\n", "GET\0", "G T", ""]),
    (":scheme", ["https\r\n", "https\0", "https ", "ftp", ""]),
    (
        ":authority",
        ["localhost\r\nx: y", "localhost\0", "local host", "user@localhost", "localhost/p"],
    ),
    (":authority", ["localhost#x", "localhost?x", "localhost::", "local,host", "other\\localhost"]),
    (":path", ["/p HTTP/1.1\r\nx: y", "/p\n", "/p\0", "/p x", "/p\tx"]),
    (":path", ["", "p", "?p", "*", "https://other/p"]),
    (":path", ["/p%00", "/p\\..\\x", "/p/..;/x", "/p%2f..", "/p%zz"]),
];

/// Fields that only a connection of HTTP/1.1 has.
const OF_CONNECTIONS: &[Line] = &[
    ("transfer-encoding", "chunked"),
    ("transfer-encoding", "identity"),
    ("connection", "close"),
    ("connection", "content-length"),
    ("keep-alive", "timeout=5"),
    ("proxy-connection", "keep-alive"),
    ("upgrade", "h2c"),
    ("upgrade", "websocket"),
    ("te", "gzip"),
    ("te", "trailers, gzip"),
    ("te", ""),
];

/// Values of `content-length` that do not name the length of a body of five bytes.
const LENGTHS: &[&str] =
    &["", "+5", "-5", "0x5", "5, 5", "5 ", "4", "6", "0", "five", "99999999999999999999999"];

fn good() -> Case {
    let arrives = Arrival::of("GET /p/good", "");
    case(head("GET", "/p/good", &[]), "", &[], Some(arrives))
}

fn check_each(cases: &[Case]) {
    check(&[Front::Http2, Front::Http3], cases, &good());
}

/// Takes long: each message goes over both fronts to both kinds of upstream, and a good one behind it, each over a connection of its own.
#[test]
fn names_and_values_of_fields_hold_nothing_that_ends_them() {
    let mut cases = Vec::new();
    for value in VALUES {
        cases.push(refused(&[("x-a", value)]));
    }
    for name in NAMES {
        cases.push(refused(&[(*name, "1")]));
    }
    for (name, values) in PSEUDO {
        cases.extend(values.map(|value| replaced(name, value)));
    }
    check_each(&cases);
}

#[test]
fn bodies_arrive_framed_once_whatever_they_hold() {
    let length = ("content-length", "5");
    let cases = vec![
        passed(&[], "12345"),
        passed(&[length], "12345"),
        passed(&[length, length], "12345"),
        passed(&[("content-length", "0")], ""),
        passed(&[], "0\r\n\r\nGET /p/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        passed(&[("content_length", "0"), ("transfer_encoding", "chunked")], "12345"),
        passed(&[("host", "localhost")], "12345"),
        passed(&[("expect", "100-continue"), length], "12345"),
        case(head("GET", "/p", &[length]), "12345", &[], Some(Arrival::of("GET /p", "12345"))),
        case(
            head(
                "GET",
                "/p",
                &[("cookie", "a=1"), ("x-a", ""), ("cookie", "b=2"), ("te", "trailers")],
            ),
            "",
            &[],
            Some(
                { Arrival::of("GET /p", "").with("cookie", "a=1; b=2") }
                    .with("te", "trailers")
                    .with("x-a", ""),
            ),
        ),
    ];
    check_each(&cases);
}

/// Takes long: each message goes over both fronts to both kinds of upstream, and a good one behind it, each over a connection of its own.
#[test]
fn what_frames_twice_or_wrongly_or_names_another_host_is_refused() {
    let length = ("content-length", "5");
    let mut cases = vec![
        refused(&[("host", "other")]),
        refused(&[("host", "localhost"), ("host", "localhost")]),
        refused(&[("x-a", "1"), (":path", "/p")]),
        refused(&[(":path", "/p")]),
        refused(&[(":status", "200")]),
        refused(&[(":x", "y")]),
        refused(&[(":Path", "/p")]),
        case(head("CONNECT", "/p", &[]), "", &[], None),
        case(vec![(":method", "CONNECT"), (":authority", "localhost:80")], "", &[], None),
    ];
    for field in OF_CONNECTIONS {
        cases.push(case(head("POST", "/p", &[*field]), "12345", &[], None));
    }
    for length in LENGTHS {
        let head = head("POST", "/p", &[("content-length", *length)]);
        cases.push(case(head, "12345", &[], None));
    }
    let lengths = [("content-length", "5"), ("content-length", "6")];
    cases.push(case(head("POST", "/p", &lengths), "12345", &[], None));
    // There is no body.
    cases.push(case(head("POST", "/p", &[length]), "", &[], None));
    for missing in [":method", ":scheme", ":path", ":authority"] {
        let mut lines = head("GET", "/p", &[]);
        lines.retain(|(name, _)| *name != missing);
        cases.push(case(lines, "", &[], None));
    }
    check_each(&cases);
}

#[test]
fn trailers_frame_and_name_nothing() {
    let trailer = |trailer: Line| case(head("POST", "/p", &[]), "12345", &[trailer], None);
    let mut cases = vec![case(
        head("POST", "/p", &[("trailer", "x-sum")]),
        "12345",
        &[("x-sum", "15")],
        Some(Arrival {
            trailers: vec![("x-sum".to_owned(), "15".to_owned())],
            ..Arrival::of("POST /p", "12345").with("trailer", "x-sum")
        }),
    )];
    cases.extend(
        [
            ("content-length", "5"),
            ("transfer-encoding", "chunked"),
            ("host", "other"),
            ("connection", "close"),
            ("X-Upper", "1"),
            ("x-a", "1\r\n\r\nGET /p/smuggled HTTP/1.1"),
            ("x-a", "\0"),
            ("x a", "1"),
            ("", "1"),
        ]
        .map(trailer),
    );
    check_each(&cases);
    // `h2` drops pseudo-header fields there, and does not say so.
    for trailer in [(":path", "/p/other"), (":method", "GET")] {
        let arrives = Arrival::of("POST /p", "12345");
        let over = |front, arrives| {
            let case = case(head("POST", "/p", &[]), "12345", &[trailer], arrives);
            check(&[front], &[case], &good());
        };
        over(Front::Http2, Some(arrives));
        over(Front::Http3, None);
    }
}
