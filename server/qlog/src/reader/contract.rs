//! What a reader delivers, and to whom.

use std::io;

use serde::de::Deserializer;
use serde_json::{Map, Value};

/// What is read of an event.
pub trait Parts: Default {
    /// Takes the value of a key.
    ///
    /// # Errors
    /// Those of the deserializer.
    fn take<'de, D: Deserializer<'de>>(&mut self, key: &str, value: D) -> Result<(), D::Error>;

    /// Returns whether what was taken is an event.
    fn is_event(&self) -> bool;

    /// Returns whether it is longer than what is kept of an event.
    fn is_too_long(&self) -> bool {
        false
    }
}

/// What a file says of itself and of the current trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceHeader {
    /// Fields of the file.
    pub file: Map<String, Value>,
    /// Fields of the trace that are known, without its events.
    pub trace: Map<String, Value>,
}

/// Receives what is read.
pub trait Sink {
    /// What it needs of an event.
    type Event: Parts;
    /// A trace begins. The header has what comes before the events.
    fn on_trace(&mut self, header: &TraceHeader);
    /// An event of that trace.
    fn on_event(&mut self, event: Self::Event);
    /// The trace ends. The header is whole now.
    fn on_trace_end(&mut self, header: &TraceHeader);
    /// Returns whether the rest is not wanted.
    fn is_done(&self) -> bool {
        false
    }
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadTally {
    /// Traces.
    pub traces: u64,
    /// Events.
    pub events: u64,
    /// Records that are no events.
    pub bad_records: u64,
    /// Records that are too long.
    pub long_records: u64,
    /// Whether the last record is incomplete, as a crash leaves it.
    pub is_cut: bool,
    /// Why the rest was not read.
    pub stopped: Option<String>,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is not a trace.
    #[error("not a qlog trace: {0}")]
    NotATrace(&'static str),
}
