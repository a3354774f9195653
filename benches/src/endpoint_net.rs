//! The server's endpoint among clients, over emulated paths, in virtual time.
//!
//! [`virtual_net`](crate::virtual_net) runs one connection packet by packet. Here the sender is the product's own: a worker's
//! endpoint with its handlers, pacing slack, send quantum and budget, as the configuration without a file sets them up. Clients are
//! quiche's. Processing takes no time: what costs it is counted in turns and datagrams.

mod client;
mod flood;
mod host;
mod net;
mod reader;
mod run;
mod steady;
mod transfer;
mod worker;

use std::collections::BTreeMap;
use std::time::Duration;

use thiserror::Error;

pub use flood::{Flood, Goodput, goodput_under};
pub use run::run;
pub(crate) use steady::{count_idle_turns, count_pages, count_upload};
pub use transfer::{Download, PageLoad, Transfer, transfer};

/// The same path for every client, in both directions apart from the rate.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Delay in each direction.
    pub delay: Duration,
    /// Rate towards the client, bits per second.
    pub rate: u64,
    /// Room in the queue before the link, bytes.
    pub queue_bytes: u64,
    /// Largest UDP payload that passes, bytes; larger datagrams are lost without a word.
    pub max_datagram: usize,
}

/// One client that loads pages, one after the other, over one connection.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Between client and server.
    pub path: Path,
    /// Bodies of a page, bytes; all are asked for at once.
    pub page: Vec<u64>,
    /// Number of times that the page is loaded.
    pub pages: u64,
    /// The run ends here at the latest.
    pub limit: Duration,
    /// Drives the random numbers of both ends.
    pub seed: u64,
}

/// Result of loading the pages.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Time from the client's first packet to the end of the last body; `None` if the run ended first.
    pub completed: Option<Duration>,
    /// Bytes of bodies that the client received.
    pub received: u64,
    /// Size of each datagram that left the server once the handshake was done, bytes of UDP payload.
    pub datagrams: Vec<usize>,
}

impl Outcome {
    /// Returns the share of datagrams of fewer than `bytes`.
    #[must_use]
    pub fn share_below(&self, bytes: usize) -> f64 {
        let small = self.datagrams.iter().filter(|size| **size < bytes).count();
        small as f64 / self.datagrams.len().max(1) as f64
    }

    /// Returns how many datagrams there are of each size, rounded down to a multiple of `step` bytes.
    #[must_use]
    pub fn histogram(&self, step: usize) -> BTreeMap<usize, usize> {
        let mut counts = BTreeMap::new();
        for size in &self.datagrams {
            *counts.entry(size / step * step).or_default() += 1;
        }
        counts
    }

    /// Returns the mean size of a datagram, bytes.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let sum: usize = self.datagrams.iter().sum();
        sum as f64 / self.datagrams.len().max(1) as f64
    }
}

/// Error that kept a run from starting. Pages that do not arrive in time are no error.
#[derive(Debug, Error)]
pub enum EndpointError {
    /// The server could not be set up.
    #[error("the server: {0}")]
    Server(#[from] anyhow::Error),
    /// The client failed below HTTP/3.
    #[error("the client's QUIC: {0}")]
    Quic(#[from] quiche::Error),
    /// A request was refused or its response reset.
    #[error("a response that is not the body asked for")]
    Response,
    /// The run has stopped making progress.
    #[error("no end after {0} turns")]
    Turns(u64),
    /// The clients were not done at the end of the run.
    #[error("the clients were not done in time")]
    Unfinished,
    /// The client failed in HTTP/3.
    #[error("the client's HTTP/3: {0}")]
    Http(#[from] quiche::h3::Error),
}
