//! The trace of a connection (qlog).

use std::time::Instant;

use serde_json::{Map, Value, json};
use sluicegate_base::observe::account::Wait;
use sluicegate_base::observe::metrics::Label as _;
use sluicegate_base::observe::qlog::{FileFate, Trace, TraceHandle, milliseconds};

use super::Connection;
use crate::application::Application;

/// Event with which a trace begins in the middle of a connection.
const CONNECTION_STATE: &str = "sluicegate:connection_state";
/// Events of what blocks data (draft-ietf-quic-qlog-quic-events-13 §5.15, §5.16).
pub(super) const CONNECTION_BLOCKED: &str = "quic:connection_data_blocked_updated";
const STREAM_BLOCKED: &str = "quic:stream_data_blocked_updated";
/// Most blocked streams that a trace follows at a time.
const MAX_BLOCKED: usize = 64;

/// What a trace says of itself, and how much it contains.
pub(crate) struct TraceLabels {
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) level: quiche::QlogLevel,
    /// Fields whose values it contains.
    pub(crate) visible: quiche::redact::Visible,
}

/// The trace of a connection that has one.
pub(super) struct ConnectionTrace {
    handle: TraceHandle,
    /// State that the trace has named last.
    state: Option<&'static str>,
    /// Streams that it has named as blocked.
    blocked: Vec<u64>,
}

/// Returns the state of a connection in its trace while it waits for something, and the reason, if the draft has one. Where nothing waits to
/// be sent, or all was sent, nothing is blocked.
fn blocked(wait: Wait) -> (&'static str, Option<&'static str>) {
    match wait {
        Wait::Amplification
        | Wait::Congestion
        | Wait::Pacing
        | Wait::ConnectionFlow
        | Wait::StreamFlow
        | Wait::Scheduling
        | Wait::Application => ("blocked", Some(wait.name())),
        Wait::Handshake | Wait::Closing => ("blocked", None),
        Wait::Acknowledgement | Wait::Client => ("unblocked", None),
        // Requests alone have others.
        _ => ("blocked", Some(Wait::Application.name())),
    }
}

/// Returns the data of a connection's wait.
pub(super) fn blocked_data(old: Option<&str>, wait: Wait) -> Value {
    let (new, reason) = blocked(wait);
    let reason = reason.map(|reason| ("reason", reason.into()));
    // The draft has fewer reasons than the account has waits.
    let causes: Vec<_> = reason.into_iter().chain([("trigger", wait.name().into())]).collect();
    update(old, new, &causes)
}

/// Returns the data of an event.
fn update(old: Option<&str>, new: &str, rest: &[(&str, Value)]) -> Value {
    let states = [("old", old.map(Value::from)), ("new", Some(new.into()))];
    let states = states.into_iter().filter_map(|(key, state)| Some((key, state?)));
    let all = states.chain(rest.iter().cloned()).map(|(key, value)| (key.to_owned(), value));
    Value::Object(all.collect())
}

impl<A: Application> Connection<A> {
    /// Writes a trace from now on.
    pub(crate) fn write_trace(&mut self, trace: Trace, labels: TraceLabels) {
        let TraceLabels { title, description, level, visible } = labels;
        let handle = trace.handle();
        self.quic.set_qlog_with_level(Box::new(trace), title, description, level);
        if let Some(streamer) = self.quic.qlog_streamer() {
            streamer.show(visible);
        }
        self.trace = Some(Box::new(ConnectionTrace { handle, state: None, blocked: Vec::new() }));
    }

    /// Writes into its trace what it waits for from a time on, and which streams the client's flow control blocks.
    pub(crate) fn trace_wait(&mut self, wait: Wait, from: Instant) {
        // One that has ended is given up.
        let trace = self.trace.take().filter(|trace| !trace.handle.has_ended());
        let Some(mut trace) = trace else {
            return;
        };
        let old = trace.state.replace(blocked(wait).0);
        self.quic.trace_event(CONNECTION_BLOCKED, blocked_data(old, wait), from);
        let blocked: Vec<u64> = self.quic.blocked_streams().take(MAX_BLOCKED).collect();
        for stream in trace.blocked.iter().filter(|stream| !blocked.contains(stream)) {
            let data = update(Some("blocked"), "unblocked", &[("stream_id", (*stream).into())]);
            self.quic.trace_event(STREAM_BLOCKED, data, from);
        }
        for stream in blocked.iter().filter(|stream| !trace.blocked.contains(stream)) {
            let cause = ("reason", Wait::StreamFlow.name().into());
            let data = update(None, "blocked", &[("stream_id", (*stream).into()), cause]);
            self.quic.trace_event(STREAM_BLOCKED, data, from);
        }
        trace.blocked = blocked;
        self.trace = Some(trace);
    }

    /// Writes into a trace that has just begun what the connection is: to begin with, what others read in earlier records.
    pub(crate) fn trace_state(&mut self, now: Instant) {
        self.quic.trace_state();
        self.trace_wait(self.account.wait().0, now);
        // A connection that waits may write nothing more for long.
        if let Some(trace) = &self.trace {
            trace.handle.hand_over_next();
        }
        self.quic.trace_event(CONNECTION_STATE, self.about(now), now);
    }

    /// Returns what a trace says of the connection beside what the drafts have: its account above all.
    pub(super) fn about(&self, now: Instant) -> Value {
        let (wait, since) = self.account.wait();
        let spent = self.account.spent(now).filter(|(_, time)| !time.is_zero());
        let waits: Map<String, Value> =
            spent.map(|(wait, time)| (wait.name().to_owned(), milliseconds(time))).collect();
        json!({
            "age": milliseconds(self.account.age(now)),
            "wait": wait.name(),
            "waiting": milliseconds(now.saturating_duration_since(since)),
            "waits": waits,
            "silence": milliseconds(now.saturating_duration_since(self.activity.heard())),
            "requests": self.session.as_ref().map_or(0, A::taken),
        })
    }

    /// Returns the file of its trace, if one is being written.
    pub(crate) fn trace_file(&self) -> Option<FileFate> {
        let trace = self.trace.as_ref().filter(|trace| !trace.handle.has_ended())?;
        Some(trace.handle.fate())
    }

    /// Returns the server name that the client asks for, once its first message has come.
    pub(crate) fn server_name(&self) -> Option<&str> {
        self.quic.server_name()
    }
}
