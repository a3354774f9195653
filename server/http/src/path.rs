//! The canonical path of a request: one reading that routing, files, upstreams and the access log share.
//!
//! Servers disagree about `//`, `/../`, `%2e` and `%2f`. A path that a route refuses must not reach a handler under another
//! spelling, so every front reads a path once, by [`CanonicalPath::parse`], and nothing behind it decides by the raw one.

#[cfg(any(test, feature = "test-fixtures"))]
pub mod properties;

use std::fmt;
use std::ops::{Deref, Range};

/// A path with each octet in one spelling: percent-encoding decoded once, dot segments removed (RFC 3986 §5.2.4), slashes
/// in a row merged.
///
/// It dereferences to its text, which starts with `/`. The text holds the characters that RFC 3986 §3.3 allows in a segment
/// as themselves and all other octets as `%XX` in upper case. Two spellings have the same text if, and only if, their
/// segments are the same octets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanonicalPath {
    text: String,
    /// The text with the reserved characters that the client encoded still encoded; `None` where it encoded none.
    forward: Option<Box<str>>,
    /// The spelling of [`CanonicalPath::raw`]; `None` where that is the text.
    raw: Option<Box<str>>,
    /// A segment holds an encoded slash or backslash.
    has_separators: bool,
}

/// Reasons to refuse a path with 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The path does not start with a slash.
    #[error("it does not start with a slash")]
    Relative,
    /// A `%` is not followed by two hexadecimal digits.
    #[error("a percent sign is not followed by two hexadecimal digits")]
    Escape,
    /// The path holds NUL, where many programs end a name.
    #[error("it holds NUL")]
    Nul,
    /// The path holds a backslash: some servers see a separator, others a part of a name.
    #[error("it holds a backslash")]
    Separator,
    /// The path holds a dot segment where none may be, such as beside an encoded slash.
    #[error("it holds a dot segment")]
    DotSegment,
    /// A dot segment has parameters, as in `/..;x/`: some servers drop the parameters and then the segment.
    #[error("a dot segment has parameters")]
    DotParameters,
}

impl CanonicalPath {
    /// Reads the raw path of a request target, without its query.
    ///
    /// # Errors
    /// Servers read the path differently; a front responds with 400.
    pub fn parse(raw: &str) -> Result<CanonicalPath, PathError> {
        if is_canonical(raw.as_bytes()) {
            return Ok(CanonicalPath::plain(raw));
        }
        Reader::read(raw)
    }

    /// Returns the target `*` of an OPTIONS request for the whole server (RFC 9110 §7.1).
    pub fn asterisk() -> CanonicalPath {
        CanonicalPath::plain("*")
    }

    /// Returns the empty path of CONNECT without a protocol.
    pub fn empty() -> CanonicalPath {
        CanonicalPath::plain("")
    }

