//! Invariants of every response with a representation in memory.

use bytes::Bytes as Block;

use super::fixture::reply;
use super::metadata::Representation;
use super::range::{self, Wanted};
use crate::exchange::{Body, Reply, RequestHead};

/// Length of the longest response beyond the representation's bytes: 32 parts, each with its head.
const OVERHEAD: usize = 33 * 200;

/// Checks the ranges of a request, and the response to it.
pub(crate) fn check(head: &RequestHead, representation: &Representation) {
    for (name, value) in &head.headers {
        if name == "range" {
            check_ranges(value.as_bytes(), representation.metadata.size);
        }
    }
    check_reply(head, representation);
}

/// Checks that ranges lie within the representation, in its order, not too many, and cover every requested byte and few others.
fn check_ranges(value: &[u8], size: u64) {
    let wanted = range::wanted(value, size);
    let asked = asked(value, size);
    match &wanted {
        Wanted::Whole => {}
        Wanted::Nothing => assert!(asked.is_none_or(|asked| !asked.contains(&true))),
        Wanted::Parts(parts) => {
            assert!((1..=32).contains(&parts.len()));
            let mut before: Option<u64> = None;
            for part in parts {
                assert!(part.start < part.end && part.end <= size, "{parts:?}");
                assert!(before.is_none_or(|end| part.start > end), "{parts:?}");
                before = Some(part.end);
            }
            let covered = |place: usize| parts.iter().any(|part| part.contains(&(place as u64)));
            for (place, asked) in asked.unwrap_or_default().into_iter().enumerate() {
                assert!(!asked || covered(place), "{parts:?} without {place}");
            }
        }
    }
}

/// Returns the bytes that a value requests, if it is written in the plainest way.
fn asked(value: &[u8], size: u64) -> Option<Vec<bool>> {
    let list = std::str::from_utf8(value).ok()?.strip_prefix("bytes=")?;
    let mut asked = vec![false; usize::try_from(size).ok()?];
    for member in list.split(',') {
        let (first, last) = member.split_once('-')?;
        let number = |text: &str| text.parse::<u16>().ok().map(u64::from);
        let range = match (number(first), number(last)) {
            (Some(first), Some(last)) => first..(last + 1).min(size),
            (Some(first), None) if last.is_empty() => first..size,
            (None, Some(last)) if first.is_empty() => size.saturating_sub(last)..size,
            _ => return None,
        };
        for place in range {
            asked[usize::try_from(place).ok()?] = true;
        }
    }
    Some(asked)
}

/// Checks that the request can get the status, and that the body is what the status says: bytes of the representation, each at its offset.
fn check_reply(head: &RequestHead, representation: &Representation) {
    let reply = reply(head, representation);
    let body = match &reply.body {
        Body::Empty => Block::new(),
        Body::Bytes(bytes) => bytes.clone(),
        Body::Generated(_) => panic!("nobody generates it"),
    };
    assert!(body.len() <= representation.bytes.len() + OVERHEAD);
    let has = |name: &str| head.headers.iter().any(|(found, _)| found == name);
    let conditional = ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since"];
    let read = matches!(head.method.as_str(), "GET" | "HEAD");
    match reply.status {
        200 => assert!(read && body == representation.bytes),
        206 => {
            assert!(head.method == "GET" && has("range"));
            check_parts(&reply, &body, &representation.bytes);
        }
        416 => assert!(head.method == "GET" && has("range")),
        304 => assert!(read && body.is_empty() && conditional.iter().any(|name| has(name))),
        412 => assert!(read && conditional.iter().any(|name| has(name))),
        204 => assert!(head.method == "OPTIONS" && body.is_empty()),
        405 => assert!(!read),
        status => panic!("{status}"),
    }
}

fn field<'a>(reply: &'a Reply, wanted: &str) -> Option<&'a str> {
    let found = reply.headers.iter().find(|(name, _)| name == wanted)?;
    found.1.to_str().ok()
}

/// Checks one range by its field, or several by their own heads (RFC 9110 §14.6).
fn check_parts(reply: &Reply, body: &[u8], whole: &[u8]) {
    if let Some(range) = field(reply, "content-range") {
        assert_eq!(body, named(range, whole));
        return;
    }
    let kind = field(reply, "content-type").expect("a type");
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=");
    let boundary = boundary.expect("several ranges").as_bytes();
    let mut rest = body;
    for part in 0.. {
        let line = if part == 0 { &b"--"[..] } else { b"\r\n--" };
        rest = rest.strip_prefix(line).expect("a boundary");
        rest = rest.strip_prefix(boundary).expect("a boundary");
        if rest == b"--\r\n" {
            assert!(part > 1, "one range needs no boundary");
            return;
        }
        let end = rest.windows(4).position(|four| four == b"\r\n\r\n");
        let (head, after) = rest.split_at(end.expect("the part's head") + 4);
        let head = std::str::from_utf8(head).expect("text");
        let range = head.lines().find_map(|line| line.strip_prefix("content-range: "));
        let content = named(range.expect("a range"), whole);
        rest = after.strip_prefix(content).expect("bytes of the representation");
    }
}

/// Returns the bytes that a content-range names.
fn named<'a>(range: &str, whole: &'a [u8]) -> &'a [u8] {
    let parse = || {
        let (range, size) = range.strip_prefix("bytes ")?.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        assert_eq!(size.parse(), Ok(whole.len()));
        whole.get(first..=last)
    };
    parse().unwrap_or_else(|| panic!("{range}"))
}
