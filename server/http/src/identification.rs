//! Identification of requests across servers: their ID, and their trace context.

use std::cell::RefCell;

use http::{HeaderName, HeaderValue};
use sluicegate_base::entropy::Entropy;
use sluicegate_config::{AcceptRequestId, RequestIdField, TraceparentMode, Tracing};

use crate::field_name::is_written_like;

thread_local! {
    /// Random bytes for IDs. A call of BoringSSL for each would cost as much as the rest of a small request's head.
    static ENTROPY: RefCell<Entropy> = RefCell::new(Entropy::new());
}

/// Line of a field.
type Line = (HeaderName, HeaderValue);
/// Field lines of a message.
type Fields = Vec<Line>;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Longest ID that is accepted, bytes.
const MAX_ID: usize = 128;
/// Length of a `traceparent` of version 00, bytes.
const TRACEPARENT_LENGTH: usize = 55;

/// Settings by which requests are identified.
#[derive(Clone, Debug)]
pub struct Identification {
    /// Field with the ID of a request.
    request_id: Option<HeaderName>,
    accept: AcceptRequestId,
    /// Whether responses return the ID.
    returns: bool,
    traceparent: TraceparentMode,
}

/// Line of a response that returns the ID of its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReturnedId(HeaderName, HeaderValue);

impl ReturnedId {
    /// Adds the line to a response, in place of others with its name.
    pub fn add(&self, fields: &mut Fields) {
        fields.retain(|(name, _)| *name != self.0);
        fields.push((self.0.clone(), self.1.clone()));
    }
}

impl Identification {
    /// Returns the settings of a configuration.
    pub fn new(tracing: &Tracing) -> Identification {
        Identification {
            request_id: match &tracing.request_id {
                RequestIdField::Off => None,
                // The configuration accepts only names of fields.
                RequestIdField::Name(name) => HeaderName::try_from(name).ok(),
            },
            accept: tracing.accept_request_id,
            returns: tracing.return_request_id,
            traceparent: tracing.traceparent,
        }
    }

    /// Returns settings by which requests keep the fields that they bring, and get none.
    pub fn off() -> Identification {
        Identification {
            request_id: None,
            accept: AcceptRequestId::None,
            returns: false,
            traceparent: TraceparentMode::Off,
        }
    }

    /// Returns the field with the ID of a request; `None` if there is none.
    pub fn field(&self) -> Option<&HeaderName> {
        self.request_id.as_ref()
    }

    /// Returns whether responses return the ID.
    pub fn returns(&self) -> bool {
        self.returns && self.request_id.is_some()
    }

    /// Removes an ID that is not accepted, and replaces a trace context that is not valid. `is_trusted` returns whether the
    /// request came from a trusted proxy; it is called only if the request brings an ID.
    pub fn screen(&self, fields: &mut Fields, is_trusted: impl FnOnce() -> bool) {
        if let Some(wanted) = &self.request_id {
            let mut is_trusted = Some(is_trusted);
            let mut is_accepted = || match self.accept {
                AcceptRequestId::All => true,
                AcceptRequestId::None => false,
                AcceptRequestId::TrustedProxies => is_trusted.take().is_some_and(|ask| ask()),
            };
            let mut lines = fields.iter().filter(|(name, _)| name == wanted);
            let keeps = match (lines.next(), lines.next()) {
                (Some((_, id)), None) => is_id(id.as_bytes()) && is_accepted(),
                _ => false,
            };
            let is_similar = |name: &HeaderName| is_written_like(name.as_str(), wanted.as_str());
            if fields.iter().any(|(name, _)| is_similar(name)) {
                fields.retain(|(name, _)| !is_similar(name) || keeps && name == wanted);
            }
        }
        if self.traceparent != TraceparentMode::Off {
            screen_trace_context(fields);
        }
    }

    /// Adds what is missing to the fields of a request that were screened.
    pub fn complete(&self, fields: &mut Fields) {
        if let Some(name) = &self.request_id
            && !has(fields, name)
        {
            fields.push((name.clone(), new_id()));
        }
        if self.traceparent == TraceparentMode::Make && !has(fields, &TRACEPARENT) {
            fields.push((TRACEPARENT, new_traceparent()));
        }
    }