    /// Returns the canonical text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn plain(text: &str) -> CanonicalPath {
        CanonicalPath { text: text.to_owned(), forward: None, raw: None, has_separators: false }
    }

    /// Returns whether a segment holds an encoded slash or backslash, as in `/group%2Fproject`. It is data here: `%2F` or `%5C` in
    /// the text. Other servers may see a separator, so only a route that allows for it takes such a path.
    pub fn has_separators(&self) -> bool {
        self.has_separators
    }

    /// Returns the paths that other servers may read: those that drop parameters, as in `/admin;x=1/users` (RFC 3986 §3.3), and those
    /// that take an encoded slash or backslash for a separator.
    ///
    /// # Errors
    /// Such a server finds no path.
    pub fn other_readings(&self) -> Result<Vec<CanonicalPath>, PathError> {
        let mut readings = Vec::new();
        if self.text.contains(';') {
            readings.push(without_parameters(&self.text));
        }
        if self.has_separators {
            let slashes = self.text.replace("%2F", "/");
            let backslashes = self.text.replace("%5C", "/");
            let separators = slashes.replace("%5C", "/");
            let mut all = vec![slashes, backslashes, separators];
            all.retain(|text| *text != self.text);
            all.dedup();
            if self.text.contains(';') {
                readings.extend(all.iter().map(|text| without_parameters(text)));
            }
            readings.extend(all);
        }
        readings.iter().map(|text| CanonicalPath::parse(text)).collect()
    }

    /// Returns the client's spelling. If that has dot segments, two slashes at its start or an octet outside visible
    /// ASCII, returns the one of [`CanonicalPath::forward`].
    ///
    /// Servers resolve dot segments differently: those that keep slashes in a row read another path from
    /// `/private/x//../../y`. Two slashes at the start begin a host in a reference (RFC 3986 §4.2), and some servers read
    /// a request target as one. Some servers drop octets outside visible ASCII.
    pub fn raw(&self) -> &str {
        self.raw.as_deref().unwrap_or(&self.text)
    }

    /// Returns the spelling of [`CanonicalPath::raw`] for a reference: the characters that RFC 3986 §3.3 excludes are percent-encoded,
    /// because some of them end a reference where it stands in a text.
    pub fn raw_reference(&self) -> String {
        let mut text = String::with_capacity(self.raw().len());
        for byte in self.raw().bytes() {
            if is_unreserved(byte) || is_reserved_in_segment(byte) || b"/%".contains(&byte) {
                text.push(char::from(byte));
            } else {
                escape(byte, &mut text);
            }
        }
        text
    }

    /// Returns the spelling for an upstream, from the given octet of the text on: the same segments, with reserved
    /// characters encoded where the client encoded them. To some upstreams `+` and `%2B` are not the same.
    ///
    /// `from` is the length of a canonical prefix of the text.
    pub fn forward(&self, from: usize) -> &str {
        let Some(forward) = &self.forward else {
            return self.text.get(from..).unwrap_or_default();
        };
        let (text, bytes) = (self.text.as_bytes(), forward.as_bytes());
        let mut at = 0;
        for byte in &text[..from.min(text.len())] {
            at += if bytes[at] == *byte { 1 } else { 3 };
        }
        &forward[at..]
    }
}

impl CanonicalPath {
    /// Returns the same for a part of the text.
    pub fn forward_range(&self, range: Range<usize>) -> &str {
        let from = self.forward(range.start);
        &from[..from.len() - self.forward(range.end).len()]
    }
}

impl Deref for CanonicalPath {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for CanonicalPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns whether an octet is unreserved (RFC 3986 §2.3).
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Returns whether an octet is reserved and may stand in a segment unencoded: sub-delims, `:` and `@` (RFC 3986 §3.3).
fn is_reserved_in_segment(byte: u8) -> bool {
    b"!$&'()*+,;=:@".contains(&byte)
}

/// Returns whether a path surely is in its canonical spelling; `false` for some that are.
fn is_canonical(raw: &[u8]) -> bool {
    let mut after_slash = false;
    for byte in raw {
        match byte {
            b'/' | b'.' if after_slash => return false,
            b'/' => after_slash = true,
            byte if is_unreserved(*byte) || is_reserved_in_segment(*byte) => after_slash = false,
            _ => return false,
        }
    }
    raw.first() == Some(&b'/')
}

/// Spellings of a path while it is read.
struct Reader {
    text: String,
    forward: String,
    /// The path has a dot segment.
    has_dots: bool,
    has_separators: bool,
}

impl Reader {
    fn read(raw: &str) -> Result<CanonicalPath, PathError> {
        let segments = raw.strip_prefix('/').ok_or(PathError::Relative)?.split('/');
        let mut reader = Reader {
            text: String::with_capacity(raw.len()),
            forward: String::with_capacity(raw.len()),
            has_dots: false,
            has_separators: false,
        };
        let mut ends_in_slash = true;
        for segment in segments {
            ends_in_slash = segment.is_empty() || reader.segment(segment)?;
        }
        if ends_in_slash {
            reader.push('/');
        }
        let Reader { text, forward, has_dots, has_separators } = reader;
        let visible = raw.bytes().all(|byte| byte.is_ascii_graphic());
        let is_ambiguous = has_dots || raw.starts_with("//") || !visible;
        let raw = if is_ambiguous { &forward } else { raw };
        Ok(CanonicalPath {
            raw: (raw != text).then(|| raw.into()),
            forward: (forward != text).then(|| forward.into_boxed_str()),
            // One may have stood in a segment that was removed.
            has_separators: has_separators && (text.contains("%2F") || text.contains("%5C")),
            text,
        })
    }

