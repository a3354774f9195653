//! The process: its secrets, its end, what it tells and where.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The process: what outlives a restart, and how it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Where secrets and the process generation outlive a restart.
    pub state_dir: Option<PathBuf>,
    /// Secrets shared by instances: lines of 64 hexadecimal digits, the first is current.
    pub secrets_file: Option<PathBuf>,
    /// How long running requests may take to finish when the process ends.
    pub drain_timeout: Duration,
}

/// Traces of sampled connections.
#[derive(Clone, Debug, PartialEq)]
pub struct Qlog {
    /// Share of connections, 0 to 1.
    pub sample_rate: f64,
    /// Where traces go; given where `sample_rate` is above 0.
    pub directory: Option<PathBuf>,
    /// How much a trace holds.
    pub level: QlogLevel,
    /// Traces open at the same time, over the process.
    pub max_open_traces: u64,
    /// Bytes of one trace.
    pub max_trace_bytes: u64,
    /// Bytes of all traces; at least `max_trace_bytes`.
    pub max_total_bytes: u64,
    /// Bytes that wait for the writer.
    pub queue: u64,
}

/// How much a trace holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QlogLevel {
    /// Packets.
    Core,
    /// Recovery metrics and states too.
    Base,
    /// Everything.
    Extra,
}

/// Messages of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    /// The least important message written.
    pub level: LogLevel,
    /// Their form.
    pub format: LogFormat,
}

/// How important a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// Something may fail.
    Warn,
    /// What an operator wants to know.
    Info,
    /// What a developer wants to know.
    Debug,
    /// Every step.
    Trace,
}

/// The form of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One object a line.
    Json,
}

/// The server that tells of health and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admin {
    /// TCP address; port 0 asks for a free port, `None` for no such server.
    pub address: Option<SocketAddr>,
}

/// A line for each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    /// Where the lines go; `None`: nowhere.
    pub file: Option<LogTarget>,
    /// Their form.
    pub format: AccessFormat,
    /// Bytes that wait for the writer.
    pub queue: u64,
}

/// Where lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard output.
    Stdout,
    /// The end of a file.
    File(PathBuf),
}

/// The form of a request's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessFormat {
    /// One object a line.
    Json,
    /// As Apache's `combined`.
    Combined,
}
