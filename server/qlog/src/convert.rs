//! Writes a trace in another format, one event at a time.
//!
//! Times become milliseconds since the first event, whose wall clock time stands in front. Names of events and the lengths of frames become
//! those of the format. Events that it does not have are left out.

use std::io::{self, Write};

use serde::de::Deserializer;
use serde_json::{Map, Value, json};

use crate::follow::TraceClock;
use crate::reader::{Budget, MAX_RECORD, Parts, Sink, TraceHeader};
use crate::wall_clock;

/// Formats that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QlogFormat {
    /// qlog 0.3 as one JSON object, which qvis reads.
    Contained03,
    /// qlog 0.3, a record a line.
    Lines03,
    /// A JSON text sequence with the names of the current drafts.
    Sequence,
}

/// Names of events by version: of 0.3, and of the drafts since 12.
const NAMES: [(&str, &str); 8] = [
    ("recovery:metrics_updated", "quic:recovery_metrics_updated"),
    ("recovery:parameters_set", "quic:recovery_parameters_set"),
    ("transport:datagrams_sent", "quic:udp_datagrams_sent"),
    ("transport:datagrams_received", "quic:udp_datagrams_received"),
    ("transport:datagram_dropped", "quic:udp_datagram_dropped"),
    ("transport:frames_processed", "quic:frames_processed"),
    ("transport:data_moved", "quic:stream_data_moved"),
    ("recovery:loss_timer_updated", "quic:timer_updated"),
];
/// Categories of 0.3 for names whose rest is the same.
const CATEGORIES: [(&str, &[&str]); 4] = [
    (
        "transport",
        &[
            "version_information",
            "alpn_information",
            "parameters_set",
            "parameters_restored",
            "packet_sent",
            "packet_received",
            "packet_dropped",
            "packet_buffered",
            "packets_acked",
            "stream_state_updated",
        ],
    ),
    (
        "recovery",
        &[
            "congestion_state_updated",
            "loss_timer_updated",
            "packet_lost",
            "marked_for_retransmit",
            "ecn_state_updated",
        ],
    ),
    (
        "connectivity",
        &[
            "server_listening",
            "connection_started",
            "connection_closed",
            "connection_id_updated",
            "spin_bit_updated",
            "connection_state_updated",
            "mtu_updated",
        ],
    ),
    ("security", &["key_updated", "key_discarded"]),
];

/// Names of 0.3 for HTTP/3.
const OF_HTTP: [&str; 6] = [
    "parameters_set",
    "parameters_restored",
    "stream_type_set",
    "frame_created",
    "frame_parsed",
    "push_resolved",
];

/// Writes the traces of a file.
#[derive(Debug)]
pub struct Converter<W> {
    out: W,
    format: QlogFormat,
    clock: TraceClock,
    traces: u64,
    events: u64,
    /// Header of a trace that is not written yet: its wall clock time is that of the first event.
    header: Option<TraceHeader>,
    left_out: u64,
    has_point: bool,
    error: Option<io::Error>,
}

impl<W: Write> Converter<W> {
    /// Writes to `out`.
    pub fn new(out: W, format: QlogFormat) -> Converter<W> {
        Converter {
            out,
            format,
            clock: TraceClock::new(&TraceHeader::default()),
            traces: 0,
            events: 0,
            header: None,
            left_out: 0,
            has_point: false,
            error: None,
        }
    }

    /// Ends the output. Returns the number of events that the format does not have.
    ///
    /// # Errors
    /// Something could not be written.
    pub fn finish(mut self) -> io::Result<u64> {
        if self.error.is_none() && self.format == QlogFormat::Contained03 && self.traces > 0 {
            self.out.write_all(b"]}\n")?;
        }
        self.error.map_or_else(|| self.out.flush(), Err)?;
        Ok(self.left_out)
    }

