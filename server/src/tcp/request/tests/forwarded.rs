//! Whatever head a client of HTTP/2 sends, an upstream of HTTP/1.1 reads one request, framed once.

use bytes::Bytes;
use http::{HeaderValue, Request, Uri};
use httparse::{EMPTY_HEADER, Status};
use proptest::prelude::*;
use sluicegate_http::proxy::properties::{Forwarded, written};

use super::*;

/// More field lines than a trial has.
const LINES: usize = 64;

/// Names of fields that frame, route or concern the connection, and others.
const NAMES: [&str; 20] = [
    "connection",
    "content-length",
    "content_length",
    "cookie",
    "early-data",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "max-forwards",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "transfer_encoding",
    "upgrade",
    "via",
    "x-a",
    "x-b",
    "x-forwarded-for",
];

/// Values that mean something for one of these fields.
const VALUES: [&str; 14] = [
    "",
    "0",
    "5",
    "+5",
    "5, 5",
    "chunked",
    "gzip, chunked",
    "trailers",
    "100-continue",
    "h2c",
    "localhost",
    "x-a, content-length, transfer-encoding, host",
    "\"",
    "a=b",
];

/// Parts of paths.
const PARTS: [&str; 14] =
    ["/", "a", "//", "..", "%2e", "%0d%0a", "%20", "?", "#", "*", ";", ":", "@", "x=y"];

fn value() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(&VALUES[..]).prop_map(|text| text.as_bytes().to_vec());
    prop_oneof![3 => known, 1 => prop::collection::vec(any::<u8>(), 0..12)]
}

fn fields() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    let known = prop::sample::select(&NAMES[..]).prop_map(str::to_owned);
    let name = prop_oneof![4 => known, 1 => "[!-~]{1,8}"];
    prop::collection::vec((name, value()), 0..8)
}

fn path() -> impl Strategy<Value = String> {
    let known = prop::collection::vec(prop::sample::select(&PARTS[..]), 0..8);
    prop_oneof![known.prop_map(|parts| format!("/{}", parts.concat())), "[!-~]{0,12}"]
}

/// Returns a map of the fields that HTTP/2 can bring.
fn map(lines: &[(String, Vec<u8>)]) -> HeaderMap {
    let lines = lines.iter().filter_map(|(name, value)| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        Some((name, HeaderValue::from_bytes(value).ok()?))
    });
    let mut map = HeaderMap::new();
    lines.for_each(|(name, value)| {
        map.append(name, value);
    });
    map
}

/// Returns what an upstream of HTTP/1.1 receives; `None` if the request is refused.
fn sent(
    (method, path): (&str, &str),
    lines: &HeaderMap,
    body: Option<&[u8]>,
    trailing: &HeaderMap,
) -> Option<(ParsedRequest, Vec<u8>)> {
    let mut uri = Uri::from_static("https://localhost").into_parts();
    uri.path_and_query = Some(PathAndQuery::try_from(path).ok()?);
    let request = Request::builder().method(method).version(Version::HTTP_2);
    let request = request.uri(Uri::from_parts(uri).ok()?).body(());
    let mut parts = request.ok()?.into_parts().0;
    parts.headers = lines.clone();
    let parsed = parse(&parts, "https", 1 << 20).ok()?;
    // `h2` lets only a body of the announced length pass.
    let length = parsed.content_length;
    if parsed.refused_path.is_some()
        || length.is_some_and(|l| l != body.map_or(0, <[u8]>::len) as u64)
    {
        return None;
    }
    let sent = written(Forwarded {
        head: parsed.head.clone(),
        content_length: length,
        body: body.map(|body| vec![Bytes::copy_from_slice(body)]),
        trailers: trailers(trailing).filter(|_| body.is_some()),
        raw_path: false,
    })?;
    Some((parsed, sent))
}

/// Reads one request, and returns whether it is chunked, and the bytes behind its head.
fn read<'a>(parsed: &ParsedRequest, sent: &'a [u8]) -> (bool, &'a [u8]) {
    let shown = String::from_utf8_lossy(sent);
    let mut lines = [EMPTY_HEADER; LINES];
    let mut request = httparse::Request::new(&mut lines);
    let Ok(Status::Complete(end)) = request.parse(sent) else {
        panic!("no request: {shown}");
    };
    assert_eq!(request.method, Some(parsed.head.method.as_str()), "{shown}");
    let target = request.path.unwrap_or_default();
    assert!(target.starts_with('/') || target == "*", "{shown}");
    let values = |wanted: &str| {
        let lines = request.headers.iter().filter(|line| line.name.eq_ignore_ascii_case(wanted));
        lines.map(|line| line.value).collect::<Vec<_>>()
    };
    assert_eq!(values("host"), [b"localhost"], "{shown}");
    let (lengths, codings) = (values("content-length"), values("transfer-encoding"));
    assert!(lengths.len() + codings.len() <= 1, "{shown}");
    for name in ["upgrade", "keep-alive", "proxy-connection", "http2-settings", "expect"] {
        assert!(values(name).is_empty(), "{shown}");
    }
    assert!(values("connection").iter().all(|value| *value == b"te"), "{shown}");
    let rest = &sent[end..];
    if let Some(length) = lengths.first() {
        assert_eq!(*length, rest.len().to_string().as_bytes(), "{shown}");
    }
    (!codings.is_empty(), rest)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn every_head_of_http2_is_one_request_of_http1(
        method in prop::sample::select(&["GET", "POST", "HEAD", "OPTIONS", "DELETE", "X"][..]),
        path in path(),
        lines in fields(),
        body in prop::option::of(prop::collection::vec(any::<u8>(), 0..8)),
        trailing in fields(),
    ) {
        // A stream may end with its head or after it.
        let body = body.as_deref();
        let (lines, trailing) = (map(&lines), map(&trailing));
        if let Some((parsed, sent)) = sent((method, &path), &lines, body, &trailing) {
            let (is_chunked, rest) = read(&parsed, &sent);
            let body = body.unwrap_or_default();
            if !is_chunked {
                prop_assert_eq!(rest, body);
                return Ok(());
            }
            let chunk = format!("{:X}\r\n", body.len());
            let behind = if body.is_empty() {
                rest
            } else {
                let rest = rest.strip_prefix(chunk.as_bytes()).expect("the size of the chunk");
                rest.strip_prefix(body).expect("the chunk").strip_prefix(b"\r\n").expect("its end")
            };
            let trailers = behind.strip_prefix(b"0\r\n").expect("the last chunk");
            let mut found = [EMPTY_HEADER; LINES];
            let Ok(Status::Complete((end, found))) = httparse::parse_headers(trailers, &mut found) else {
                panic!("no end of {trailers:?}");
            };
            prop_assert_eq!(end, trailers.len());
            for line in found {
                let name = line.name.to_ascii_lowercase();
                let framing = ["content-length", "transfer-encoding", "host", "connection"];
                prop_assert!(!framing.contains(&name.as_str()), "{}", name);
            }
        }
    }
}

#[test]
fn ordinary_heads_of_http2_are_sent() {
    let lines = map(&[("x-a".to_owned(), b"1".to_vec())]);
    let found = sent(("POST", "/a?b"), &lines, Some(b"12345"), &HeaderMap::new());
    let (parsed, sent) = found.unwrap();
    assert_eq!(read(&parsed, &sent).1, b"5\r\n12345\r\n0\r\n\r\n");
}
