//! Invariants of every path, and of every response with a file in memory.

use std::time::Duration;

use http::{HeaderName, HeaderValue};
use sluicegate_base::properties::Bytes;

use super::FilePath;
use super::fixture::files;
use super::refusal::redirect_to_folder;
use super::stat::{FileStat, describe};
use crate::exchange::{Coding, Preference, RequestHead};
use crate::path::CanonicalPath;
use crate::properties::request_head;
use crate::representation::{Representation, ResponsePlan, properties};

/// Lengths of files, bytes, some of them around the gap that joins two ranges.
const SIZES: [usize; 8] = [0, 1, 2, 79, 80, 81, 300, 1000];

/// Requests a file: method, path and fields, 0x1e between them, behind three bytes that select file and prefix. Returns whether the
/// path can be that of a file.
pub fn file(bytes: &[u8]) -> bool {
    let mut bytes = Bytes::new(bytes);
    let size = bytes.one_of(&SIZES);
    let (kind, cut) = (bytes.byte(), usize::from(bytes.byte()));
    let representation = representation(size, kind);
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
    properties::check(&head, &representation);
    let rest = head.path.get(cut % (head.path.len() + 1)..);
    let rest = rest.unwrap_or(&head.path);
    let Ok(target) = FilePath::of(&head.path, rest) else {
        return false;
    };
    check_target(&target, rest);
    if !target.folder && head.path.starts_with('/') {
        check_place(&redirect_to_folder(&head));
    }
    true
}

/// Returns a file whose bytes tell their offsets.
fn representation(size: usize, kind: u8) -> Representation {
    let codings = [Coding::Identity, Coding::Gzip, Coding::Zstd, Coding::Brotli];
    let stat = FileStat { size: size as u64, seconds: 784_111_777, nanoseconds: 0 };
    let coding = codings[usize::from(kind & 3)];
    let files = files(kind & 4 != 0);
    let metadata = describe(b"a.txt", &stat, coding, &files, Duration::MAX);
    let bytes = (0..size).map(|place| (place % 251).to_le_bytes()[0]).collect();
    Representation::new(metadata, bytes)
}

/// Checks that every name is that of a file below the root, and its part of the path decoded once.
fn check_target(target: &FilePath, rest: &str) {
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