    fn note(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.error.get_or_insert(error);
        }
    }

    /// Begins a trace whose first event has this time in the file, ms.
    fn begin(&mut self, header: &TraceHeader, first: f64) -> io::Result<()> {
        let is_first = self.traces == 0;
        self.traces += 1;
        let trace = self.described(header, first);
        match self.format {
            QlogFormat::Contained03 => {
                if is_first {
                    let title = header.file.get("title").cloned().unwrap_or_default();
                    let title = title.as_str().unwrap_or("");
                    let title = serde_json::to_string(title)?;
                    write!(
                        self.out,
                        r#"{{"qlog_version":"0.3","qlog_format":"JSON","title":{title},"traces":["#
                    )?;
                } else {
                    self.out.write_all(b",\n")?;
                }
                let trace = serde_json::to_string(&trace)?;
                let open = trace.strip_suffix('}').unwrap_or(&trace);
                write!(self.out, "{open},\"events\":[")
            }
            QlogFormat::Lines03 => self.record(&json!({
                "qlog_version": "0.3", "qlog_format": "NDJSON", "trace": trace,
            })),
            QlogFormat::Sequence => {
                let mut trace = trace;
                trace.insert(
                    "event_schemas".to_owned(),
                    json!([
                        "urn:ietf:params:qlog:events:quic-13",
                        "urn:ietf:params:qlog:events:http3-13"
                    ]),
                );
                self.record(&json!({
                    "file_schema": "urn:ietf:params:qlog:file:sequential",
                    "serialization_format": "application/qlog+json-seq",
                    "trace": trace,
                }))
            }
        }
    }

    /// Returns the fields of a trace without its events.
    fn described(&mut self, header: &TraceHeader, first: f64) -> Map<String, Value> {
        let mut trace = Map::new();
        for key in ["title", "description"] {
            let value = header.trace.get(key).or_else(|| header.file.get(key));
            if let Some(value) = value {
                trace.insert(key.to_owned(), value.clone());
            }
        }
        let point = header.trace.get("vantage_point");
        self.has_point = point.is_some() || self.format != QlogFormat::Contained03;
        if self.has_point {
            let point = point.cloned().unwrap_or_else(|| json!({ "type": "unknown" }));
            trace.insert("vantage_point".to_owned(), point);
        }
        let mut common = match header.trace.get("common_fields") {
            Some(Value::Object(common)) => common.clone(),
            _ => Map::new(),
        };
        let began = wall_clock::of_event(header, first);
        if self.format == QlogFormat::Sequence {
            common.insert("time_format".to_owned(), json!("relative_to_epoch"));
            common.remove("reference_time");
            if let Some(began) = began.and_then(wall_clock::text) {
                let clock = json!({ "clock_type": "monotonic", "epoch": "unknown", "wall_clock_time": began });
                common.insert("reference_time".to_owned(), clock);
            }
        } else {
            // 0.3 has a number there.
            common.insert("time_format".to_owned(), json!("relative"));
            common.insert("reference_time".to_owned(), json!(began.unwrap_or(0.0)));
        }
        trace.insert("common_fields".to_owned(), Value::Object(common));
        trace
    }

    fn record(&mut self, record: &impl serde::Serialize) -> io::Result<()> {
        if self.format == QlogFormat::Sequence {
            self.out.write_all(b"\x1e")?;
        }
        serde_json::to_writer(&mut self.out, record)?;
        self.out.write_all(b"\n")
    }

    fn event(&mut self, mut event: Map<String, Value>) -> io::Result<()> {
        let time = event.get("time").and_then(number);
        let Some((raw, (at, _))) = time.and_then(|raw| Some((raw, self.clock.time(raw)?))) else {
            return Ok(());
        };
        if let Some(header) = self.header.take() {
            self.begin(&header, raw * self.clock.unit)?;
        }
        event.insert("time".to_owned(), json!(at));
        let category = event.remove("category");
        let name = event.get("name").and_then(Value::as_str).unwrap_or("").to_ascii_lowercase();
        let name = match category.as_ref().and_then(Value::as_str) {
            Some(category) if !name.contains(':') => format!("{category}:{name}"),
            _ => name,
        };
        let is_03 = self.format != QlogFormat::Sequence;
        let Some(name) = (if is_03 { name_of_03(&name) } else { Some(name_of_drafts(&name)) })
        else {
            self.left_out += 1;
            return Ok(());
        };
        event.insert("name".to_owned(), Value::String(name));
        if let Some(Value::Object(data)) = event.get_mut("data") {
            mend(data, is_03, self.clock.unit);
        }
        if self.format == QlogFormat::Contained03 {
            let separator: &[u8] = if self.events == 0 { b"\n" } else { b",\n" };
            self.out.write_all(separator)?;
            serde_json::to_writer(&mut self.out, &event)?;
        } else {
            self.record(&event)?;
        }
        self.events += 1;
        Ok(())
    }

    fn end(&mut self, header: &TraceHeader) -> io::Result<()> {
        if self.format != QlogFormat::Contained03 {
            return Ok(());
        }
        self.out.write_all(b"\n]")?;
        if !self.has_point {
            // Some writers describe the view after the events.
            let point = header.trace.get("vantage_point").cloned();
            let point = point.unwrap_or_else(|| json!({ "type": "unknown" }));
            write!(self.out, ",\"vantage_point\":{point}")?;
        }
        self.out.write_all(b"}")
    }
}

fn number(value: &Value) -> Option<f64> {
    let number = value.as_f64().or_else(|| value.as_str()?.parse().ok());
    number.filter(|number| number.is_finite())
}

