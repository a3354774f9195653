//! Parses heads of responses (RFC 9112 §4 and §5), as far as they frame the body (§6.3).
//!
//! It accepts what hyper's client accepts; `properties/response.rs` compares the two. [`response::head`](crate::proxy::response_head)
//! refuses more.

use std::mem::MaybeUninit;

use bytes::BytesMut;
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderName, HeaderValue, StatusCode, Version};
use httparse::{ParserConfig, Status};

use super::body::{Body, Chunked, MAX_LINES};
use crate::exchange::Fields;
use crate::proxy::failure::Failure;
use crate::proxy::response::ReceivedHead;

/// Largest length of a body, bytes.
const MAX_LENGTH: u64 = u64::MAX - 2;

/// Head of a response.
pub(super) struct Head {
    pub(super) response: ReceivedHead,
    /// Whether the upstream lets the connection serve another request.
    pub(super) persists: bool,
}

/// Places of a field's name and value in a head.
type Places = [usize; 4];

/// Parser of the heads on one connection.
#[derive(Debug)]
pub(super) struct HeadParser {
    /// Largest head, bytes.
    limit: usize,
    /// Bytes of the buffer that are part of a head, but not the whole of it.
    seen: usize,
}

impl HeadParser {
    pub(super) fn new(limit: usize) -> HeadParser {
        HeadParser { limit, seen: 0 }
    }

    /// Takes the next head from the buffer; `None` if bytes of it are missing.
    ///
    /// # Errors
    /// The bytes are no head of a response, or it is too large.
    pub(super) fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<Head>, Failure> {
        if !self.may_be_complete(buffer) {
            return self.wait(buffer.len());
        }
        let mut places = [Places::default(); MAX_LINES];
        let Some((length, status, version, lines)) = parse(buffer, &mut places)? else {
            return self.wait(buffer.len());
        };
        if length > self.limit {
            return Err(Failure::HeadTooLarge);
        }
        self.seen = 0;
        let head = buffer.split_to(length).freeze();
        let mut fields = Fields::with_capacity(lines);
        for [name, name_end, value, value_end] in &places[..lines] {
            // Names are tokens, and values have no forbidden characters: httparse has looked.
            let name = HeaderName::from_bytes(&head[*name..*name_end]);
            let name = name.map_err(|_| Failure::HeadTooLarge)?;
            let value = HeaderValue::from_maybe_shared(head.slice(*value..*value_end));
            fields.push((name, value.map_err(|_| Failure::Malformed)?));
        }
        let response = ReceivedHead { status, version, fields };
        let persists = persists(&response);
        Ok(Some(Head { response, persists }))
    }

    /// Returns whether the buffer may have a whole head. A head that arrives in pieces is parsed once its end is there, so that
    /// the work does not grow with the number of pieces.
    fn may_be_complete(&self, buffer: &[u8]) -> bool {
        if self.seen == 0 {
            return !buffer.is_empty();
        }
        let fresh = &buffer[self.seen.saturating_sub(3).min(buffer.len())..];
        let ends = |at: usize| {
            let rest = &fresh[at + 1..];
            match fresh[at] {
                b'\r' => rest.starts_with(b"\n\r\n"),
                b'\n' => rest.starts_with(b"\n") || rest.starts_with(b"\r\n"),
                _ => false,
            }
        };
        buffer.len() > self.seen && (0..fresh.len()).any(ends)
    }

    fn wait(&mut self, length: usize) -> Result<Option<Head>, Failure> {
        self.seen = length;
        if length >= self.limit { Err(Failure::HeadTooLarge) } else { Ok(None) }
    }
}

/// Parses a head, and returns its length, status, version and number of lines; `None` if bytes are missing.
fn parse(
    bytes: &[u8],
    places: &mut [Places; MAX_LINES],
) -> Result<Option<(usize, StatusCode, Version, usize)>, Failure> {
    let mut lines = [const { MaybeUninit::uninit() }; MAX_LINES];
    let mut head = httparse::Response::new(&mut []);
    let parser = ParserConfig::default();
    let length = match parser.parse_response_with_uninit_headers(&mut head, bytes, &mut lines) {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Failure::HeadTooLarge),
        Err(_) => return Err(Failure::Malformed),
    };
    let status = head.code.and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.ok_or(Failure::Malformed)?;
    let version = if head.version == Some(1) { Version::HTTP_11 } else { Version::HTTP_10 };
    let start = bytes.as_ptr().addr();
    let place = |part: &[u8]| {
        let from = part.as_ptr().addr() - start;
        (from, from + part.len())
    };
    for (line, places) in head.headers.iter().zip(places) {
        let ((name, name_end), (value, value_end)) =
            (place(line.name.as_bytes()), place(line.value));
        *places = [name, name_end, value, value_end];
    }
    Ok(Some((length, status, version, head.headers.len())))
}

/// Returns whether the connection persists (RFC 9112 §9.3). Any `close` counts, before and after `keep-alive`.
fn persists(response: &ReceivedHead) -> bool {
    let has = |option| {
        let mut lines = response.fields.iter().filter(|(name, _)| *name == CONNECTION);
        lines.any(|(_, value)| has_option(value.as_bytes(), option))
    };
    !has("close") && (response.version == Version::HTTP_11 || has("keep-alive"))
}

/// Returns whether a line of `connection` has this option.
pub(super) fn has_option(line: &[u8], option: &str) -> bool {
    let mut options = line.split(|byte| *byte == b',');
    options.any(|known| known.trim_ascii().eq_ignore_ascii_case(option.as_bytes()))
}

/// Returns the body that a final response frames (RFC 9112 §6.3), with trailers of at most `limit` bytes.
///
/// # Errors
/// The framing is invalid.
pub(super) fn body(response: &ReceivedHead, is_head: bool, limit: usize) -> Result<Body, Failure> {
    if is_head || matches!(response.status.as_u16(), 101 | 204 | 304) {
        return Ok(Body::Length(0));
    }
    let (mut coding, mut announced) = (None, None);
    let mut is_valid = true;
    for (name, value) in &response.fields {
        if *name == TRANSFER_ENCODING {
            // Only the last one says where the body ends.
            coding = Some(value);
        } else if *name == CONTENT_LENGTH {
            for length in value.to_str().unwrap_or_default().split(',') {
                let length = digits(length.trim());
                is_valid &= length.is_some() && announced.is_none_or(|known| known == length);
                announced = Some(length);
            }
        }
    }
    if let Some(coding) = coding {
        if response.version == Version::HTTP_10 {
            return Err(Failure::Malformed);
        }
        let last = coding.to_str().ok().and_then(|line| line.rsplit(',').next());
        let is_chunked = last.is_some_and(|last| last.trim().eq_ignore_ascii_case("chunked"));
        return Ok(if is_chunked { Body::Chunked(Chunked::new(limit)) } else { Body::UntilClose });
    }
    match announced {
        None => Ok(Body::UntilClose),
        Some(Some(length)) if is_valid => Ok(Body::Length(length)),
        Some(_) => Err(Failure::Malformed),
    }
}

/// Returns whether a response announces a body, whether or not it has one.
pub(super) fn announces_body(response: &ReceivedHead) -> bool {
    response.fields.iter().any(|(name, value)| {
        *name == TRANSFER_ENCODING || *name == CONTENT_LENGTH && value.as_bytes() != b"0"
    })
}

/// Returns a length, which has no sign.
fn digits(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|length| is_number && *length <= MAX_LENGTH)
}
