use http::{HeaderName, HeaderValue};
use proptest::prelude::*;

use super::*;

type Lines = &'static [(&'static str, &'static str)];

/// A response, and what is read in it.
struct Case {
    method: &'static str,
    bytes: &'static [u8],
    status: u16,
    fields: Lines,
    body: &'static [u8],
    trailers: Lines,
    is_reusable: bool,
}

const fn case(bytes: &'static [u8], status: u16, fields: Lines, body: &'static [u8]) -> Case {
    Case { method: "GET", bytes, status, fields, body, trailers: &[], is_reusable: true }
}

/// Case after which the connection serves no other request.
const fn last(bytes: &'static [u8], status: u16, fields: Lines, body: &'static [u8]) -> Case {
    Case { is_reusable: false, ..case(bytes, status, fields, body) }
}

const CHUNKED: Lines = &[("transfer-encoding", "chunked")];

const WHOLE: &[Case] = &[
    case(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, &[("content-length", "5")], b"hello"),
    case(b"HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n", 200, &[("content-length", "0")], b""),
    case(b"\r\nHTTP/1.1 404 Not Found\r\ncontent-length:1\r\n\r\nx", 404, &[("content-length", "1")], b"x"),
    case(b"HTTP/1.1 200 OK\ncontent-length: 1\n\nx", 200, &[("content-length", "1")], b"x"),
    case(
        b"HTTP/1.1 200 OK\r\ncontent-length: 2, 2\r\ncontent-length: 2\r\n\r\nok",
        200,
        &[("content-length", "2, 2"), ("content-length", "2")],
        b"ok",
    ),
    case(
        b"HTTP/1.1 200 OK\r\nset-cookie: a\r\nx:\r\nset-cookie: \xff b \t\r\ncontent-length: 0\r\n\r\n",
        200,
        &[("set-cookie", "a"), ("set-cookie", "\u{ff} b"), ("x", ""), ("content-length", "0")],
        b"",
    ),
    case(b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n", 204, &[("content-length", "0")], b""),
    last(b"HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n", 204, &[("content-length", "5")], b""),
    last(b"HTTP/1.1 204 No Content\r\ntransfer-encoding: chunked\r\n\r\n", 204, CHUNKED, b""),
    case(b"HTTP/1.1 304 Not Modified\r\ntransfer-encoding: chunked\r\n\r\n", 304, CHUNKED, b""),
    Case {
        method: "HEAD",
        ..case(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", 200, &[("content-length", "5")], b"")
    },
    case(
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n00A;x=\"y\" \r\n0123456789\r\n0\r\n\r\n",
        200,
        CHUNKED,
        b"abc0123456789",
    ),
    case(
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1 \t;\r\na\r\n0000\r\n\r\n",
        200,
        CHUNKED,
        b"a",
    ),
    Case {
        trailers: &[("x-sum", "9"), ("x-more", "")],
        ..case(
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 9\r\nx-more:\r\n\r\n",
            200,
            CHUNKED,
            b"ok",
        )
    },
    case(
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\ntransfer-encoding: gzip, Chunked\r\n\r\n0\r\n\r\n",
        200,
        &[("content-length", "9"), ("transfer-encoding", "gzip, Chunked")],
        b"",
    ),
    case(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx",
        200,
        &[("content-length", "1")],
        b"x",
    ),
    last(
        b"HTTP/1.1 200 OK\r\nconnection: x , Close\r\ncontent-length: 1\r\n\r\nx",
        200,
        &[("connection", "x , Close"), ("content-length", "1")],
        b"x",
    ),
    last(
        b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 1\r\n\r\nx",
        200,
        &[("connection", "keep-alive"), ("content-length", "1")],
        b"x",
    ),
];

/// Bodies that end with their connection.
const UNTIL_CLOSE: &[Case] = &[
    last(b"HTTP/1.1 200 OK\r\n\r\nall", 200, &[], b"all"),
    last(b"HTTP/1.0 200 OK\r\n\r\n", 200, &[], b""),
    last(
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nall",
        200,
        &[("transfer-encoding", "gzip")],
        b"all",
    ),
];

/// What is no head.
const MALFORMED: &[&[u8]] = &[
    b"HTTP/2.0 200 OK\r\n\r\n",
    b"HTTP/1.1 20 OK\r\n\r\n",
    b"HTTP/1.1 099 x\r\n\r\n",
    b"HTTP/1.1 200 O\0K\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nx y: 1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nx : 1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n: 1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nx: 1\r\n folded\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nx: a\rb\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nx: a\0b\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-length: \r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-length: +1\r\n\r\na",
    b"HTTP/1.1 200 OK\r\ncontent-length: 1, 2\r\n\r\na",
    b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\na",
    b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\na",
    b"HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551615\r\n\r\na",
    b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
];

/// Chunked bodies that break off.
const BROKEN: &[&[u8]] = &[
    b"\r\n",
    b"g\r\n",
    b"-1\r\n",
    b"1\na\r\n0\r\n\r\n",
    b"1\r\naX\r\n",
    b"1\r\na\r\r\n",
    b"1\r\na\n0\r\n\r\n",
    b"1 1\r\n",
    b"1;\n\r\n",
    b"1\rX",
    b"10000000000000000\r\n",
    b"0\r\nx\r\n\r\n",
    b"0\r\nx: 1\rX\r\n\r\n",
    b"0\r\nx y: 1\r\n\r\n",
    b"0\r\n\rX",
];

fn map(lines: Lines) -> HeaderMap {
    let latin = |text: &str| -> Vec<u8> {
        text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect()
    };
    lines
        .iter()
        .map(|(name, value)| {
            (HeaderName::from_static(name), HeaderValue::from_bytes(&latin(value)).unwrap())
        })
        .collect()
}

fn check(case: &Case, size: usize, closes: bool) {
    let upstream = || Canned::new(case.bytes, size, closes);
    let outcome = ours(case.method, upstream());
    let shown = format!("{}, {size} bytes at a time", case.bytes.escape_ascii());
    let (status, _, headers) = outcome.head.unwrap().unwrap();
    assert_eq!((status, &headers), (case.status, &map(case.fields)), "{shown}");
    assert_eq!(outcome.body, case.body, "{shown}");
    assert_eq!(outcome.end, Some(Ok(map(case.trailers))), "{shown}");
    assert_eq!(outcome.is_reusable, case.is_reusable && !closes, "{shown}");
    compare(case.method, upstream);
}

#[test]
fn responses_are_read_wherever_they_are_cut() {
    for case in WHOLE {
        for size in 1..=case.bytes.len() {
            check(case, size, false);
            check(case, size, true);
        }
    }
    for case in UNTIL_CLOSE {
        for size in 1..=case.bytes.len() {
            check(case, size, true);
        }
    }
}

#[test]
fn responses_that_break_off_are_not_whole() {
    for case in WHOLE {
        for length in 0..case.bytes.len() {
            for closes in [false, true] {
                let upstream = || Canned::new(&case.bytes[..length], length, closes);
                let outcome = ours(case.method, upstream());
                let is_whole = matches!(outcome.end, Some(Ok(_)));
                assert!(!is_whole, "{:?}", upstream());
                assert!(!outcome.is_reusable);
                let knows = matches!(outcome.head, Some(Err(_))) || outcome.end.is_some();
                assert_eq!(knows, closes, "{:?}", upstream());
                compare(case.method, upstream);
            }
        }
    }
}

#[test]
fn bytes_behind_a_response_end_the_connection() {
    for case in WHOLE {
        for size in [1, case.bytes.len(), case.bytes.len() + 1] {
            let bytes = [case.bytes, b"H"].concat();
            let upstream = || Canned::new(&bytes, size, false);
            let outcome = ours(case.method, upstream());
            assert_eq!(outcome.end, Some(Ok(map(case.trailers))));
            assert_eq!((outcome.body.as_slice(), outcome.is_reusable), (case.body, false));
            compare(case.method, upstream);
        }
    }
}

#[test]
fn what_is_no_head_is_refused() {
    for bytes in MALFORMED {
        let upstream = || Canned::new(bytes, bytes.len(), true);
        let outcome = ours("GET", upstream());
        assert_eq!(outcome.head, Some(Err(Failure::Malformed)), "{}", bytes.escape_ascii());
        for size in 1..=bytes.len() {
            compare("GET", || Canned::new(bytes, size, true));
        }
    }
}

#[test]
fn chunks_that_are_none_break_the_body() {
    for bytes in BROKEN {
        let bytes = [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", *bytes].concat();
        for size in 1..=bytes.len() {
            let upstream = || Canned::new(&bytes, size, false);
            let outcome = ours("GET", upstream());
            assert_eq!(outcome.end, Some(Err(())), "{}", bytes.escape_ascii());
            compare("GET", upstream);
        }
    }
}

#[test]
fn sizes_of_chunks_have_a_little_padding() {
    for (zeros, spaces, is_whole) in [(PADDING, 0, true), (0, PADDING, true), (PADDING, 1, false)] {
        let (zeros, spaces) = ("0".repeat(zeros), " ".repeat(spaces));
        let chunk = format!("{zeros}1{spaces}\r\nx\r\n");
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        // Each chunk may have as much.
        let bytes = format!("{head}{}0\r\n\r\n", chunk.repeat(3)).into_bytes();
        for size in [bytes.len(), 7, 1] {
            let outcome = ours("GET", Canned::new(&bytes, size, false));
            assert_eq!(outcome.end.map(|end| end.is_ok()), Some(is_whole), "{chunk}");
        }
    }
}

/// Returns what becomes of bytes, as hyper says too.
fn outcome(bytes: &[u8]) -> Outcome {
    for size in [bytes.len(), 7, 1] {
        compare("GET", || Canned::new(bytes, size, false));
    }
    ours("GET", Canned::new(bytes, bytes.len(), false))
}

#[test]
fn heads_trailers_and_extensions_have_bounds() {
    let limit = usize::try_from(LIMIT).unwrap();
    let head = |lines: usize, length: usize| {
        let mut head = b"HTTP/1.1 204 OK\r\n".to_vec();
        head.extend(b"x:\r\n".repeat(lines));
        head.extend(b"y: ");
        head.resize(length.saturating_sub(4).max(head.len()), b'y');
        head.extend(b"\r\n\r\n");
        head
    };
    let whole = |bytes: &[u8]| outcome(bytes).head.unwrap().map(|_| ());
    assert_eq!(whole(&head(99, limit)), Ok(()));
    assert_eq!(whole(&head(0, limit + 1)), Err(Failure::HeadTooLarge));
    assert_eq!(whole(&head(100, 0)), Err(Failure::HeadTooLarge));
    let endless = vec![b'a'; limit * 2];
    assert_eq!(whole(&[b"HTTP/1.1 200 OK\r\nx: ", &*endless].concat()), Err(Failure::HeadTooLarge));

    let body = |rest: &[u8]| {
        outcome(&[b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", rest].concat()).end
    };
    let is_broken = |rest: &[u8]| body(rest) == Some(Err(()));
    let trailer = |length: usize| {
        let mut section = b"0\r\nx: ".to_vec();
        section.resize(length - 1, b'x');
        section.extend(b"\r\n\r\n");
        section
    };
    assert!(!is_broken(&trailer(limit - 1)));
    assert!(is_broken(&trailer(limit)));
    assert!(is_broken(&[b"0\r\nx: ", &*endless].concat()));
    assert!(!is_broken(&[b"0\r\n", &*b"x:\r\n".repeat(100), b"\r\n"].concat()));
    assert!(is_broken(&[b"0\r\n", &*b"x:\r\n".repeat(101), b"\r\n"].concat()));
    // Of all chunks together.
    let chunk = [b"1;", &*vec![b'e'; 4 << 10], b"\r\na\r\n"].concat();
    assert!(!is_broken(&chunk.repeat(3)));
    assert!(is_broken(&chunk.repeat(4)));
    assert!(is_broken(&[&*b"0".repeat(1000), b"1\r\n"].concat()));
}

#[test]
fn informational_responses_are_bounded_in_number() {
    let flood = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
    let at_most = flood.repeat(MAX_INTERIM as usize);
    let received = outcome(&at_most);
    assert_eq!((received.interims.len(), received.head), (MAX_INTERIM as usize, None));
    let received = ours("GET", Canned::new(&[&*at_most, flood].concat(), 7, false));
    assert_eq!(received.head, Some(Err(Failure::TooManyInterim)));
}

#[test]
fn switch_that_was_not_asked_for_ends_the_connection() {
    let bytes =
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nbytes";
    let received = outcome(bytes);
    assert!(matches!(received.head, Some(Ok((101, ..)))));
    assert!(!received.is_reusable);
}

/// Parts of responses, valid or not.
const PARTS: [&[u8]; 30] = [
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 204 No\r\n",
    b"HTTP/1.0 200 OK\r\n",
    b"HTTP/1.1 103 Hints\r\n\r\n",
    b"HTTP/1.1 101 Switch\r\n",
    b"content-length: 3\r\n",
    b"content-length: 3, 3\r\n",
    b"content-length: 18446744073709551614\r\n",
    b"transfer-encoding: chunked\r\n",
    b"transfer-encoding: gzip\r\n",
    b"connection: close\r\n",
    b"connection: keep-alive\r\n",
    b"x: \r\n y\r\n",
    b"X-Y:  z \r\n",
    b"\r\n",
    b"\r\n\r\n",
    b"\n",
    b"abc",
    b"3\r\nabc\r\n",
    b"3;ext\r\nabc\r\n",
    b"a \r\n0123456789\r\n",
    b"0\r\n\r\n",
    b"0\r\n",
    b"x-sum: 1\r\n",
    b"ffffffffffffffff\r\n",
    b"\0",
    b"\xff",
    b":",
    b" ",
    b"HTTP/1.1 304 Not Modified\r\n\r\n",
];

proptest! {
    #[test]
    fn hyper_reads_the_same(
        how: u8,
        begins: bool,
        parts in prop::collection::vec(prop::sample::select(&PARTS[..]), 0..10),
    ) {
        let start: &[u8] = if begins { PARTS[0] } else { b"" };
        response(&[&[how], start, &parts.concat()].concat());
    }
}