/// Returns a name as 0.3 has it, if it does. Names of other categories, such as a program's own, stay.
fn name_of_03(name: &str) -> Option<String> {
    if let Some((old, _)) = NAMES.iter().find(|(_, new)| *new == name) {
        return Some((*old).to_owned());
    }
    if let Some(name) = name.strip_prefix("http3:") {
        return OF_HTTP.contains(&name).then(|| format!("http:{name}"));
    }
    let Some(name) = name.strip_prefix("quic:") else {
        return Some(name.to_owned());
    };
    let (category, _) = CATEGORIES.iter().find(|(_, names)| names.contains(&name))?;
    Some(format!("{category}:{name}"))
}

fn name_of_drafts(name: &str) -> String {
    if let Some((_, new)) = NAMES.iter().find(|(old, _)| *old == name) {
        return (*new).to_owned();
    }
    match name.split_once(':') {
        Some(("transport" | "recovery" | "connectivity" | "security", name)) => {
            format!("quic:{name}")
        }
        Some(("http", name)) => format!("http3:{name}"),
        _ => name.to_owned(),
    }
}

/// Brings the data of an event into the form of the format. `unit` is the number of milliseconds in the trace's unit of time.
fn mend(data: &mut Map<String, Value>, is_03: bool, unit: f64) {
    // Whose parameters they are, or who closed.
    let (theirs, ours) = if is_03 { ("initiator", "owner") } else { ("owner", "initiator") };
    for (old, new) in
        [("cwnd", "congestion_window"), ("current_cwnd", "congestion_window"), (theirs, ours)]
    {
        if let Some(value) = data.remove(old) {
            data.insert(new.to_owned(), value);
        }
    }
    for key in ["min_rtt", "smoothed_rtt", "latest_rtt", "rtt_variance"] {
        if let Some(time) = data.get(key).and_then(number).filter(|_| unit < 1.0) {
            data.insert(key.to_owned(), json!(time * unit));
        }
    }
    if let Some(kind) = data.get("packet_type").cloned()
        && let Some(Value::Object(header)) = data.get_mut("header")
    {
        header.entry("packet_type").or_insert(kind);
    }
    let size = data.get("header").and_then(|header| header.get("packet_size")).cloned();
    if let Some(size) = size.filter(|_| !data.contains_key("raw")) {
        data.insert("raw".to_owned(), json!({ "length": size }));
    }
    if let Some(Value::Array(frames)) = data.get_mut("frames") {
        frames.iter_mut().filter_map(Value::as_object_mut).for_each(|frame| length(frame, is_03));
    }
}

/// Gives a frame its length where the format has it: in the frame, or below `raw`.
fn length(frame: &mut Map<String, Value>, is_03: bool) {
    if is_03 {
        let raw = frame.get("raw");
        let length = raw.and_then(|raw| raw.get("payload_length").or_else(|| raw.get("length")));
        if let Some(length) = length.cloned() {
            frame.entry("length").or_insert(length);
        }
    } else if !frame.contains_key("raw")
        && let Some(length) = frame.remove("length")
    {
        frame.insert("raw".to_owned(), json!({ "payload_length": length }));
    }
}

/// An event with all its fields, if they fit into [`MAX_RECORD`].
#[derive(Debug)]
pub struct WholeEvent {
    fields: Map<String, Value>,
    budget: Budget,
}

impl Default for WholeEvent {
    fn default() -> Self {
        WholeEvent { fields: Map::new(), budget: Budget::new(MAX_RECORD) }
    }
}

impl Parts for WholeEvent {
    fn take<'de, D: Deserializer<'de>>(&mut self, key: &str, value: D) -> Result<(), D::Error> {
        self.budget.take(key.len());
        let Some(value) = self.budget.read(value)? else {
            self.fields.clear();
            return Ok(());
        };
        let key = match key {
            "relative_time" | "delta_time" => "time",
            "event" | "event_type" | "type" => "name",
            key => key,
        };
        self.fields.insert(key.to_owned(), value);
        Ok(())
    }

    fn is_event(&self) -> bool {
        self.fields.get("time").and_then(number).is_some() && self.fields.contains_key("name")
    }

    fn is_too_long(&self) -> bool {
        self.budget.is_spent()
    }
}

impl<W: Write> Sink for Converter<W> {
    type Event = WholeEvent;

    fn on_trace(&mut self, header: &TraceHeader) {
        self.clock = TraceClock::new(header);
        self.events = 0;
        self.header = Some(header.clone());
    }

    fn on_event(&mut self, event: WholeEvent) {
        if self.error.is_none() {
            let result = self.event(event.fields);
            self.note(result);
        }
    }

    fn on_trace_end(&mut self, header: &TraceHeader) {
        if self.header.take().is_some() {
            let result = self.begin(header, 0.0);
            self.note(result);
        }
        let result = self.end(header);
        self.note(result);
    }

    fn is_done(&self) -> bool {
        self.error.is_some()
    }
}

#[cfg(test)]
mod tests;
