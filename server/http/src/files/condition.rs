//! Evaluates preconditions (RFC 9110 §13).

use http::HeaderName;
use http::header::{IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE};

use super::meta::Meta;
use crate::exchange::Fields;

/// Outcome of the preconditions of a GET or HEAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All hold, or there are none.
    Go,
    /// The client has this state of the file: 304.
    Unchanged,
    /// The client asked for another state of the file: 412.
    Failed,
}

/// Evaluates preconditions in the order of RFC 9110 §13.2.2. Ignores dates that cannot be parsed or that are given twice.
pub(super) fn evaluate(headers: &Fields, meta: &Meta) -> Verdict {
    if has(headers, &IF_MATCH) {
        if !any_tag(headers, &IF_MATCH, |tag| tag.is_strongly(meta)) {
            return Verdict::Failed;
        }
    } else if let (Some(date), Some(modified)) = dates(headers, &IF_UNMODIFIED_SINCE, meta)
        && modified > date
    {
        return Verdict::Failed;
    }
    if has(headers, &IF_NONE_MATCH) {
        if any_tag(headers, &IF_NONE_MATCH, |tag| tag.is_weakly(meta)) {
            return Verdict::Unchanged;
        }
    } else if let (Some(date), Some(modified)) = dates(headers, &IF_MODIFIED_SINCE, meta)
        && modified <= date
    {
        return Verdict::Unchanged;
    }
    Verdict::Go
}

/// Returns whether `range` applies (RFC 9110 §13.1.5): with `if-range`, only if that names exactly this state of the file.
pub(super) fn range_counts(headers: &Fields, meta: &Meta) -> bool {
    let mut lines = lines(headers, &IF_RANGE);
    let Some(value) = lines.next() else {
        return true;
    };
    if lines.next().is_some() {
        return false;
    }
    if let Some((tag, b"")) = Tag::read(value) {
        return tag.is_strongly(meta);
    }
    let modified = meta.modified.as_ref().map(|(seconds, _)| *seconds);
    modified.is_some() && date(value) == modified
}

fn lines<'a>(headers: &'a Fields, name: &'a HeaderName) -> impl Iterator<Item = &'a [u8]> {
    let lines = headers.iter().filter(move |(found, _)| found == name);
    lines.map(|(_, value)| value.as_bytes().trim_ascii())
}

fn has(headers: &Fields, name: &HeaderName) -> bool {
    lines(headers, name).next().is_some()
}

/// Returns the client's date and the file's, in seconds since 1970.
fn dates(headers: &Fields, name: &HeaderName, meta: &Meta) -> (Option<u64>, Option<u64>) {
    let mut lines = lines(headers, name);
    let asked = lines.next().filter(|_| lines.next().is_none());
    let modified = meta.modified.as_ref().map(|(seconds, _)| *seconds);
    (asked.and_then(date), modified)
}

fn date(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    let time = httpdate::parse_http_date(text).ok()?;
    let since = time.duration_since(std::time::SystemTime::UNIX_EPOCH);
    since.ok().map(|since| since.as_secs())
}

/// An entity tag (RFC 9110 §8.8.3).
#[derive(Clone, Copy, Debug)]
struct Tag<'a> {
    weak: bool,
    /// Tag with its quotes.
    opaque: &'a [u8],
}

impl<'a> Tag<'a> {
    /// Returns the first tag and the text behind it.
    fn read(text: &'a [u8]) -> Option<(Tag<'a>, &'a [u8])> {
        let (weak, text) = match text.strip_prefix(b"W/") {
            Some(text) => (true, text),
            None => (false, text),
        };
        let inside = text.strip_prefix(b"\"")?;
        let length = inside.iter().position(|byte| *byte == b'"')?;
        let (opaque, rest) = text.split_at(length + 2);
        Some((Tag { weak, opaque }, rest))
    }

    /// Returns whether the tag is that of the file, byte for byte.
    fn is_strongly(self, meta: &Meta) -> bool {
        !self.weak && !meta.compressed && self.is_weakly(meta)
    }

    fn is_weakly(self, meta: &Meta) -> bool {
        let tag = meta.etag.as_bytes();
        self.opaque == tag.strip_prefix(b"W/").unwrap_or(tag)
    }
}