    /// Adds a segment; returns whether it was a dot segment.
    fn segment(&mut self, raw: &str) -> Result<bool, PathError> {
        let (text, forward) = (self.text.len(), self.forward.len());
        self.push('/');
        let mut bytes = raw.bytes();
        while let Some(byte) = bytes.next() {
            if byte == b'%' {
                let (high, low) = (digit(bytes.next()), digit(bytes.next()));
                let (high, low) = high.zip(low).ok_or(PathError::Escape)?;
                self.encoded(high << 4 | low)?;
            } else {
                self.raw(byte)?;
            }
        }
        let name = &self.text[text + 1..];
        let up = name == "..";
        if up || name == "." {
            self.has_dots = true;
            self.text.truncate(text);
            self.forward.truncate(forward);
            if up {
                remove_last(&mut self.text);
                remove_last(&mut self.forward);
            }
            return Ok(true);
        }
        if name.starts_with(".;") || name.starts_with("..;") {
            return Err(PathError::DotParameters);
        }
        if self.has_separators && has_dots_beside_separators(name) {
            return Err(PathError::DotSegment);
        }
        Ok(false)
    }

    /// Adds an octet that the client did not encode.
    fn raw(&mut self, byte: u8) -> Result<(), PathError> {
        if is_unreserved(byte) || is_reserved_in_segment(byte) {
            self.push(char::from(byte));
            return Ok(());
        }
        check(byte)?;
        escape(byte, &mut self.text);
        escape(byte, &mut self.forward);
        Ok(())
    }

    /// Adds an octet that the client encoded.
    fn encoded(&mut self, byte: u8) -> Result<(), PathError> {
        if is_reserved_in_segment(byte) {
            self.text.push(char::from(byte));
            escape(byte, &mut self.forward);
            return Ok(());
        }
        if matches!(byte, b'/' | b'\\') {
            self.has_separators = true;
            escape(byte, &mut self.text);
            escape(byte, &mut self.forward);
            return Ok(());
        }
        self.raw(byte)
    }

    fn push(&mut self, char: char) {
        self.text.push(char);
        self.forward.push(char);
    }
}

fn check(byte: u8) -> Result<(), PathError> {
    match byte {
        0 => Err(PathError::Nul),
        b'\\' => Err(PathError::Separator),
        _ => Ok(()),
    }
}

/// Appends an octet, percent-encoded.
pub(super) fn escape(byte: u8, to: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    to.push('%');
    to.push(char::from(DIGITS[usize::from(byte >> 4)]));
    to.push(char::from(DIGITS[usize::from(byte & 15)]));
}

fn digit(byte: Option<u8>) -> Option<u8> {
    match byte? {
        digit @ b'0'..=b'9' => Some(digit - b'0'),
        digit @ b'a'..=b'f' => Some(digit - b'a' + 10),
        digit @ b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// Returns whether a server that takes an encoded slash or backslash for a separator finds a dot segment in a segment.
fn has_dots_beside_separators(name: &str) -> bool {
    let slashes = name.replace("%5C", "%2F");
    let parts = slashes.split("%2F");
    let mut names = parts.filter_map(|part| part.split(';').next());
    slashes.contains("%2F") && names.any(|name| matches!(name, "." | ".."))
}

/// Returns a path whose segments have no parameters.
fn without_parameters(path: &str) -> String {
    let segments = path.split('/');
    let bare: Vec<&str> = segments.filter_map(|segment| segment.split(';').next()).collect();
    bare.join("/")
}

/// Removes the last segment with its slash; there may be none (RFC 3986 §5.2.4).
fn remove_last(path: &mut String) {
    path.truncate(path.rfind('/').unwrap_or(0));
}

/// Returns the octets of a percent-encoded text (RFC 3986 §2.1). A `%` without two hexadecimal digits stands for itself.
pub fn decoded(text: &str) -> impl Iterator<Item = u8> {
    let mut rest = text.as_bytes();
    std::iter::from_fn(move || {
        let (first, others) = rest.split_first()?;
        let digit = |at: usize| {
            let digit = char::from(*others.get(at)?).to_digit(16)?;
            u8::try_from(digit).ok()
        };
        if let (b'%', Some(high), Some(low)) = (first, digit(0), digit(1)) {
            rest = &others[2..];
            return Some(high << 4 | low);
        }
        rest = others;
        Some(*first)
    })
}

#[cfg(test)]
mod tests;
