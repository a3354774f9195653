//! Evaluates preconditions (RFC 9110 §13).

use http::HeaderName;
use http::header::{IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE};

use super::metadata::Metadata;
use crate::exchange::Fields;

/// Outcome of the preconditions of a GET or HEAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All hold, or there are none.
    Go,
    /// The client has this state of the representation: 304.
    Unchanged,
    /// The client asked for another state: 412.
    Failed,
}

/// Evaluates preconditions in the order of RFC 9110 §13.2.2. Ignores dates that cannot be parsed or that are given twice.
pub(super) fn evaluate(headers: &Fields, metadata: &Metadata) -> Verdict {
    if has(headers, &IF_MATCH) {
        if !any_tag(headers, &IF_MATCH, |tag| tag.is_strongly(metadata)) {
            return Verdict::Failed;
        }
    } else if let (Some(date), Some(modified)) = dates(headers, &IF_UNMODIFIED_SINCE, metadata)
        && modified > date
    {
        return Verdict::Failed;
    }
    if has(headers, &IF_NONE_MATCH) {
        if any_tag(headers, &IF_NONE_MATCH, |tag| tag.is_weakly(metadata)) {
            return Verdict::Unchanged;
        }
    } else if let (Some(date), Some(modified)) = dates(headers, &IF_MODIFIED_SINCE, metadata)
        && modified <= date
    {
        return Verdict::Unchanged;
    }
    Verdict::Go
}

/// Returns whether `range` applies (RFC 9110 §13.1.5): with `if-range`, only if that names exactly this state.
pub(super) fn range_counts(headers: &Fields, metadata: &Metadata) -> bool {
    let mut lines = lines(headers, &IF_RANGE);
    let Some(value) = lines.next() else {
        return true;
    };
    if lines.next().is_some() {
        return false;
    }
    if let Some((tag, b"")) = Tag::read(value) {
        return tag.is_strongly(metadata);
    }
    let modified = metadata.modified.as_ref().map(|(seconds, _)| *seconds);
    modified.is_some() && date(value) == modified
}

fn lines<'a>(headers: &'a Fields, name: &'a HeaderName) -> impl Iterator<Item = &'a [u8]> {
    let lines = headers.iter().filter(move |(found, _)| found == name);
    lines.map(|(_, value)| value.as_bytes().trim_ascii())
}

fn has(headers: &Fields, name: &HeaderName) -> bool {
    lines(headers, name).next().is_some()
}

/// Returns the client's date and the representation's, in seconds since 1970.
fn dates(headers: &Fields, name: &HeaderName, metadata: &Metadata) -> (Option<u64>, Option<u64>) {
    let mut lines = lines(headers, name);
    let asked = lines.next().filter(|_| lines.next().is_none());
    let modified = metadata.modified.as_ref().map(|(seconds, _)| *seconds);
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

    /// Returns whether the tag is that of the representation, byte for byte.
    fn is_strongly(self, metadata: &Metadata) -> bool {
        !self.weak && !metadata.compressed && self.is_weakly(metadata)
    }

    fn is_weakly(self, metadata: &Metadata) -> bool {
        let tag = metadata.etag.as_bytes();
        self.opaque == tag.strip_prefix(b"W/").unwrap_or(tag)
    }
}

/// Returns whether one of the tags of a list fits; `*` does, since there is a representation. Ignores the list from the first syntax error on.
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
    use http::HeaderValue;

    use super::Verdict::{Failed, Go, Unchanged};
    use super::*;
    use crate::exchange::Coding;

    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
    const TAG: &str = "\"1-2ebc98a1.0\"";

    fn dated(modified: Option<u64>) -> Metadata {
        Metadata {
            size: 1,
            etag: HeaderValue::from_static(TAG),
            modified: modified.map(|seconds| (seconds, HeaderValue::from_static(SAME))),
            content_type: HeaderValue::from_static("text/plain"),
            encoding: Coding::Identity,
            varies: false,
            compressed: false,
        }
    }

    fn metadata() -> Metadata {
        dated(Some(784_111_777))
    }

    /// Parses `name: value` lines; `TAG` stands for the representation's tag.
    fn fields(lines: &[&str]) -> Fields {
        let parse = |line: &&str| {
            let (name, value) = line.split_once(": ").unwrap();
            let value = value.replace("TAG", TAG);
            (name.parse().unwrap(), HeaderValue::try_from(value).unwrap())
        };
        lines.iter().map(parse).collect()
    }

    fn verdict(lines: &[&str]) -> Verdict {
        evaluate(&fields(lines), &metadata())
    }

    #[test]
    fn tags_decide() {
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
        // Without a date there is nothing to compare with.
        assert_eq!(evaluate(&fields(&[&line]), &dated(None)), Go);
        let line = format!("if-unmodified-since: {BEFORE}");
        assert_eq!(evaluate(&fields(&[&line]), &dated(None)), Go);
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
    fn a_range_counts_for_exactly_this_state() {
        let counts = |lines: &[&str]| range_counts(&fields(lines), &metadata());
        assert!(counts(&[]));
        assert!(counts(&["if-range: TAG"]));
        assert!(counts(&[&format!("if-range: {SAME}")]));
        for value in ["W/TAG", "\"x\"", "TAG, TAG", "*", "", BEFORE, AFTER, "x"] {
            assert!(!counts(&[&format!("if-range: {value}")]), "{value}");
        }
        assert!(!counts(&["if-range: TAG", "if-range: TAG"]));
        let line = format!("if-range: {SAME}");
        assert!(!range_counts(&fields(&[&line]), &dated(None)));
        assert!(!range_counts(&fields(&["if-range: x"]), &dated(None)));
    }
}
