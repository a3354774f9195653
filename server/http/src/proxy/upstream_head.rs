//! Head of a request for an upstream.

use std::ops::Range;

use http::{HeaderName, HeaderValue};

use super::request_error::RequestError;
use crate::trusted_proxies::is_token;

/// Longest request target, bytes: what HTTP/2's library can send.
const LONGEST_TARGET: usize = u16::MAX as usize - 1;
/// Bytes of a target and of the values that the proxy writes, which they rarely exceed.
const TYPICAL_TEXT: usize = 512;
/// Bytes of a line in HTTP/1.1 without those of name and value.
const LINE: usize = 4;
/// Lines that the proxy adds to those of a client.
const ADDED_LINES: usize = 8;

/// Framing of a request's body in HTTP/1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// No body.
    None,
    /// A length, in `content-length`.
    Length(u64),
    /// Chunks, by `transfer-encoding: chunked`.
    Chunked,
}

/// Head of a request for an upstream, without the fields that frame its body: each protocol has its own. Names and values of
/// the client's request are borrowed from there.
#[derive(Debug)]
pub(super) struct UpstreamHead<'a> {
    method: &'a str,
    framing: Framing,
    /// The request target, then the values that the proxy writes.
    text: Vec<u8>,
    target: usize,
    lines: Vec<(&'a HeaderName, Value<'a>)>,
}

/// Value of a line.
#[derive(Debug)]
enum Value<'a> {
    Given(&'a HeaderValue),
    /// Place in the text.
    Written(Range<usize>),
}

/// The proxy has written bytes that no value of a field may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InvalidValue;

impl<'a> UpstreamHead<'a> {
    /// Begins the head of a request with this method and target, and with `lines` lines of the client. `target` writes the target.
    ///
    /// # Errors
    /// The method is no token, or the target is too long or has characters that would end it.
    pub(super) fn new(
        method: &'a str,
        lines: usize,
        target: impl FnOnce(&mut Vec<u8>),
    ) -> Result<UpstreamHead<'a>, RequestError> {
        if method.is_empty() || !method.bytes().all(is_token) {
            return Err(RequestError::Method);
        }
        let mut text = Vec::with_capacity(TYPICAL_TEXT);
        target(&mut text);
        // No branch for each byte, so that the compiler can look at many at once.
        let is_bad = |byte: u8| byte <= b' ' || byte == b'#' || byte == 0x7f;
        let any = text.iter().fold(false, |any, byte| any | is_bad(*byte));
        if any || text.is_empty() || text.len() > LONGEST_TARGET {
            return Err(RequestError::Path);
        }
        let lines = Vec::with_capacity(lines + ADDED_LINES);
        Ok(UpstreamHead { method, framing: Framing::None, target: text.len(), text, lines })
    }

    pub(super) fn method(&self) -> &'a str {
        self.method
    }

    /// Returns the request target: the origin form, or the asterisk.
    pub(super) fn target(&self) -> &[u8] {
        &self.text[..self.target]
    }

    /// Returns the size of method, target and lines in HTTP/1.1, bytes.
    pub(super) fn size(&self) -> usize {
        let lines = self.lines().map(|(name, value)| name.as_str().len() + value.len() + LINE);
        self.method.len() + self.target + lines.sum::<usize>()
    }

    /// Returns the framing of the body in HTTP/1.1.
    pub(super) fn framing(&self) -> Framing {
        self.framing
    }

    pub(super) fn set_framing(&mut self, framing: Framing) {
        self.framing = framing;
    }

    /// Returns the length that the request states, if its body is not over already.
    pub(super) fn content_length(&self, is_over: bool) -> Option<u64> {
        match self.framing {
            Framing::Length(length) => Some(length),
            Framing::Chunked if !is_over => None,
            // A method that defines a meaning for content states an empty one (RFC 9110 §8.6).
            Framing::Chunked | Framing::None => {
                matches!(self.method, "POST" | "PUT" | "PATCH").then_some(0)
            }
        }
    }

    /// Adds a line.
    pub(super) fn push(&mut self, name: &'a HeaderName, value: &'a HeaderValue) {
        self.lines.push((name, Value::Given(value)));
    }

    /// Adds a line in place of all others of its field.
    pub(super) fn replace(&mut self, name: &'a HeaderName, value: &'a HeaderValue) {
        self.remove(name);
        self.push(name, value);
    }

    /// Adds a line whose value `write` appends.
    ///
    /// # Errors
    /// No field may have this value.
    pub(super) fn write(
        &mut self,
        name: &'a HeaderName,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), InvalidValue> {
        let start = self.text.len();
        write(&mut self.text);
        let is_bad = |byte: u8| (byte < b' ' && byte != b'\t') || byte == 0x7f;
        if self.text[start..].iter().fold(false, |any, byte| any | is_bad(*byte)) {
            return Err(InvalidValue);
        }
        self.lines.push((name, Value::Written(start..self.text.len())));
        Ok(())
    }

    /// Removes all lines of a field.
    pub(super) fn remove(&mut self, name: &HeaderName) {
        self.lines.retain(|(known, _)| *known != name);
    }

    /// Removes all lines of a field, and returns their values in order with `separator` between them; `None` if there are none.
    pub(super) fn take_joined(&mut self, name: &HeaderName, separator: &[u8]) -> Option<Vec<u8>> {
        if !self.contains(name) {
            return None;
        }
        let values: Vec<_> = self.values(name).collect();
        let joined = values.join(separator);
        self.remove(name);
        Some(joined)
    }

    /// Returns whether there is a line of a field.
    pub(super) fn contains(&self, name: &HeaderName) -> bool {
        self.lines.iter().any(|(known, _)| *known == name)
    }

    /// Returns the values of a field in order.
    pub(super) fn values(&self, name: &HeaderName) -> impl Iterator<Item = &[u8]> {
        self.lines().filter(move |(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Returns all lines in order.
    pub(super) fn lines(&self) -> impl Iterator<Item = (&'a HeaderName, &[u8])> {
        self.lines.iter().map(|(name, value)| match value {
            Value::Given(value) => (*name, value.as_bytes()),
            Value::Written(place) => (*name, &self.text[place.clone()]),
        })
    }
}
