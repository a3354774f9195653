//! Properties of every request that an HTTP/1.1 server receives, as httparse reads it.

use bytes::Bytes as Block;
use httparse::{EMPTY_HEADER, Status};
use quiche::h3::Header;
use sluicegate_base::properties::Bytes;
use sluicegate_http::exchange::{Fields, RequestHead};
use sluicegate_http::path::CanonicalPath;
use sluicegate_http::proxy::properties::{Forwarded, is_claim, written};
use sluicegate_http::target::Query;

use super::super::request;
use super::LARGEST;

/// Longest body of a trial, bytes.
const LONGEST: usize = 4096;
/// More field lines than a head may have.
const LINES: usize = 256;

/// Fields beside claims that the proxy writes itself, drops, or adds to. A name with `_` counts as one with `-`.
const OWN: [&str; 11] = [
    "connection",
    "content-length",
    "cookie",
    "early-data",
    "expect",
    "host",
    "http2-settings",
    "max-forwards",
    "proxy",
    "te",
    "via",
];

/// A field line as a parser reads it.
type Line = (String, Vec<u8>);

/// Forwards a request: a byte of flags, the body, and field lines as for [`head`](super::head), each part with its end. What
/// an HTTP/1.1 parser reads is the same request, and nothing behind it. Returns whether the request is forwarded.
pub fn upstream(bytes: &[u8]) -> bool {
    let mut bytes = Bytes::new(bytes);
    let flags = bytes.byte();
    let mut body = bytes.part().to_vec();
    let list: Vec<Header> =
        bytes.fields().into_iter().map(|(name, value)| Header::new(name, value)).collect();
    let Ok(parsed) = request::parse(&list, LARGEST) else {
        return false;
    };
    let length = parsed.content_length;
    let length = length.map(|length| usize::try_from(length).unwrap_or(usize::MAX));
    if body.len() > LONGEST || length.is_some_and(|length| length > LONGEST) {
        return false;
    }
    // The front lets only a body of the announced length pass.
    body.resize(length.unwrap_or(body.len()), flags);
    let has_body = flags & 1 == 1 || !body.is_empty();
    let pseudo = list.iter().position(|line| !is_pseudo(line));
    let lines = &list[pseudo.unwrap_or(list.len())..];
    let trailers = request::trailers(lines, LARGEST).ok();
    let trailers = trailers.filter(|_| flags & 2 == 2 && has_body);
    let cut = usize::from(flags >> 3).min(body.len());
    let blocks = [&body[..cut], &body[cut..]].map(Block::copy_from_slice);
    let sent = written(Forwarded {
        head: parsed.head.clone(),
        content_length: parsed.content_length,
        body: has_body.then(|| blocks.into_iter().filter(|block| !block.is_empty()).collect()),
        trailers: trailers.clone(),
        raw_path: flags & 4 == 4,
    });
    let Some(sent) = sent else {
        return false;
    };
    let rest = check_request(&parsed.head, &sent, &body);
    check_trailers(trailers.unwrap_or_default(), rest);
    true
}

fn is_pseudo(line: &Header) -> bool {
    quiche::h3::NameValue::name(line).starts_with(b":")
}

/// Checks head and body, and returns the trailer section behind a chunked body.
fn check_request<'a>(head: &RequestHead, sent: &'a [u8], body: &[u8]) -> Option<&'a [u8]> {
    let shown = String::from_utf8_lossy(sent);
    let mut lines = [EMPTY_HEADER; LINES];
    let mut parsed = httparse::Request::new(&mut lines);
    let Ok(Status::Complete(end)) = parsed.parse(sent) else {
        panic!("no HTTP/1.1: {shown}");
    };
    assert_eq!(parsed.version, Some(1), "{shown}");
    assert_eq!(parsed.method, Some(head.method.as_str()), "{shown}");
    check_target(head, parsed.path.unwrap_or_default());
    let lines: Vec<Line> = { parsed.headers.iter() }
        .map(|line| (line.name.to_ascii_lowercase(), line.value.to_vec()))
        .collect();
    let is_chunked = check_framing(&lines, body, &shown);
    check_fields(&head.headers, &lines, &shown);
    let hosts = values(&lines, "host");
    assert_eq!(hosts, [head.authority.as_bytes()], "{shown}");
    let rest = &sent[end..];
    if is_chunked {
        let (content, rest) = chunks(rest);
        assert_eq!(content, body, "{shown}");
        return Some(rest);
    }
    assert_eq!(rest, body, "{shown}");
    None
}

