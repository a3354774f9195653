//! The facts of a trace.

use serde::Serialize;

use crate::reader::{ReadTally, TraceHeader};
use crate::verdict::Verdict;
use crate::wall_clock;

/// Least, middle and largest value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The median; of a window by time.
    pub median: f64,
    /// The largest.
    pub max: f64,
    /// The last.
    pub end: f64,
}

/// A name with the time that belongs to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimeShare {
    /// Name of a state or a wait.
    pub name: String,
    /// Time in it, ms.
    pub ms: f64,
    /// How often it began.
    pub times: u64,
}

/// A trigger of a flight recorder.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Firing {
    /// Name.
    pub trigger: String,
    /// Time at which it fired, ms since the first event.
    pub at_ms: f64,
}

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets received.
    pub packets_received: u64,
    /// Packets declared lost.
    pub packets_lost: u64,
    /// Bytes of sent packets.
    pub bytes_sent: u64,
    /// Bytes of received packets.
    pub bytes_received: u64,
    /// Bytes of lost packets; `None` if the trace does not tell.
    pub bytes_lost: Option<u64>,
    /// Bytes of packets that the peer acknowledged.
    pub bytes_acknowledged: u64,
    /// Bytes of streams that were sent again.
    pub bytes_retransmitted: u64,
    /// Bytes of streams sent, each once.
    pub stream_bytes_sent: u64,
    /// Bytes of streams received, each once.
    pub stream_bytes_received: u64,
}

/// How far the handshake came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Handshake {
    /// It completed.
    Complete,
    /// It did not.
    Incomplete,
    /// It had completed before the trace began.
    Earlier,
    /// The trace does not tell.
    Unknown,
}

/// The facts of a trace, and the verdicts on it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Name of the trace, which the reader of the file sets.
    pub file: String,
    /// Verdicts, the worst one first; never empty.
    pub verdicts: Vec<Verdict>,
    /// Title of the trace.
    pub title: Option<String>,
    /// Program that wrote it.
    pub writer: Option<String>,
    /// Version of qlog, or its schema.
    pub qlog: Option<String>,
    /// Whose view it is: client, server, network.
    pub vantage_point: Option<String>,
    /// Algorithm of congestion control; of a switched one all, with the times of the switches.
    pub congestion_control: Option<String>,
    /// Version of QUIC.
    pub quic_version: Option<String>,
    /// Wall clock time of the beginning.
    pub began: Option<String>,
    /// Age of the connection at the first event, ms, if the trace tells. Text and pictures count times from the connection's beginning then.
    pub begins_at_ms: Option<f64>,
    /// From the first event to the last, ms.
    pub duration_ms: f64,
    /// Number of events.
    pub events: u64,
    /// Packets and bytes.
    pub traffic: Traffic,
    /// How far the handshake came.
    pub handshake: Handshake,
    /// Its duration, ms.
    pub handshake_ms: Option<f64>,
    /// Round-trip times, ms.
    pub rtt_ms: Option<Spread>,
    /// Congestion window, bytes.
    pub cwnd_bytes: Option<Spread>,
    /// Largest number of bytes in flight.
    pub max_in_flight_bytes: Option<u64>,
    /// Time in each state of the congestion controller.
    pub states: Vec<TimeShare>,
    /// Time in each wait.
    pub waits: Vec<TimeShare>,
    /// Whether the waits are estimates: the trace does not name them.
    pub waits_are_estimates: bool,
    /// Probe timeouts.
    pub probe_timeouts: u64,
    /// Times at which losses began after a round trip without.
    pub loss_episodes: u64,
    /// Triggers of a flight recorder: why it wrote the trace.
    pub triggers: Vec<Firing>,
    /// What is odd about the trace.
    pub notes: Vec<String>,
}

impl Summary {
    /// Returns the time that people are told for one since the first event, ms.
    pub(crate) fn told(&self, ms: f64) -> f64 {
        ms + self.begins_at_ms.unwrap_or(0.0)
    }
}

/// What a header says of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) title: Option<String>,
    pub(crate) writer: Option<String>,
    pub(crate) qlog: Option<String>,
    pub(crate) vantage_point: Option<String>,
    pub(crate) congestion_control: Option<String>,
    pub(crate) began: Option<String>,
}

/// Longest text that is taken from a header, characters.
const MAX_TEXT: usize = 200;

impl Origin {
    pub(crate) fn new(header: &TraceHeader) -> Origin {
        let text = |value: Option<&serde_json::Value>| {
            let text = value?.as_str()?.chars().take(MAX_TEXT).collect::<String>();
            (!text.is_empty()).then_some(text)
        };
        let TraceHeader { file, trace } = header;
        let point = trace.get("vantage_point");
        let common = trace.get("common_fields");
        let description = text(trace.get("description")).or_else(|| text(file.get("description")));
        let told = |key: &str| {
            let words = description.as_deref().into_iter().flat_map(str::split_whitespace);
            words.filter_map(|word| word.strip_prefix(key)).next().map(ToOwned::to_owned)
        };
        let schema = trace.get("event_schemas").and_then(|schemas| text(schemas.get(0)));
        let reference = common.and_then(|common| common.get("reference_time"));
        let clock = reference.and_then(|time| text(time.get("wall_clock_time")));
        // Of 0.3 it is a number.
        let clock = clock.or_else(|| wall_clock::text(wall_clock::of_event(header, 0.0)?));
        let title = text(trace.get("title")).or_else(|| text(file.get("title")));
        let named = point.and_then(|point| text(point.get("name")));
        let code = text(file.get("code_version"));
        Origin {
            writer: named
                .or_else(|| title.clone())
                .map(|name| code.map_or(name.clone(), |code| format!("{name} {code}"))),
            title,
            qlog: schema
                .map(|schema| schema.replace("urn:ietf:params:qlog:events:", ""))
                .or_else(|| text(file.get("qlog_version"))),
            vantage_point: point.and_then(|point| text(point.get("type"))),
            congestion_control: told("congestion_control="),
            began: clock,
        }
    }
}

/// Returns what is odd about a file, in words.
pub fn notes_of(tally: &ReadTally) -> Vec<String> {
    let mut notes = Vec::new();
    if tally.is_cut {
        notes.push(
            "the last record is incomplete: the writer ended before it, or still writes".to_owned(),
        );
    }
    if tally.bad_records > 0 {
        notes.push(format!("skipped records that are no events: {}", tally.bad_records));
    }
    if tally.long_records > 0 {
        notes.push(format!("skipped records of more than 1 MiB: {}", tally.long_records));
    }
    if let Some(why) = &tally.stopped {
        notes.push(format!("the rest was not read: {why}"));
    }
    notes
}