    /// Returns the ID among the fields of a request that were screened.
    pub fn request_id<'a>(&self, fields: &'a [Line]) -> Option<&'a HeaderValue> {
        value(fields, self.request_id.as_ref()?)
    }

    /// Returns the trace context among the fields of a request that were screened.
    pub fn traceparent<'a>(&self, fields: &'a [Line]) -> Option<&'a HeaderValue> {
        match self.traceparent {
            TraceparentMode::Off => None,
            TraceparentMode::Pass | TraceparentMode::Make => value(fields, &TRACEPARENT),
        }
    }

    /// Returns the line that responses to a request get, if they return its ID.
    pub fn returned(&self, fields: &[Line]) -> Option<Box<ReturnedId>> {
        let name = self.request_id.as_ref().filter(|_| self.returns)?;
        let id = value(fields, name)?;
        Some(Box::new(ReturnedId(name.clone(), id.clone())))
    }
}

/// Removes `tracestate` without `traceparent`, and replaces both by a new `traceparent` if that is not valid.
fn screen_trace_context(fields: &mut Fields) {
    let mut lines = fields.iter().filter(|(name, _)| *name == TRACEPARENT);
    let is_valid = match (lines.next(), lines.next()) {
        (Some((_, context)), None) => is_traceparent(context.as_bytes()),
        (None, _) => {
            fields.retain(|(name, _)| *name != TRACESTATE);
            return;
        }
        _ => false,
    };
    if !is_valid {
        fields.retain(|(name, _)| *name != TRACEPARENT && *name != TRACESTATE);
        fields.push((TRACEPARENT, new_traceparent()));
    }
}

fn value<'a>(fields: &'a [Line], wanted: &HeaderName) -> Option<&'a HeaderValue> {
    let mut found = fields.iter().filter(|(name, _)| name == wanted);
    found.next().map(|(_, value)| value)
}

fn has(fields: &[Line], wanted: &HeaderName) -> bool {
    value(fields, wanted).is_some()
}

fn is_id(text: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~:/+=@".contains(byte);
    (1..=MAX_ID).contains(&text.len()) && text.iter().all(plain)
}

/// Returns whether the value of `traceparent` is valid (Trace Context §3.2). Versions above 00 may have further parts.
fn is_traceparent(text: &[u8]) -> bool {
    let Some((known, rest)) = text.split_at_checked(TRACEPARENT_LENGTH) else {
        return false;
    };
    let mut parts = known.split(|byte| *byte == b'-');
    let mut part = |length: usize| {
        let digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        parts.next().filter(|part| part.len() == length && part.iter().all(digit))
    };
    let (Some(version), Some(trace), Some(parent), Some(_)) =
        (part(2), part(32), part(16), part(2))
    else {
        return false;
    };
    let is_set = |part: &[u8]| part.iter().any(|digit| *digit != b'0');
    let is_whole = match version {
        b"ff" => false,
        b"00" => rest.is_empty(),
        _ => rest.is_empty() || rest.starts_with(b"-"),
    };
    is_whole && is_set(trace) && is_set(parent)
}

/// Returns random bytes, as an odd number so that they are never all zero.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = ENTROPY.with_borrow_mut(Entropy::take::<N>);
    bytes[N - 1] |= 1;
    bytes
}

/// Writes two digits for each byte.
fn hex(out: &mut [u8], bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (pair, byte) in out.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 0xf)];
    }
}

fn new_id() -> HeaderValue {
    let mut text = [0; 32];
    hex(&mut text, &random::<16>());
    field_value(&text)
}

/// Returns a context that is not sampled.
fn new_traceparent() -> HeaderValue {
    let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
    hex(&mut text[3..35], &random::<16>());
    hex(&mut text[36..52], &random::<8>());
    field_value(&text)
}

fn field_value(text: &[u8]) -> HeaderValue {
    HeaderValue::from_bytes(text).expect("hexadecimal digits and hyphens")
}

#[cfg(test)]
mod tests;
