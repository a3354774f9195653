//! A checked configuration.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use sluicegate_dataplane::{Backend, DriverOptions, SocketOptions};

/// Everything an operator can set, checked: each value lies within its bounds and each reference leads somewhere.
///
/// What needs the machine (files, cores, addresses in use) is not checked here.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The process.
    pub server: Server,
    /// Groups of workers, at least one, with distinct names.
    pub groups: Vec<Group>,
    /// At least one, with distinct names and distinct addresses.
    pub listeners: Vec<Listener>,
    /// In the order of the file, with distinct paths; may be empty.
    pub routes: Vec<Route>,
    /// What clients may hold.
    pub limits: Limits,
    /// How connections behave.
    pub quic: Quic,
    /// Traces.
    pub qlog: Qlog,
    /// Messages.
    pub log: Log,
}

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

/// Pinned threads with one backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What listeners refer to.
    pub name: String,
    /// How datagrams get in and out.
    pub backend: Backend,
    /// Where its workers run.
    pub cores: Cores,
    /// What the sockets of its listeners are bound with.
    pub socket: SocketOptions,
    /// What its workers' drivers are opened with.
    pub driver: DriverOptions,
}

/// The cores of a group, one worker each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cores {
    /// Every core that the process may use.
    Auto,
    /// These, each once, in the order given; never empty.
    List(Vec<usize>),
}

/// Addresses that clients connect to.
#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    /// What metrics and logs call it.
    pub name: String,
    /// UDP addresses, at least one; port 0 asks for a free port.
    pub addresses: Vec<SocketAddr>,
    /// The name of the [`Group`] that serves it; it exists.
    pub group: String,
    /// How fast to send, to clients that no rule claims.
    pub congestion_control: CongestionControl,
    /// Other algorithms for some clients: the first rule that claims a connection decides.
    pub congestion_rules: Vec<CongestionRule>,
    /// Minimum round-trip time below which `bbr3` is not given to further connections from the client's network.
    pub low_rtt_guard: Option<Duration>,
    /// The server's identity; `None` asks for a self-signed certificate, made at start.
    pub tls: Option<Tls>,
}

/// An algorithm for some of a listener's connections.
#[derive(Clone, Debug, PartialEq)]
pub struct CongestionRule {
    /// The clients it is for; never empty, host bits zero.
    pub networks: Vec<IpNet>,
    /// The share of their connections that it claims, 0 to 1; the others go on to the next rule.
    pub share: f64,
    /// How fast to send to them.
    pub congestion_control: CongestionControl,
}

/// An algorithm of the registry with a value for each of its options.
#[derive(Clone, Debug, PartialEq)]
pub struct CongestionControl {
    /// Its name in the registry that the configuration was read with.
    pub algorithm: String,
    /// Its options, defaults filled in.
    pub options: sluicegate_cc::Options,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// PEM: the server's certificate, then the chain.
    pub certificate: PathBuf,
    /// PEM: the private key.
    pub key: PathBuf,
}

/// What is answered under a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Prefix of the request path; starts with `/`.
    pub path: String,
    /// Who answers.
    pub handler: Handler,
}

/// Who answers a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handler {
    /// The same reply each time.
    Fixed {
        /// 200 to 599.
        status: u16,
        /// A valid field value.
        content_type: String,
        /// Empty where the status forbids one.
        body: Body,
    },
    /// As many bytes as the rest of the path asks for; [`parse_size`](crate::parse_size) reads it.
    Generate {
        /// Largest size answered, bytes.
        max_size: u64,
    },
}

/// The body of a fixed reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Given in the configuration; may be empty.
    Text(String),
    /// In a file, for the server to read.
    File(PathBuf),
}

/// What clients may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections of one worker.
    pub connections_per_worker: u64,
    /// Open requests of one connection.
    pub max_concurrent_streams: u64,
    /// Largest request body for the server's own handlers, bytes.
    pub request_body: u64,
    /// Largest header section, uncompressed bytes.
    pub header_bytes: u64,
    /// Receive flow control of a connection, bytes; at least `stream_window`.
    pub connection_window: u64,
    /// Receive flow control of a stream, bytes.
    pub stream_window: u64,
    /// Bytes of a connection that may wait to be sent.
    pub send_buffer: u64,
    /// `active_connection_id_limit`.
    pub cids_per_connection: u64,
}

/// How connections behave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quic {
    /// Silence that ends a connection.
    pub idle_timeout: Duration,
    /// Unfinished handshakes of one worker from which on (`>=`) a Retry is asked; 0: always; `None`: never.
    pub retry_above: Option<u64>,
    /// How long a Retry token is accepted.
    pub retry_token_lifetime: Duration,
    /// Largest UDP payload sent, bytes.
    pub max_udp_payload: u64,
    /// Round-trip time before the first sample.
    pub initial_rtt: Duration,
    /// `max_ack_delay`, as clients are told it.
    pub ack_delay: Duration,
    /// Whether clients are told that they may change their address.
    pub migration: bool,
    /// Whether clients get tickets for resumption.
    pub session_tickets: bool,
    /// How long a ticket can be used.
    pub session_lifetime: Duration,
    /// Stateless resets of one worker; 0: none.
    pub stateless_reset_per_second: u64,
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