/// Returns whether one of the tags of a list fits; `*` does, since the file exists. Ignores the list from the first syntax error on.
fn any_tag(headers: &Fields, name: &HeaderName, fits: impl Fn(Tag<'_>) -> bool) -> bool {
    lines(headers, name).any(|line| {
        let mut left = line;
        if left == b"*" {
            return true;
        }
        loop {
            while let [b',' | b' ' | b'\t', rest @ ..] = left {
                left = rest;
            }
            let Some((tag, rest)) = Tag::read(left) else {
                return false;
            };
            let after = rest.trim_ascii_start();
            if !after.is_empty() && !after.starts_with(b",") {
                return false;
            }
            if fits(tag) {
                return true;
            }
            left = after;
        }
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderValue;

    use super::super::fixture::files;
    use super::super::meta::FileStat;
    use super::Verdict::{Failed, Go, Unchanged};
    use super::*;
    use crate::exchange::Coding;

    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
    const TAG: &str = "\"1-2ebc98a1.0\"";

    fn meta(now: u64) -> Meta {
        let stat = FileStat { size: 1, seconds: 784_111_777, nanoseconds: 0 };
        let now = Duration::from_secs(now);
        Meta::new(b"a", &stat, Coding::Identity, &files(false), now)
    }

    /// Parses `name: value` lines; `TAG` stands for the file's tag.
    fn fields(lines: &[&str]) -> Fields {
        let parse = |line: &&str| {
            let (name, value) = line.split_once(": ").unwrap();
            let value = value.replace("TAG", TAG);
            (name.parse().unwrap(), HeaderValue::try_from(value).unwrap())
        };
        lines.iter().map(parse).collect()
    }

    fn verdict(lines: &[&str]) -> Verdict {
        evaluate(&fields(lines), &meta(u64::MAX))
    }

    #[test]
    fn tags_decide() {
        assert_eq!(meta(0).etag, TAG);
        for (line, expected) in [
            ("if-match: TAG", Go),
            ("if-match: *", Go),
            ("if-match: \"x\", TAG", Go),
            ("if-match: \"x\"", Failed),
            ("if-match: W/TAG", Failed),
            ("if-match: \"x", Failed),
            ("if-match: x TAG", Failed),
            ("if-none-match: TAG", Unchanged),
            ("if-none-match: W/TAG", Unchanged),
            ("if-none-match: *", Unchanged),
            ("if-none-match: \"a,b\" ,, \t W/\"\",TAG", Unchanged),
            ("if-none-match: , TAG,", Unchanged),
            ("if-none-match: \"x\"", Go),
            ("if-none-match: \"x, TAG", Go),
            ("if-none-match: \"x\" TAG", Go),
            ("if-none-match: TAGx", Go),
            ("if-none-match: w/TAG", Go),
            ("if-none-match: *, TAG", Go),
        ] {
            assert_eq!(verdict(&[line]), expected, "{line}");
        }
        assert_eq!(verdict(&["if-none-match: \"x\"", "if-none-match: TAG"]), Unchanged);
    }

    #[test]
    fn dates_decide() {
        for (name, date, expected) in [
            ("if-modified-since", BEFORE, Go),
            ("if-modified-since", SAME, Unchanged),
            ("if-modified-since", AFTER, Unchanged),
            ("if-modified-since", "Sunday, 06-Nov-94 08:49:37 GMT", Unchanged),
            ("if-modified-since", "yesterday", Go),
            ("if-unmodified-since", BEFORE, Failed),
            ("if-unmodified-since", SAME, Go),
            ("if-unmodified-since", AFTER, Go),
            ("if-unmodified-since", "0", Go),
        ] {
            assert_eq!(verdict(&[&format!("{name}: {date}")]), expected, "{name}: {date}");
        }
        let line = format!("if-modified-since: {SAME}");
        assert_eq!(verdict(&[&line, &line]), Go);
        // A file from the future has no date to compare with.
        assert_eq!(evaluate(&fields(&[&line]), &meta(0)), Go);
        let line = format!("if-unmodified-since: {BEFORE}");
        assert_eq!(evaluate(&fields(&[&line]), &meta(0)), Go);
    }

    #[test]
    fn tags_outweigh_dates_and_failure_comes_first() {
        let modified = |date: &str| format!("if-modified-since: {date}");
        let unmodified = |date: &str| format!("if-unmodified-since: {date}");
        assert_eq!(verdict(&["if-none-match: \"x\"", &modified(AFTER)]), Go);
        assert_eq!(verdict(&["if-none-match: TAG", &modified(BEFORE)]), Unchanged);
        assert_eq!(verdict(&["if-match: TAG", &unmodified(BEFORE)]), Go);
        assert_eq!(verdict(&["if-match: \"x\"", &unmodified(AFTER)]), Failed);
        assert_eq!(verdict(&["if-match: \"x\"", "if-none-match: TAG"]), Failed);
        assert_eq!(verdict(&["if-match: TAG", "if-none-match: TAG"]), Unchanged);
        assert_eq!(verdict(&["if-match: TAG", &modified(SAME)]), Unchanged);
        assert_eq!(verdict(&[&unmodified(BEFORE), &modified(SAME)]), Failed);
    }

    #[test]
    fn a_range_counts_for_exactly_this_file() {
        let counts = |lines: &[&str]| range_counts(&fields(lines), &meta(u64::MAX));
        assert!(counts(&[]));
        assert!(counts(&["if-range: TAG"]));
        assert!(counts(&[&format!("if-range: {SAME}")]));
        for value in ["W/TAG", "\"x\"", "TAG, TAG", "*", "", BEFORE, AFTER, "x"] {
            assert!(!counts(&[&format!("if-range: {value}")]), "{value}");
        }
        assert!(!counts(&["if-range: TAG", "if-range: TAG"]));
        let line = format!("if-range: {SAME}");
        assert!(!range_counts(&fields(&[&line]), &meta(0)));
        assert!(!range_counts(&fields(&["if-range: x"]), &meta(0)));
    }
}