/// Checks that the target has one reading, that of the client's.
fn check_target(head: &RequestHead, target: &str) {
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    // A raw query has the client's spelling.
    let query = query.map(Query::new);
    assert_eq!(query.as_deref(), head.query.as_deref(), "{target}");
    if target == "*" {
        assert_eq!((head.method.as_str(), head.path.as_str()), ("OPTIONS", "*"));
        return;
    }
    let read = CanonicalPath::parse(path);
    assert_eq!(read.as_deref(), Ok(head.path.as_str()), "{target}");
}

/// Checks that the length of the body can be read in one way. Returns whether it is chunked.
fn check_framing(lines: &[Line], body: &[u8], shown: &str) -> bool {
    let (lengths, codings) = (values(lines, "content-length"), values(lines, "transfer-encoding"));
    assert!(lengths.len() + codings.len() <= 1, "{shown}");
    match (lengths.first(), codings.first()) {
        (Some(length), _) => assert_eq!(*length, body.len().to_string().as_bytes(), "{shown}"),
        (None, Some(coding)) => assert_eq!(*coding, b"chunked", "{shown}"),
        (None, None) => assert!(body.is_empty(), "{shown}"),
    }
    for name in ["expect", "upgrade", "keep-alive", "proxy-connection"] {
        assert!(values(lines, name).is_empty(), "{shown}");
    }
    let connection = values(lines, "connection");
    assert!(connection.iter().all(|value| *value == b"te"), "{shown}");
    !codings.is_empty()
}

/// Checks that each line of the client that is for the upstream stands there once, in its place among those of its name, and
/// nothing else does.
fn check_fields(fields: &Fields, lines: &[Line], shown: &str) {
    let is_chunked = !values(lines, "transfer-encoding").is_empty();
    let passes = |name: &str| {
        let name = name.replace('_', "-");
        let own = OWN.contains(&name.as_str()) || is_claim(&name);
        !own && name != "transfer-encoding" && (name != "trailer" || is_chunked)
    };
    let mut expected: Vec<Line> = { fields.iter() }
        .filter(|(name, _)| passes(name.as_str()))
        .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
        .collect();
    let mut found: Vec<Line> = lines.iter().filter(|(name, _)| passes(name)).cloned().collect();
    // Stable: lines of one name keep their order.
    expected.sort_by(|(one, _), (other, _)| one.cmp(other));
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    assert_eq!(found, expected, "{shown}");
    let cookies = fields.iter().filter(|(name, value)| name == "cookie" && !value.is_empty());
    let cookies: Vec<&[u8]> = cookies.map(|(_, value)| value.as_bytes()).collect();
    let joined = cookies.join(&b"; "[..]);
    let found = values(lines, "cookie");
    assert!(found.len() <= 1, "{shown}");
    assert_eq!(found.concat(), joined, "{shown}");
}

fn values<'a>(lines: &'a [Line], wanted: &str) -> Vec<&'a [u8]> {
    let lines = lines.iter().filter(|(name, _)| name == wanted);
    lines.map(|(_, value)| value.as_slice()).collect()
}

/// Reads a chunked body. Returns its content and the bytes behind the last chunk's line.
fn chunks(mut rest: &[u8]) -> (Vec<u8>, &[u8]) {
    let mut content = Vec::new();
    loop {
        let Ok(Status::Complete((start, size))) = httparse::parse_chunk_size(rest) else {
            panic!("no chunk: {}", String::from_utf8_lossy(rest));
        };
        rest = &rest[start..];
        if size == 0 {
            return (content, rest);
        }
        let (chunk, behind) = rest.split_at(usize::try_from(size).expect("a small chunk"));
        content.extend_from_slice(chunk);
        rest = behind.strip_prefix(b"\r\n").expect("the chunk's end");
    }
}

/// Checks the trailer section behind a chunked body, and that nothing follows it.
fn check_trailers(sent: Fields, rest: Option<&[u8]>) {
    let Some(rest) = rest else {
        return;
    };
    let mut lines = [EMPTY_HEADER; LINES];
    let Ok(Status::Complete((end, found))) = httparse::parse_headers(rest, &mut lines) else {
        panic!("no end: {}", String::from_utf8_lossy(rest));
    };
    assert_eq!(end, rest.len(), "{}", String::from_utf8_lossy(rest));
    for line in found {
        let name = line.name.to_ascii_lowercase();
        let framing = ["content-length", "host", "trailer", "transfer-encoding"];
        assert!(!framing.contains(&name.as_str()), "{name}");
        let known = |(known, value): &(http::HeaderName, http::HeaderValue)| {
            known.as_str() == name && value.as_bytes() == line.value
        };
        assert!(sent.iter().any(known), "{name}");
    }
}
