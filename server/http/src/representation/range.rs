//! Parses requests for ranges of bytes (RFC 9110 §14).

use std::ops::Range;

/// Largest number of ranges; a request with more gets the whole representation.
const MAX_RANGES: usize = 32;
/// Largest gap between ranges that are sent as one, bytes: the head of a part is longer (RFC 9110 §15.3.7.2).
const GAP: u64 = 80;

/// The part of a representation that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The whole: the field cannot be parsed, has another unit, or too many ranges.
    Whole,
    /// One range or more, none of them empty, ascending and apart.
    Parts(Vec<Range<u64>>),
    /// No byte that there is.
    Nothing,
}

/// One range as written in the field.
#[derive(Clone, Copy, Debug)]
enum Spec {
    /// Offsets of the first and the last byte.
    From(u64, u64),
    /// Number of bytes at the end.
    Last(u64),
}

/// Parses the value of a `range` field for a representation of `size` bytes.
pub(super) fn wanted(value: &[u8], size: u64) -> Wanted {
    let Some(specs) = specs(value) else {
        return Wanted::Whole;
    };
    if size == 0 && specs.iter().any(|spec| matches!(spec, Spec::Last(1..))) {
        // It can be satisfied, but not be put in a content-range.
        return Wanted::Whole;
    }
    let mut parts: Vec<_> = specs.iter().filter_map(|spec| spec.within(size)).collect();
    if parts.is_empty() {
        return Wanted::Nothing;
    }
    parts.sort_unstable_by_key(|part| part.start);
    parts.dedup_by(|next, part| {
        let near = next.start <= part.end.saturating_add(GAP);
        if near {
            part.end = part.end.max(next.end);
        }
        near
    });
    Wanted::Parts(parts)
}

impl Spec {
    fn within(self, size: u64) -> Option<Range<u64>> {
        let range = match self {
            Spec::From(first, last) => first..last.saturating_add(1).min(size),
            Spec::Last(count) => size.saturating_sub(count)..size,
        };
        (range.start < range.end).then_some(range)
    }
}

/// Parses `bytes=` and at least one range.
fn specs(value: &[u8]) -> Option<Vec<Spec>> {
    let text = std::str::from_utf8(value).ok()?.trim_ascii();
    let (unit, list) = text.split_once('=')?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    let mut specs = Vec::new();
    let members = list.split(',').map(|member| member.trim_matches([' ', '\t']));
    for member in members.filter(|member| !member.is_empty()) {
        if specs.len() == MAX_RANGES {
            return None;
        }
        specs.push(match member.split_once('-')? {
            ("", count) => Spec::Last(number(count)?),
            (first, "") => Spec::From(number(first)?, u64::MAX),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Spec::From(first, last))?
            }
        });
    }
    (!specs.is_empty()).then_some(specs)
}

/// Parses digits; a number that does not fit becomes the largest.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a list of ranges with one in it")]
mod tests {
    use super::*;

    fn parts(value: &str, size: u64, expected: &[Range<u64>]) {
        let expected = Wanted::Parts(expected.to_vec());
        assert_eq!(wanted(value.as_bytes(), size), expected, "{value} of {size}");
    }

    #[test]
    fn every_form_is_read() {
        parts("bytes=0-0", 1000, &[0..1]);
        parts("bytes=0-499", 1000, &[0..500]);
        parts("bytes=500-", 1000, &[500..1000]);
        parts("bytes=-500", 1000, &[500..1000]);
        parts("bytes=-2000", 1000, &[0..1000]);
        parts("bytes=999-5000", 1000, &[999..1000]);
        parts("BYTES=0-0", 1000, &[0..1]);
        parts(" bytes=\t0-0 ,, 500-501 ", 1000, &[0..1, 500..502]);
        parts("bytes=0-99999999999999999999999", 1000, &[0..1000]);
        parts("bytes=-99999999999999999999999", 1000, &[0..1000]);
        parts("bytes=0-18446744073709551615", u64::MAX, &[0..u64::MAX]);
        parts("bytes=0-0,2000-", 1000, &[0..1]);
    }

