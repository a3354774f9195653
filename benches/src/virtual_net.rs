//! An HTTP/3 download between a real client and a real server, over an emulated link, in virtual time.
//!
//! Both ends are the QUIC and HTTP/3 quiche of the product, with its handshake, timers and pacing; the server's
//! congestion control is attached as the product attaches it. Only the network and the clock are made up: the clock
//! jumps from event to event, and random numbers follow from the seed. One simulation runs per thread, because clock
//! and random numbers are the thread's. The same [`Scenario`] gives the same [`Outcome`].

mod client;
mod clock;
mod configured_algorithm;
mod control;
mod error;
mod random;
mod run;
mod server;
mod sweep;
pub(crate) mod tls;
mod trace;
pub(crate) mod watch;
mod wire;

use std::time::Duration;

pub use configured_algorithm::ConfiguredAlgorithm;
pub use control::Control;
pub use error::SimulationError;
pub use run::run;
use sluicegate_sim::{Bottleneck, Source};
pub use sweep::{Sweep, sweep};
pub use watch::{Inside, View};

pub(crate) use clock::{VirtualClock, earliest};
pub(crate) use random::Seeded;
pub(crate) use server::Server;
pub(crate) use tls::server as server_config;
pub(crate) use wire::{Burst, InTransit, Wire, directions};

/// One download.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The server's congestion control.
    pub control: Control,
    /// The body: how many bytes, and when the server has them, counted from the client's first packet.
    pub body: Source,
    /// Path from the server to the client. `ack_loss` has no effect on a direction, and `ack_hold` holds all of its packets.
    pub down: Bottleneck,
    /// Path from the client to the server, likewise.
    pub up: Bottleneck,
    /// The run ends here at the latest.
    pub limit: Duration,
    /// Seed of the losses in both directions, and of quiche's random numbers.
    pub seed: u64,
}

/// Result of a download.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Time from the client's first packet to the end of the body; `None` where the run ended first.
    pub completed: Option<Duration>,
    /// Bytes of the body that the client got.
    pub received: u64,
    /// The server's congestion window at the end, bytes.
    pub final_cwnd: u64,
    /// Packets that the server declared lost.
    pub lost_packets: u64,
    /// Times that the pages took the client, each from its request to its last byte; empty where it loads none.
    pub pages: Vec<Duration>,
    /// State of one of our algorithms over the run; `None` for those of quiche.
    pub inside: Option<Inside>,
    /// The server over time, a sample every 10 ms where something happened.
    pub trace: Vec<Sample>,
}

/// The server at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time since the client's first packet.
    pub at: Duration,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Bytes that left the server and are on the link, what the link lost not included.
    pub in_flight: u64,
    /// Bytes of the body that the client got so far.
    pub received: u64,
    /// Packets that left the server so far.
    pub sent_packets: u64,
    /// Packets that the server declared lost so far.
    pub lost_packets: u64,
    /// The server's smoothed round-trip time; `None` before the first sample.
    pub srtt: Option<Duration>,
    /// Most bytes that left the server at one instant since the sample before.
    pub burst: u64,
    /// State of the server's control; of quiche's own only the unfixed CUBIC shows it.
    pub state: Option<&'static str>,
    /// State of one of our algorithms; `None` for those of quiche.
    pub view: Option<View>,
}
