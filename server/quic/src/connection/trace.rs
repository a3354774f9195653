//! The trace of a connection (qlog).

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use sluicegate_base::observe::metrics::Label as _;
use sluicegate_base::observe::qlog::{Trace, TraceHandle};

use super::Connection;
use crate::application::Application;

/// Event with which a trace begins in the middle of a connection.
const CONNECTION_STATE: &str = "sluicegate:connection_state";

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
        self.trace = Some(Box::new(ConnectionTrace { handle }));
    }

    /// Writes into a trace that has just begun what the connection is: to begin with, what others read in earlier records.
    pub(crate) fn trace_state(&mut self, now: Instant) {
        self.quic.trace_state();
        let Some(trace) = &self.trace else {
            return;
        };
        // A connection that waits may write nothing more for long.
        trace.handle.hand_over_next();
        let (wait, since) = self.account.wait();
        let ms = |time: Duration| Value::from((time.as_secs_f64() * 1e6).round() / 1e3);
        let spent = self.account.spent(now).filter(|(_, time)| !time.is_zero());
        let waits: Map<String, Value> =
            spent.map(|(wait, time)| (wait.name().to_owned(), ms(time))).collect();
        let state = json!({
            "age": ms(self.account.age(now)),
            "wait": wait.name(),
            "waiting": ms(now.saturating_duration_since(since)),
            "waits": waits,
            "silence": ms(now.saturating_duration_since(self.activity.heard())),
            "requests": self.session.as_ref().map_or(0, A::taken),
        });
        self.quic.trace_event(CONNECTION_STATE, state, now);
    }

    /// Returns the name of the file of its trace, if one is being written.
    pub(crate) fn trace_file(&self) -> Option<String> {
        let trace = self.trace.as_ref().filter(|trace| !trace.handle.has_ended())?;
        Some(trace.handle.file_name())
    }

    /// Returns the server name that the client asks for, once its first message has come.
    pub(crate) fn server_name(&self) -> Option<&str> {
        self.quic.server_name()
    }
}