    #[test]
    fn what_cannot_be_read_asks_for_all() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=a-b",
            "bytes=1",
            "bytes=2-1",
            "bytes=0-0,2-1",
            "bytes=0-0,x",
            "bytes=--1",
            "bytes=1--2",
            "bytes=+1-2",
            "bytes=0x1-2",
            "bytes=1 - 2",
            "items=0-0",
            "bytes 0-0",
            "bytes=0-0;1-1",
            "bytes=0-0=",
        ] {
            assert_eq!(wanted(value.as_bytes(), 1000), Wanted::Whole, "{value}");
        }
        assert_eq!(wanted(b"bytes=0-0\xff", 1000), Wanted::Whole);
    }

    #[test]
    fn nothing_that_is_there_is_an_error() {
        for (value, size) in [
            ("bytes=1000-", 1000),
            ("bytes=1000-1001,5000-", 1000),
            ("bytes=-0", 1000),
            ("bytes=0-", 0),
            ("bytes=0-0,-0", 0),
            ("bytes=99999999999999999999999-", 1000),
        ] {
            assert_eq!(wanted(value.as_bytes(), size), Wanted::Nothing, "{value}");
        }
        assert_eq!(wanted(b"bytes=-1", 0), Wanted::Whole);
    }

    #[test]
    fn many_ranges_are_bounded() {
        let ask = |count: usize| {
            let list: Vec<_> = (0..count).map(|i| format!("{}-{}", 1000 * i, 1000 * i)).collect();
            wanted(format!("bytes={}", list.join(",")).as_bytes(), u64::MAX)
        };
        let Wanted::Parts(parts) = ask(MAX_RANGES) else {
            panic!("as many as are allowed");
        };
        assert_eq!(parts.len(), MAX_RANGES);
        assert_eq!(ask(MAX_RANGES + 1), Wanted::Whole);
        assert_eq!(ask(100_000), Wanted::Whole);
    }

    /// Compares with sets of bytes: every pair of ranges over files of 0 to 4 bytes, then pairs around the gap.
    #[test]
    fn parts_hold_what_was_asked_for_and_little_else() {
        let mut specs = vec!["-0".to_owned(), "-1".to_owned(), "-3".to_owned()];
        for first in [0_u64, 1, 3, 100, 180, 181, 182, 500] {
            specs.push(format!("{first}-"));
            for last in [0, 1, 2, 99, 100, 101, 181, 600] {
                if first <= last {
                    specs.push(format!("{first}-{last}"));
                }
            }
        }
        for size in [0, 1, 2, 3, 4, 101, 182, 400] {
            for (one, other) in specs.iter().flat_map(|a| specs.iter().map(move |b| (a, b))) {
                let asked: Vec<u64> = (0..size)
                    .filter(|byte| holds(one, *byte, size) || holds(other, *byte, size))
                    .collect();
                let value = format!("bytes={one},{other}");
                match wanted(value.as_bytes(), size) {
                    Wanted::Whole => assert_eq!(size, 0, "{value}"),
                    Wanted::Nothing => assert!(asked.is_empty(), "{value} of {size}"),
                    Wanted::Parts(parts) => check(&parts, &asked, size, &value),
                }
            }
        }
    }

    /// Returns whether a range holds a byte, by the words of RFC 9110 §14.1.2.
    fn holds(spec: &str, byte: u64, size: u64) -> bool {
        let (first, last) = spec.split_once('-').unwrap();
        let number = |text: &str| text.parse::<u64>().unwrap();
        match (first, last) {
            ("", count) => byte + number(count) >= size,
            (first, "") => byte >= number(first),
            (first, last) => (number(first)..=number(last)).contains(&byte),
        }
    }

    fn check(parts: &[Range<u64>], asked: &[u64], size: u64, value: &str) {
        let said = format!("{value} of {size}: {parts:?}");
        assert!(parts.last().is_some_and(|part| part.end <= size), "{said}");
        assert!(parts.iter().all(|part| part.start < part.end), "{said}");
        for pair in parts.windows(2) {
            assert!(pair[0].end + GAP < pair[1].start, "{said}");
        }
        let within = |byte: &u64| parts.iter().any(|part| part.contains(byte));
        assert!(asked.iter().all(within), "{said}");
        for part in parts {
            assert!(asked.contains(&part.start) && asked.contains(&(part.end - 1)), "{said}");
            let missing = part.clone().filter(|byte| !asked.contains(byte)).count();
            // Two ranges have one gap between them at most.
            assert!(missing as u64 <= GAP, "{said}");
        }
    }
}
