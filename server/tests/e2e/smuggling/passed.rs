//! Requests that pass, and the form in which they reach the upstream.

use super::{Chain, Message, Outcome, head, headers, with};
use crate::raw::{Act, DATA, frame};

/// A request's frames, and how it arrives: first line, fields beside Host and those that tell of its way, body, trailers.
struct Case {
    frames: Vec<u8>,
    line: &'static str,
    fields: Vec<(&'static str, &'static str)>,
    body: &'static str,
    trailers: Vec<(&'static str, &'static str)>,
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn check(messages: &[Vec<u8>], case: &Case) {
    let Case { line, fields, body, trailers, .. } = case;
    assert_eq!(messages.len(), 1, "{line}: {messages:?}");
    let mut fields = with(fields.clone(), &[("host", "localhost")]);
    fields.sort_unstable();
    let expected = Message {
        line: (*line).to_owned(),
        fields: owned(&fields),
        body: (*body).to_owned(),
        trailers: owned(trailers),
    };
    assert_eq!(Message::read(&messages[0]), expected);
}

fn pass_each(cases: &[Case]) {
    let mut chain = Chain::start();
    for case in cases {
        let (outcome, messages) = chain.exchange(&case.frames);
        assert_eq!(outcome, Outcome::Status(200), "{}", case.line);
        check(&messages, case);
        chain.passes(case.line);
    }
    chain.end();
}

fn get(path: &'static str, line: &'static str) -> Case {
    Case {
        frames: headers(&head("GET", path)),
        line,
        fields: Vec::new(),
        body: "",
        trailers: Vec::new(),
    }
}

/// Returns a `GET` with fields, and what is left of them.
fn fields(given: &[(&'static str, &'static str)], left: &[(&'static str, &'static str)]) -> Case {
    Case {
        frames: headers(&with(head("GET", "/p"), given)),
        fields: left.to_vec(),
        ..get("/p", "GET /p HTTP/1.1")
    }
}

#[test]
fn paths_arrive_in_their_canonical_spelling() {
    pass_each(&[
        get("/p", "GET /p HTTP/1.1"),
        get("/p?", "GET /p? HTTP/1.1"),
        get("/p?a=b?c&d=%23", "GET /p?a=b?c&d=%23 HTTP/1.1"),
        get("/p//a", "GET /p/a HTTP/1.1"),
        get("//p/other", "GET /p/other HTTP/1.1"),
        get("/p%0d%0ax:%20y", "GET /p%0D%0Ax:%20y HTTP/1.1"),
        get("/p%20HTTP/1.1%0D%0A", "GET /p%20HTTP/1.1%0D%0A HTTP/1.1"),
        get("/%61/.././p%2b+%7E", "GET /p%2B+~ HTTP/1.1"),
        get("/p/http://other/", "GET /p/http:/other/ HTTP/1.1"),
    ]);
}

#[test]
fn raw_paths_arrive_as_written_and_match_by_their_canonical_spelling() {
    pass_each(&[
        get("/raw//a%2b%7E?b", "GET /raw//a%2b%7E?b HTTP/1.1"),
        get("/r%61w//x", "GET /r%61w//x HTTP/1.1"),
        get("//r%61w//x", "GET /raw/x HTTP/1.1"),
        get("/raw/x//../../p%7E", "GET /p~ HTTP/1.1"),
        get("/raw/x/%2e%2e/%61", "GET /raw/a HTTP/1.1"),
    ]);
}

#[test]
fn fields_arrive_without_what_frames_or_claims() {
    pass_each(&[
        fields(&[("x-a", "1"), ("x-b", "a\tb")], &[("x-a", "1"), ("x-b", "a\tb")]),
        fields(&[("x-a", ""), ("x-a", "2")], &[("x-a", ""), ("x-a", "2")]),
        fields(
            &[("cookie", "a=1"), ("x-a", "1"), ("cookie", "b=2")],
            &[("cookie", "a=1; b=2"), ("x-a", "1")],
        ),
        fields(&[("te", "trailers")], &[("te", "trailers"), ("connection", "te")]),
        fields(&[("host", "LOCALHOST")], &[]),
        fields(&[("transfer_encoding", "chunked"), ("content_length", "5")], &[]),
        fields(&[("trailer", "x"), ("proxy", "http://other"), ("http2-settings", "AAAA")], &[]),
        fields(&[("early-data", "1"), ("x-real-ip", "::1")], &[("early-data", "1")]),
        fields(&[("content-length", "0")], &[("content-length", "0")]),
    ]);
}

#[test]
fn bodies_arrive_framed_once() {
    let smuggled = "0\r\n\r\nGET /p/smuggled HTTP/1.1\r\nhost: x\r\n\r\n";
    let body = |more: &[(&'static str, &'static str)], text: &str| {
        [headers(&with(head("POST", "/p"), more)), frame(DATA, text.as_bytes())].concat()
    };
    let post = || get("/p", "POST /p HTTP/1.1");
    let chunked = || vec![("transfer-encoding", "chunked")];
    let length = ("content-length", "5");
    pass_each(&[
        Case {
            frames: headers(&head("POST", "/p")),
            fields: vec![("content-length", "0")],
            ..post()
        },
        Case { frames: body(&[length], "12345"), fields: vec![length], body: "12345", ..post() },
        Case {
            frames: body(&[length, length], "12345"),
            fields: vec![length],
            body: "12345",
            ..post()
        },
        Case { frames: body(&[], smuggled), fields: chunked(), body: smuggled, ..post() },
        Case {
            frames: [body(&[], "12"), frame(DATA, b""), frame(DATA, b"345")].concat(),
            fields: chunked(),
            body: "12345",
            ..post()
        },
        // Trailers that were not announced stay behind.
        Case {
            frames: [body(&[], "12345"), headers(&[("x-sum", "15")])].concat(),
            fields: chunked(),
            body: "12345",
            ..post()
        },
        Case {
            frames: [body(&[("trailer", "x-sum")], "12345"), headers(&[("x-sum", "15")])].concat(),
            fields: with(chunked(), &[("trailer", "x-sum")]),
            body: "12345",
            trailers: vec![("x-sum", "15")],
            ..post()
        },
    ]);
}

/// However late it is said that there is no body.
#[test]
fn a_request_without_a_body_does_not_become_a_chunked_one() {
    let mut chain = Chain::start();
    for method in ["GET", "HEAD", "OPTIONS", "DELETE"] {
        let start = headers(&head(method, "/p"));
        for more in [vec![], frame(DATA, b""), frame(0x21, b"unknown")] {
            let stream = chain.raw.open();
            chain.raw.act(&Act::Send(stream, start.clone()));
            chain.raw.settle();
            chain.raw.act(&Act::Send(stream, more));
            chain.raw.settle();
            chain.raw.act(&Act::End(stream, Vec::new()));
            assert_eq!(chain.raw.outcome(stream), Outcome::Status(200), "{method}");
            let messages = chain.upstream.messages();
            assert_eq!(messages.len(), 1, "{method}: {messages:?}");
            let message = Message::read(&messages[0]);
            assert_eq!(message.line, format!("{method} /p HTTP/1.1"));
            assert_eq!(message.fields, owned(&[("host", "localhost")]), "{method}");
        }
    }
    chain.end();
}
