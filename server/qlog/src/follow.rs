//! Gives events their times, whatever the trace counts from, and passes them to those that follow a trace.

use serde_json::Value;

use crate::event::{RawEvent, TraceEvent, Word};
use crate::reader::{Sink, TraceHeader};

/// Longest time from the first event to a later one, ms: a hundred years. What is later is no time.
const MAX_TIME: f64 = 3.2e12;

/// Follows the traces of a file.
pub trait Follower {
    /// A trace begins; the header has what comes before the events.
    fn on_trace(&mut self, header: &TraceHeader);
    /// An event of that trace.
    fn on_event(&mut self, event: &TraceEvent);
    /// The trace ends; the header is whole now.
    fn on_trace_end(&mut self, header: &TraceHeader, oddities: Oddities);
    /// Returns whether the rest is not wanted.
    fn is_done(&self) -> bool {
        false
    }
}

/// What is odd about the events of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oddities {
    /// Events before their predecessors; they got the same time.
    pub backward: u64,
    /// Events whose time is none; they were dropped.
    pub untimed: u64,
    /// Whether events of several connections are mixed.
    pub is_mixed: bool,
}

/// Turns what a reader delivers into events for a [`Follower`].
#[derive(Debug)]
pub struct Follow<F> {
    /// The one who follows.
    pub follower: F,
    clock: TraceClock,
    oddities: Oddities,
    group: Word,
}

impl<F: Follower> Follow<F> {
    /// Follows for `follower`.
    pub fn new(follower: F) -> Follow<F> {
        let clock = TraceClock::new(&TraceHeader::default());
        Follow { follower, clock, oddities: Oddities::default(), group: Word::default() }
    }
}

impl<F: Follower> Sink for Follow<F> {
    type Event = RawEvent;

    fn on_trace(&mut self, header: &TraceHeader) {
        self.clock = TraceClock::new(header);
        self.oddities = Oddities::default();
        self.group = Word::default();
        self.follower.on_trace(header);
    }

    fn on_event(&mut self, event: RawEvent) {
        let none = Word::default();
        if event.group != none {
            self.oddities.is_mixed |= self.group != none && self.group != event.group;
            self.group = event.group;
        }
        let Some((at, is_backward)) = event.time.and_then(|time| self.clock.time(time)) else {
            self.oddities.untimed += 1;
            return;
        };
        self.oddities.backward += u64::from(is_backward);
        let kind = event.meaning(self.clock.unit);
        self.follower.on_event(&TraceEvent { at, kind });
    }

    fn on_trace_end(&mut self, header: &TraceHeader) {
        self.follower.on_trace_end(header, self.oddities);
    }

    fn is_done(&self) -> bool {
        self.follower.is_done()
    }
}

/// The clock of a trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceClock {
    /// Milliseconds in a unit of the trace.
    pub(crate) unit: f64,
    /// Whether each time counts from the event before.
    is_delta: bool,
    /// Time of the first event, ms.
    origin: Option<f64>,
    /// Time of the latest event, ms since the first.
    now: f64,
}

impl TraceClock {
    pub(crate) fn new(header: &TraceHeader) -> TraceClock {
        let tables = ["common_fields", "configuration"].map(|key| header.trace.get(key));
        let word = |key: &str| {
            let mut found = tables.iter().flatten().filter_map(|table| table.get(key)?.as_str());
            found.next().or_else(|| header.trace.get(key)?.as_str())
        };
        let fields = header.trace.get("event_fields").and_then(Value::as_array);
        let mut fields = fields.into_iter().flatten().filter_map(Value::as_str);
        TraceClock {
            unit: if word("time_units") == Some("us") { 1e-3 } else { 1.0 },
            is_delta: matches!(word("time_format"), Some("delta" | "relative_to_previous_event"))
                || fields.any(|field| field.eq_ignore_ascii_case("delta_time")),
            origin: None,
            now: 0.0,
        }
    }

    /// Returns the time since the first event, and whether the trace says an earlier one than that of the event before.
    pub(crate) fn time(&mut self, raw: f64) -> Option<(f64, bool)> {
        let ms = raw * self.unit;
        let at = match self.origin {
            None => {
                self.origin = Some(ms);
                0.0
            }
            Some(_) if self.is_delta => self.now + ms,
            Some(origin) => ms - origin,
        };
        if !(-MAX_TIME..=MAX_TIME).contains(&at) {
            return None;
        }
        let is_backward = at < self.now;
        self.now = self.now.max(at);
        Some((self.now, is_backward))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn times(trace: &Value, raw: &[f64]) -> Vec<Option<f64>> {
        let trace = trace.as_object().cloned().unwrap_or_default();
        let mut clock = TraceClock::new(&TraceHeader { trace, ..TraceHeader::default() });
        raw.iter().map(|raw| clock.time(*raw).map(|(at, _)| at)).collect()
    }

    #[test]
    fn times_count_from_the_first_event() {
        let some = |times: [f64; 3]| times.map(Some).to_vec();
        assert_eq!(times(&json!({}), &[5.0, 6.5, 9.0]), some([0.0, 1.5, 4.0]));
        assert_eq!(times(&json!({}), &[1.7e12, 1.7e12 + 1.0, 1.7e12]), some([0.0, 1.0, 1.0]));
        let delta = json!({ "common_fields": { "time_format": "delta" } });
        assert_eq!(times(&delta, &[5.0, 1.5, 2.5]), some([0.0, 1.5, 4.0]));
        let us = json!({ "configuration": { "time_units": "us" } });
        assert_eq!(times(&us, &[1000.0, 2500.0, 5000.0]), some([0.0, 1.5, 4.0]));
        let previous = json!({ "time_format": "relative_to_previous_event" });
        assert_eq!(times(&previous, &[0.0, 2.0, 2.0]), some([0.0, 2.0, 4.0]));
    }

    #[test]
    fn what_is_no_time_is_none() {
        assert_eq!(times(&json!({}), &[1.0, 1e300, 3.0]), [Some(0.0), None, Some(2.0)]);
    }
}
