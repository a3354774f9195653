//! A download from the product over an emulated link, in real time.

use std::path::Path;
use std::time::Duration;

use sluicegate_sim::Bottleneck;

use super::error::RealNetError;
use super::product::{ProductServer, datagrams_of, own_client, start_first};
use crate::linkem::{End, Ended, Link, Network};

/// One download with the product's own client.
#[derive(Clone, Debug)]
pub struct RealDownload {
    /// The server's congestion control, at its default options.
    pub algorithm: &'static str,
    /// Size of the server's datagrams, bytes of UDP payload.
    pub datagram: u64,
    /// Size of the body, bytes.
    pub bytes: u64,
    /// Path towards the client.
    pub down: Bottleneck,
    /// Path back.
    pub up: Bottleneck,
    /// Time after which the download has failed.
    pub limit: Duration,
    /// Drives everything random on the link.
    pub seed: u64,
}

/// Result of a download.
#[derive(Debug)]
pub struct Downloaded {
    /// Time from the client's first packet to the last one that reached it; `None` if it failed or the time was over.
    pub completed: Option<Duration>,
    /// Packets that the kernel dropped before or after the emulator.
    pub overflow: u64,
    /// The link at the end.
    pub ended: Ended,
}

impl RealDownload {
    /// Runs it. `program` is the product, and `core` that of its worker.
    ///
    /// # Errors
    ///
    /// There is no network, or a program does not start. A download that fails is a result.
    pub fn run(&self, program: &Path, core: usize) -> Result<Downloaded, RealNetError> {
        let mut network = Network::new()?;
        let emulator = network.join(Link::new(&self.down, &self.up, self.seed))?;
        let quic = datagrams_of(self.datagram);
        let server = ProductServer::start_with(&network, program, self.algorithm, core, &quic)?;
        let mut client = own_client(program, self.bytes);
        let client = start_first(&network.client, &mut client)?;
        let status = client.wait(self.limit, || false)?;
        drop((client, server));
        let overflow = network.overflow()?;
        let ended = emulator.stop()?;
        let tally = ended.link.towards(End::Client).tally();
        let done = status.is_some_and(|status| status.success());
        Ok(Downloaded { completed: done.then_some(tally.last), overflow, ended })
    }
}
