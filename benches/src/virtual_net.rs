//! Downloads over HTTP/3 between real ends, over an emulated link, in virtual time.
//!
//! The sender is the product's own, a worker's endpoint with its handlers, pacing slack, send quantum and budget, as the configuration
//! without a file sets them up; or a bare connection of quiche, which can also have quiche's own congestion control. Clients are those
//! of `quic-client`. Only the network and the clock are made up: the clock jumps from event to event, and random numbers follow from
//! the seed. One simulation runs per thread, because clock and random numbers are the thread's. The same [`Scenario`] gives the same
//! outcomes. Processing takes no time: what costs it is counted in turns and datagrams.

mod client;
mod clock;
mod configured_algorithm;
mod connection;
mod control;
mod error;
mod flood;
mod host;
mod net;
mod random;
mod reader;
mod run;
mod sender;
mod steady;
mod sweep;
mod tls;
mod trace;
mod watch;
mod wire;
mod worker;

use std::time::Duration;

pub use configured_algorithm::ConfiguredAlgorithm;
pub use control::Control;
pub use error::SimulationError;
pub use flood::{Flood, Goodput, goodput_under};
pub use run::run;
use sluicegate_base::observe::account::Wait;
use sluicegate_cc::PathChange;
use sluicegate_sim::{Bottleneck, Pages, ReceiveWindow, Source};
pub use sweep::{Sweep, sweep};
pub use watch::{Inside, View};

pub(crate) use clock::earliest;
pub(crate) use connection::BareConnection;
pub(crate) use sender::Sender;
pub(crate) use steady::{count_idle_turns, count_pages, count_upload};
pub(crate) use tls::server as server_config;
pub(crate) use wire::{InTransit, Wire, directions};

use crate::conventions::DATAGRAM;

/// Downloads from one server.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The end that sends.
    pub server: Server,
    /// Downloads, at least one; samples of the first show its controller. A bare connection has no others.
    pub downloads: Vec<Download>,
    /// Path to the clients, which share it. `ack_loss` has no effect on a direction, and `ack_hold` holds all of its packets.
    pub down: Bottleneck,
    /// Path of each client to the server, likewise.
    pub up: Bottleneck,
    /// Largest UDP payload that passes towards a client, bytes; larger datagrams are lost without a word.
    pub max_datagram: usize,
    /// Time at which the run ends at the latest.
    pub limit: Duration,
    /// Drives the random numbers of the link and of both ends.
    pub seed: u64,
    /// Least time between two turns of the server, as on a host whose timers are late; zero where they are in time.
    pub turn_interval: Duration,
    /// Time from which the server's socket takes nothing; `None` if it always does.
    pub socket_full_from: Option<Duration>,
    /// Whether the server's certificate is larger than what a client gets before it has proved its address (RFC 9000 §8.1).
    pub large_certificate: bool,
}

impl Scenario {
    /// Returns downloads over a path of the simulator, there and back.
    pub fn new(
        server: Server,
        downloads: Vec<Download>,
        path: &Bottleneck,
        limit: Duration,
        seed: u64,
    ) -> Self {
        let (down, up) = directions(path);
        Self {
            server,
            downloads,
            down,
            up,
            max_datagram: usize::MAX,
            limit,
            seed,
            turn_interval: Duration::ZERO,
            socket_full_from: None,
            large_certificate: false,
        }
    }
}

/// The end that sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// The product's: a worker's endpoint.
    Endpoint {
        /// Largest datagram that it tries, bytes of UDP payload.
        max_udp_payload: u64,
    },
    /// One connection of quiche, without the product around it. It sends the data of a download as one body that grows with time, and
    /// the client acknowledges each packet, loads no pages and stays where it is.
    Bare,
}

impl Default for Server {
    /// The product's, with the datagrams of all comparisons.
    fn default() -> Self {
        Self::Endpoint { max_udp_payload: DATAGRAM }
    }
}

/// One client with a connection of its own.
#[derive(Clone, Debug)]
pub struct Download {
    /// Congestion control of the server's end. There are at most two in a run, and those of quiche need a bare connection.
    pub control: Control,
    /// Data: a request for each time at which there is some, sent in time to be served then.
    pub source: Source,
    /// Time at which the client connects. The downloads stand in the order of their starts.
    pub start: Duration,
    /// Changes of the client's address on the way to the server, ascending.
    pub path_changes: Vec<(Duration, PathChange)>,
    /// The client's flow control and the rate at which it reads; `None` never limits.
    pub receive_window: Option<ReceiveWindow>,
    /// Pages that the data is requested in; `None` requests all that there is at a time at once.
    pub pages: Option<PageLoad>,
}

/// Pages that a client loads, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct PageLoad {
    /// Size of the pages, and the time between them.
    pub pages: Pages,
    /// Objects of a page, at least one, whose sizes differ by at most a byte. They are requested at once, on streams of their own;
    /// the simulator sends a page as one.
    pub objects: u64,
}

impl Download {
    /// Returns a download that starts at once and that only the path and the server limit.
    pub fn new(control: impl Into<Control>, source: Source) -> Self {
        Self {
            control: control.into(),
            source,
            start: Duration::ZERO,
            path_changes: Vec::new(),
            receive_window: None,
            pages: None,
        }
    }
}

/// Result of a download.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Time from the client's first packet to the end of the last body; `None` where the run ended first.
    pub completed: Option<Duration>,
    /// Bytes of bodies that the client got.
    pub received: u64,
    /// The server's congestion window at the end, bytes; of the first download alone, as all that follows but for pages and datagrams.
    pub final_cwnd: u64,
    /// Packets that the server declared lost.
    pub lost_packets: u64,
    /// Times that the pages took the client, each from its request to its last byte; empty where it loads none.
    pub pages: Vec<Duration>,
    /// Size of each datagram that left the server for the client once a handshake was done, bytes of UDP payload.
    pub datagrams: Vec<usize>,
    /// Time that the server's end of the connection has spent on each wait; empty for a bare connection.
    pub waits: Vec<(Wait, Duration)>,
    /// State of one of our algorithms over the run; `None` for those of quiche.
    pub inside: Option<Inside>,
    /// The server over time, a sample every 10 ms where something happened.
    pub trace: Vec<Sample>,
}

/// The server at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time since the start of the run.
    pub at: Duration,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Bytes that left the server and are on the link, what the link lost not included.
    pub in_flight: u64,
    /// Bytes of bodies that the client got so far.
    pub received: u64,
    /// Packets that left the server so far.
    pub sent_packets: u64,
    /// Packets that the server declared lost so far.
    pub lost_packets: u64,
    /// The server's smoothed round-trip time; `None` before the first sample.
    pub srtt: Option<Duration>,
    /// Most bytes that left at one instant since the sample before.
    pub burst: u64,
    /// State of the server's control; of quiche's own only the unfixed CUBIC shows it.
    pub state: Option<&'static str>,
    /// State of one of our algorithms; `None` for those of quiche.
    pub view: Option<View>,
}
