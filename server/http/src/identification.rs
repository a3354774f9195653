//! Identification of requests across servers: their ID, and their trace context.

use std::cell::RefCell;

use http::{HeaderName, HeaderValue};
use sluicegate_base::entropy::Entropy;
use sluicegate_base::observe::telemetry::{SpanStart, TraceContext};
use sluicegate_config::{
    AcceptRequestId, FollowParent, RequestIdField, Telemetry, TraceparentMode, Tracing,
};

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
/// Longest `tracestate` that a span has, bytes; one that is longer is left out (Trace Context §3.3.1.5).
const MAX_STATE: usize = 512;

/// Settings by which requests are identified.
#[derive(Clone, Debug)]
pub struct Identification {
    /// Field with the ID of a request.
    request_id: Option<HeaderName>,
    accept: AcceptRequestId,
    /// Whether responses return the ID.
    returns: bool,
    traceparent: TraceparentMode,
    /// Choice of the requests that become spans, if spans are exported.
    sampling: Option<Sampling>,
}

/// Choice of the requests that become spans.
#[derive(Clone, Copy, Debug)]
struct Sampling {
    follow: FollowParent,
    /// Random numbers below it choose a request.
    below: u64,
}

impl Sampling {
    fn new(telemetry: &Telemetry) -> Sampling {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the rate is between 0 and 1, and a float as large as all numbers is cut to the largest"
        )]
        let below = (telemetry.sample_rate * u64::MAX as f64) as u64;
        Sampling { follow: telemetry.follow_parent, below }
    }

    /// Returns whether the trace of a request is continued.
    fn follows(&self, is_trusted: impl FnOnce() -> bool) -> bool {
        match self.follow {
            FollowParent::All => true,
            FollowParent::TrustedProxies => is_trusted(),
            FollowParent::None => false,
        }
    }

    /// Returns whether a request becomes a span that has this parent.
    fn chooses(&self, parent: Option<&TraceContext>) -> bool {
        match parent {
            Some(parent) => parent.is_sampled,
            // Not by the ID of the trace: a client could choose it. Not by an odd number, which is biased.
            None => self.below == u64::MAX || u64::from_ne_bytes(draw()) < self.below,
        }
    }
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
    pub fn new(tracing: &Tracing, telemetry: &Telemetry) -> Identification {
        Identification {
            request_id: match &tracing.request_id {
                RequestIdField::Off => None,
                // The configuration accepts only names of fields.
                RequestIdField::Name(name) => HeaderName::try_from(name).ok(),
            },
            accept: tracing.accept_request_id,
            returns: tracing.return_request_id,
            traceparent: tracing.traceparent,
            sampling: telemetry.endpoint.is_some().then(|| Sampling::new(telemetry)),
        }
    }

    /// Returns settings by which requests keep the fields that they bring, and get none.
    pub fn off() -> Identification {
        Identification {
            request_id: None,
            accept: AcceptRequestId::None,
            returns: false,
            traceparent: TraceparentMode::Off,
            sampling: None,
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
            self.screen_trace_context(fields);
        }
    }

    /// Removes `tracestate` without `traceparent`, and both if that is not valid. A new one stands for an invalid one, unless the request
    /// may become a span.
    fn screen_trace_context(&self, fields: &mut Fields) {
        let mut lines = fields.iter().filter(|(name, _)| *name == TRACEPARENT);
        let is_valid = match (lines.next(), lines.next()) {
            (Some((_, context)), None) => TraceContext::parse(context.as_bytes()).is_some(),
            (None, _) => {
                fields.retain(|(name, _)| *name != TRACESTATE);
                return;
            }
            _ => false,
        };
        if !is_valid {
            remove_trace_context(fields);
            if self.sampling.is_none() {
                fields.push((TRACEPARENT, new_traceparent()));
            }
        }
    }

    /// Begins the span of a request whose fields were screened, and names it in `traceparent`. Removes a trace context that is not followed:
    /// an ID that a client chose would let it add to the traces of others. Returns `None` if the request does not become a span; an
    /// upstream then learns that it is not sampled.
    pub fn begin_span(
        &self,
        fields: &mut Fields,
        is_trusted: impl FnOnce() -> bool,
    ) -> Option<Box<SpanStart>> {
        let sampling = self.sampling.as_ref()?;
        let mut parent = trace_context(fields);
        if parent.is_some() && !sampling.follows(is_trusted) {
            remove_trace_context(fields);
            parent = None;
        }
        if !sampling.chooses(parent.as_ref()) {
            return None;
        }
        let trace_id = parent.map_or_else(random, |parent| parent.trace_id);
        let context = TraceContext { trace_id, span_id: random(), is_sampled: true };
        set_trace_context(fields, &context);
        let state = state(fields);
        Some(Box::new(SpanStart { context, parent: parent.map(|parent| parent.span_id), state }))
    }

    /// Names the call to an upstream in `traceparent`, if the request becomes a span. Called once, for the fields that the upstream gets.
    pub fn name_upstream_call(&self, fields: &mut Fields) {
        if self.sampling.is_some()
            && let Some(context) = trace_context(fields).filter(|context| context.is_sampled)
        {
            set_trace_context(fields, &context.of_upstream());
        }
    }

    /// Adds what is missing to the fields of a request that were screened.
    pub fn complete(&self, fields: &mut Fields) {
        if let Some(name) = &self.request_id
            && !has(fields, name)
        {
            fields.push((name.clone(), new_id()));
        }
        let makes = self.traceparent == TraceparentMode::Make || self.sampling.is_some();
        if makes && !has(fields, &TRACEPARENT) {
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

/// Returns random bytes, each value as likely as any other.
fn draw<const N: usize>() -> [u8; N] {
    ENTROPY.with_borrow_mut(Entropy::take::<N>)
}

/// Returns random bytes for an ID, as an odd number so that they are never all zero.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = draw();
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
    let context = TraceContext { trace_id: random(), span_id: random(), is_sampled: false };
    field_value(&context.header())
}

/// Returns the trace context among fields that were screened.
fn trace_context(fields: &[Line]) -> Option<TraceContext> {
    TraceContext::parse(value(fields, &TRACEPARENT)?.as_bytes())
}

fn remove_trace_context(fields: &mut Fields) {
    fields.retain(|(name, _)| *name != TRACEPARENT && *name != TRACESTATE);
}

fn set_trace_context(fields: &mut Fields, context: &TraceContext) {
    let value = field_value(&context.header());
    match fields.iter_mut().find(|(name, _)| *name == TRACEPARENT) {
        Some(line) => line.1 = value,
        None => fields.push((TRACEPARENT, value)),
    }
}

/// Returns the lines of `tracestate` as one (Trace Context §3.3.1.1); nothing if they are too long.
fn state(fields: &[Line]) -> String {
    let lines = fields.iter().filter(|(name, _)| *name == TRACESTATE);
    let lines: Vec<&str> = lines.filter_map(|(_, value)| value.to_str().ok()).collect();
    let state = lines.join(",");
    if state.len() > MAX_STATE { String::new() } else { state }
}

fn field_value(text: &[u8]) -> HeaderValue {
    HeaderValue::from_bytes(text).expect("hexadecimal digits and hyphens")
}

#[cfg(test)]
mod tests;
