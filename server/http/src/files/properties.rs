//! Invariants of every path, and of every response with a file in memory.

use std::time::Duration;

use bytes::Bytes as Block;
use http::{HeaderName, HeaderValue};
use sluicegate_base::properties::Bytes;

use super::fixture::{files, reply};
use super::meta::FileStat;
use super::range::{self, Wanted};
use super::response_plan::ResponsePlan;
use super::{Entry, Meta, Target};
use crate::exchange::{Body, Coding, Preference, Reply, RequestHead};
use crate::path::CanonicalPath;
use crate::properties::request_head;

/// Lengths of files, bytes, some of them around the gap that joins two ranges.
const SIZES: [usize; 8] = [0, 1, 2, 79, 80, 81, 300, 1000];
/// Length of the longest response beyond the file's bytes: 32 parts, each with its head.
const OVERHEAD: usize = 33 * 200;

/// Requests a file: method, path and fields, 0x1e between them, behind three bytes that select file and prefix. Returns whether the
/// path can be that of a file.
pub fn file(bytes: &[u8]) -> bool {
    let mut bytes = Bytes::new(bytes);
    let size = bytes.one_of(&SIZES);
    let (kind, cut) = (bytes.byte(), usize::from(bytes.byte()));
    let entry = entry(size, kind);
    let (method, path) = (bytes.text(), bytes.text());
    let Ok(path) = CanonicalPath::parse(&path) else {
        return false;
    };
    let fields = bytes.fields().into_iter().filter_map(|(name, value)| {
        let name = HeaderName::from_bytes(name).ok()?;
        Some((name, HeaderValue::from_bytes(value).ok()?))
    });
    let head = RequestHead { headers: fields.collect(), ..request_head(method, path) };
    check_preference(&Preference::of(&head.headers));
    for (name, value) in &head.headers {
        if name == "range" {
            check_ranges(value.as_bytes(), size as u64);
        }
    }
    check_reply(&head, &entry);
    let rest = head.path.get(cut % (head.path.len() + 1)..);
    let rest = rest.unwrap_or(&head.path);
    let Ok(target) = Target::of(&head.path, rest) else {
        return false;
    };
    check_target(&target, rest);
    if !target.folder && head.path.starts_with('/') {
        check_place(&ResponsePlan::moved(&head));
    }
    true
}

/// Returns a file whose bytes tell their offsets.
fn entry(size: usize, kind: u8) -> Entry {
    let codings = [Coding::Identity, Coding::Gzip, Coding::Zstd, Coding::Brotli];
    let stat = FileStat { size: size as u64, seconds: 784_111_777, nanoseconds: 0 };
    let coding = codings[usize::from(kind & 3)];
    let files = files(kind & 4 != 0);
    let meta = Meta::new(b"a.txt", &stat, coding, &files, Duration::MAX);
    let bytes = (0..size).map(|place| (place % 251).to_le_bytes()[0]).collect();
    Entry::new(meta, bytes)
}

/// Checks that every name is that of a file below the root, and its part of the path decoded once.
fn check_target(target: &Target, rest: &str) {
    assert!(target.path.len() < 4096);
    let asked: Vec<Vec<u8>> =
        rest.split('/').filter(|segment| !segment.is_empty()).map(decoded).collect();
    assert_eq!(*target.path, *asked.join(&b'/'));
    for name in asked {
        let plain = !name.iter().any(|byte| matches!(byte, 0 | b'/' | b'\\'));
        assert!(plain && name.len() <= 255, "{name:?}");
        assert!(!name.starts_with(b".") || name == b".well-known", "{name:?}");
    }
}

fn decoded(segment: &str) -> Vec<u8> {
    let mut parts = segment.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, plain) = part.split_at(2);
        bytes.push(u8::from_str_radix(digits, 16).expect("two digits"));
        bytes.extend_from_slice(plain.as_bytes());
    }
    bytes
}

/// Checks that a redirect to the folder stays on this host.
fn check_place(plan: &ResponsePlan) {
    let location = plan.fields.iter().find(|(name, _)| name == "location");
    let Some((_, place)) = location else {
        assert_eq!(plan.status, 400);
        return;
    };
    let place = place.as_bytes();
    let inside = place.starts_with(b"/") && !matches!(place, [_, b'/' | b'\\', ..]);
    assert!(inside && place.ends_with(b"/"), "{place:?}");
}

/// Checks that each encoding occurs once, the original last.
fn check_preference(preference: &Preference) {
    let codings = preference.codings();
    for (place, coding) in codings.iter().enumerate() {
        assert!(!codings[..place].contains(coding), "{codings:?}");
        let last = place + 1 == codings.len();
        assert!(last || *coding != Coding::Identity, "{codings:?}");
    }
}

/// Checks that ranges lie within the file, in its order, not too many, and cover every requested byte and few others.
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

/// Returns the bytes of the file that a value requests, if it is written in the plainest way.
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

/// Checks that the request can get the status, and that the body is what the status says: bytes of the file, each at its offset.
fn check_reply(head: &RequestHead, entry: &Entry) {
    let reply = reply(head, entry);
    let body = match &reply.body {
        Body::Empty => Block::new(),
        Body::Bytes(bytes) => bytes.clone(),
        Body::Generated(_) => panic!("files are not generated"),
    };
    assert!(body.len() <= entry.bytes.len() + OVERHEAD);
    let has = |name: &str| head.headers.iter().any(|(found, _)| found == name);
    let conditional = ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since"];
    let read = matches!(head.method.as_str(), "GET" | "HEAD");
    match reply.status {
        200 => assert!(read && body == entry.bytes),
        206 => {
            assert!(head.method == "GET" && has("range"));
            check_parts(&reply, &body, &entry.bytes);
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
fn check_parts(reply: &Reply, body: &[u8], file: &[u8]) {
    if let Some(range) = field(reply, "content-range") {
        assert_eq!(body, named(range, file));
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
        let content = named(range.expect("a range"), file);
        rest = after.strip_prefix(content).expect("bytes of the file");
    }
}

/// Returns the bytes that a content-range names.
fn named<'a>(range: &str, file: &'a [u8]) -> &'a [u8] {
    let parse = || {
        let (range, size) = range.strip_prefix("bytes ")?.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        assert_eq!(size.parse(), Ok(file.len()));
        file.get(first..=last)
    };
    parse().unwrap_or_else(|| panic!("{range}"))
}
