//! Spans as messages of OTLP, by the semantic conventions for HTTP.

use std::time::Duration;

use data_encoding::HEXLOWER;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{
    ResourceSpans, ScopeSpans, Span as Message, SpanFlags, Status,
};
use prost::Message as _;
use sluicegate_base::observe::access::Outcome;
use sluicegate_base::observe::metrics::Label as _;
use sluicegate_base::observe::telemetry::{MAX_TEXT, Span, TraceContext, UpstreamCall};

/// Methods that an attribute may name; others are `_OTHER`.
const METHODS: [&str; 10] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"];

/// Attributes of the process that spans come from.
pub(super) struct ServiceResource(Vec<KeyValue>);

impl ServiceResource {
    /// Returns the attributes of this process, with the name of its service.
    pub(super) fn of_host(service: &str) -> ServiceResource {
        let mut attributes = Attributes::default();
        attributes.text("service.name", service);
        attributes.text("service.version", env!("CARGO_PKG_VERSION"));
        // As uname(2) returns it.
        if let Ok(name) = std::fs::read_to_string("/proc/sys/kernel/hostname") {
            attributes.text("host.name", name.trim());
        }
        attributes.number("process.pid", u64::from(std::process::id()));
        ServiceResource(attributes.0)
    }
}

/// Returns a request to a collector with these spans.
pub(super) fn encode(spans: &[Span], resource: &ServiceResource) -> Vec<u8> {
    let mut messages = Vec::with_capacity(spans.len());
    for span in spans {
        messages.push(server(span));
        messages.extend(span.upstream.as_ref().map(|call| client(span, call)));
    }
    let scope = InstrumentationScope {
        name: "sluicegate".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let spans = ScopeSpans { scope: Some(scope), spans: messages, ..ScopeSpans::default() };
    let resource = Resource { attributes: resource.0.clone(), ..Resource::default() };
    let spans = ResourceSpans {
        resource: Some(resource),
        scope_spans: vec![spans],
        ..ResourceSpans::default()
    };
    ExportTraceServiceRequest { resource_spans: vec![spans] }.encode_to_vec()
}

/// Returns the span of the request.
fn server(span: &Span) -> Message {
    let mut attributes = Attributes::default();
    let method = attributes.method(&span.method);
    attributes.text("url.scheme", span.scheme);
    attributes.text("url.path", &span.path);
    attributes.text_if("url.query", span.query.as_deref());
    attributes.text_if("http.route", span.route.as_deref());
    attributes.server(&span.authority);
    attributes.text("network.protocol.name", "http");
    attributes.text("network.protocol.version", version(span.protocol));
    attributes.text("client.address", &span.client.ip().to_string());
    let sender = span.proxy.unwrap_or(span.client);
    attributes.text("network.peer.address", &sender.ip().to_string());
    if sender.port() != 0 {
        attributes.number("network.peer.port", sender.port().into());
    }
    let agent = span.user_agent.as_deref().map(String::from_utf8_lossy);
    attributes.text_if("user_agent.original", agent.as_deref());
    if let Some(status) = span.status {
        attributes.number("http.response.status_code", status.into());
    }
    attributes.number("http.request.body.size", span.bytes_received);
    attributes.number("http.response.body.size", span.bytes_sent);
    let error = error_type(span);
    attributes.text_if("error.type", error.as_deref());
    attributes.own(span);
    let name = match &span.route {
        Some(route) => format!("{method} {route}"),
        None => method.to_owned(),
    };
    let parent = span.start.parent;
    Message {
        name,
        kind: SpanKind::Server.into(),
        attributes: attributes.0,
        status: status(error.is_some()),
        ..times(span.received, span.duration, message(span, &span.start.context, parent, true))
    }
}

/// Returns the span of the call to an upstream, whose ID the upstream has received.
fn client(span: &Span, call: &UpstreamCall) -> Message {
    let context = &span.start.context;
    let mut attributes = Attributes::default();
    let method = attributes.method(&span.method);
    attributes.upstream(&call.address);
    let is_whole = call.times.head.is_some() && span.cause.is_none();
    let response = span.status.filter(|_| is_whole);
    if let Some(status) = response {
        attributes.number("http.response.status_code", status.into());
    }
    if call.attempts > 1 {
        attributes.number("http.request.resend_count", call.attempts - 1);
    }
    attributes.seconds_if("sluicegate.upstream.connect", call.times.connect);
    attributes.seconds_if("sluicegate.upstream.response", call.times.head);
    let refused = response.filter(|status| *status >= 400).map(|status| status.to_string());
    let error = span.cause.map(str::to_owned).or(refused);
    attributes.text_if("error.type", error.as_deref());
    let rest = span.duration.saturating_sub(call.after);
    let duration = call.times.total.map_or(rest, |total| total.min(rest));
    let from = (context.of_upstream(), Some(context.span_id));
    Message {
        name: method.to_owned(),
        kind: SpanKind::Client.into(),
        attributes: attributes.0,
        status: status(error.is_some()),
        ..times(span.received + call.after, duration, message(span, &from.0, from.1, false))
    }
}

/// Returns a message with the place of a span in its trace; `is_remote` says whether the parent is another process's.
fn message(
    span: &Span,
    context: &TraceContext,
    parent: Option<[u8; 8]>,
    is_remote: bool,
) -> Message {
    let sampled = u32::from(context.is_sampled);
    let is_remote =
        if is_remote && parent.is_some() { SpanFlags::ContextIsRemoteMask as u32 } else { 0 };
    Message {
        trace_id: context.trace_id.to_vec(),
        span_id: context.span_id.to_vec(),
        parent_span_id: parent.map(Vec::from).unwrap_or_default(),
        trace_state: span.start.state.clone(),
        flags: sampled | SpanFlags::ContextHasIsRemoteMask as u32 | is_remote,
        ..Message::default()
    }
}

fn times(start: Duration, duration: Duration, message: Message) -> Message {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let (start_time_unix_nano, end_time_unix_nano) =
        (nanos(start), nanos(start.saturating_add(duration)));
    Message { start_time_unix_nano, end_time_unix_nano, ..message }
}

fn status(is_error: bool) -> Option<Status> {
    let code = StatusCode::Error.into();
    is_error.then(|| Status { code, ..Status::default() })
}

/// Returns the kind of a server's error: its cause, or the status. What the client does is none.
fn error_type(span: &Span) -> Option<String> {
    let is_server_error = span.status.is_some_and(|status| status >= 500);
    let is_reset = matches!(span.outcome, Outcome::Reset | Outcome::Stalled);
    if !is_server_error && !is_reset {
        return None;
    }
    Some(match (span.cause, span.status) {
        (Some(cause), _) => cause.to_owned(),
        (None, Some(status)) if is_server_error => status.to_string(),
        _ => span.outcome.name().to_owned(),
    })
}

/// Returns the version of a protocol such as `HTTP/1.1`.
fn version(protocol: &str) -> &str {
    protocol.split_once('/').map_or(protocol, |(_, version)| version)
}

/// Splits a host from a port, if there is one.
fn host_and_port(authority: &str) -> (&str, Option<u64>) {
    let split = authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
    let parsed = split.and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
    match parsed {
        Some((host, port)) => (bare(host), Some(port.into())),
        None => (bare(authority), None),
    }
}

/// Returns an IPv6 address without its brackets.
fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

/// Attributes of a span.
#[derive(Default)]
struct Attributes(Vec<KeyValue>);

impl Attributes {
    fn add(&mut self, key: &str, value: Value) {
        self.0.push(KeyValue {
            key: key.to_owned(),
            value: Some(AnyValue { value: Some(value) }),
            ..KeyValue::default()
        });
    }

    fn text(&mut self, key: &str, text: &str) {
        let cut = text.floor_char_boundary(text.len().min(MAX_TEXT));
        self.add(key, Value::StringValue(text[..cut].to_owned()));
    }

    fn text_if(&mut self, key: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.text(key, text);
        }
    }

    fn number(&mut self, key: &str, number: u64) {
        self.add(key, Value::IntValue(i64::try_from(number).unwrap_or(i64::MAX)));
    }

    fn seconds_if(&mut self, key: &str, time: Option<Duration>) {
        if let Some(time) = time {
            self.add(key, Value::DoubleValue(time.as_secs_f64()));
        }
    }

    /// Adds the method. Returns it as it stands in the name of a span.
    fn method(&mut self, method: &str) -> &'static str {
        let known = METHODS.into_iter().find(|known| *known == method);
        self.text("http.request.method", known.unwrap_or("_OTHER"));
        if known.is_none() && !method.is_empty() {
            self.text("http.request.method_original", method);
        }
        known.unwrap_or("HTTP")
    }

    /// Adds the server that a request names.
    fn server(&mut self, authority: &str) {
        let (host, port) = host_and_port(authority);
        self.text_if("server.address", Some(host).filter(|host| !host.is_empty()));
        if let Some(port) = port {
            self.number("server.port", port);
        }
    }

    /// Adds an upstream, whose address is that of the configuration.
    fn upstream(&mut self, address: &str) {
        let address = address.split_once("://").map_or(address, |(_, address)| address);
        match address.strip_prefix("unix:/") {
            Some(path) => {
                self.text("server.address", &format!("/{path}"));
                self.text("network.transport", "unix");
            }
            None => self.server(address),
        }
    }

    /// Adds what is not in the conventions.
    fn own(&mut self, span: &Span) {
        self.text("sluicegate.listener", &span.listener);
        self.text("sluicegate.connection", &HEXLOWER.encode(&span.connection));
        self.text("sluicegate.outcome", span.outcome.name());
        self.text_if("sluicegate.cause", span.cause);
        let id = span.request_id.as_deref().map(String::from_utf8_lossy);
        self.text_if("sluicegate.request_id", id.as_deref());
        let longest = span.waits.longest();
        self.text_if("sluicegate.wait.top", longest.map(|(wait, _)| wait.name()));
        for (wait, time) in span.waits.iter() {
            let key = format!("sluicegate.wait.{}", wait.name());
            self.add(&key, Value::DoubleValue(time.as_secs_f64()));
        }
    }
}

#[cfg(test)]
mod tests;
