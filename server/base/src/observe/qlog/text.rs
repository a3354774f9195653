//! Traces that are composed at once, not while the events happen.

use std::time::Duration;

use serde_json::{Value, json};

/// A trace as text, in the form of a file.
#[derive(Debug)]
pub struct TraceText(String);

/// The facts in a trace's header.
#[derive(Clone, Copy, Debug)]
pub struct HeaderFacts<'a> {
    /// Title.
    pub title: &'a str,
    /// Description.
    pub description: &'a str,
    /// Schemas of the events.
    pub schemas: &'a [&'a str],
    /// Time since 1970 at which the trace begins.
    pub began: Duration,
}

impl TraceText {
    /// Begins a trace of a server.
    pub fn new(header: &HeaderFacts<'_>) -> TraceText {
        let HeaderFacts { title, description, schemas, began } = header;
        let micros = i64::try_from(began.as_micros()).unwrap_or(i64::MAX);
        let began = jiff::Timestamp::from_microsecond(micros).unwrap_or(jiff::Timestamp::MAX);
        let clock = json!({
            "clock_type": "monotonic",
            "epoch": "unknown",
            "wall_clock_time": began.to_string(),
        });
        let mut text = TraceText(String::new());
        text.push(&json!({
            "file_schema": "urn:ietf:params:qlog:file:sequential",
            "serialization_format": "application/qlog+json-seq",
            "title": title,
            "description": description,
            "trace": {
                "title": title,
                "description": description,
                "common_fields": { "reference_time": clock },
                "vantage_point": { "type": "server" },
                "event_schemas": schemas,
            },
        }));
        text
    }

    /// Adds an event at a time since the beginning.
    pub fn add(&mut self, at: Duration, name: &str, data: Value) {
        self.push(&json!({ "time": milliseconds(at), "name": name, "data": data }));
    }

    /// Returns the file.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0.into_bytes()
    }

    fn push(&mut self, record: &Value) {
        self.0.push('\u{1e}');
        self.0 += &record.to_string();
        self.0.push('\n');
    }
}

/// Returns a time as traces have it.
pub fn milliseconds(time: Duration) -> Value {
    ((time.as_secs_f64() * 1e6).round() / 1e3).into()
}
