//! The collapse on real sockets: the product or quiche's own control, a client that is not ours, the emulated link.

use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::error::RealNetError;
use super::product::{PORT, ProductServer, start_first};
use super::quiche_server::QuicheServer;
use crate::collapse::{self, LossOn};
use crate::linkem::{End, Ended, INTERVAL, Link, Network, SERVER};
use crate::virtual_net::Control;

/// Codes of a shell that cannot run a command, or does not find it (POSIX, section 2.8.2 of "Shell Command Language").
const NOT_RUN: [i32; 2] = [126, 127];

/// One run of the collapse.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// Congestion control of the server: the product's own at its default options, or in a server of its own one of quiche.
    pub control: Control,
    /// The direction in which packets are lost.
    pub loss_on: LossOn,
    /// Round-trip time.
    pub rtt: Duration,
    /// Time after which the download has failed.
    pub limit: Duration,
    /// Seed of the losses.
    pub seed: u64,
    /// The product.
    pub program: &'a Path,
    /// Core of the product's worker.
    pub core: usize,
    /// Shell command of the client, in which `{url}` stands for the URL.
    pub client: &'a str,
}

/// Result of a run.
#[derive(Debug)]
pub struct Attempted {
    /// Time from the client's start to its end; `None` if it failed or the time was over.
    pub completed: Option<Duration>,
    /// Bytes of packets that reached the client, in each interval from the first packet.
    pub delivered: Vec<u64>,
    /// Packets that the kernel dropped before or after the emulator.
    pub overflow: u64,
    /// The link at the end.
    pub ended: Ended,
}

/// The server, until it is dropped.
enum Server {
    Product { _server: ProductServer },
    Quiche { _server: QuicheServer },
}

impl Attempt<'_> {
    /// Runs a download.
    ///
    /// # Errors
    ///
    /// There is no network, or a program does not start. A download that fails is a result.
    pub fn run(&self) -> Result<Attempted, RealNetError> {
        let scenario = collapse::scenario(self.control, self.loss_on, self.seed);
        let [down, up] = [scenario.down, scenario.up].map(|mut path| {
            path.delay = self.rtt / 2;
            path
        });
        let mut network = Network::new()?;
        let emulator = network.join(Link::new(&down, &up, self.seed))?;
        let server = self.serve(&network)?;
        let url = format!("https://{SERVER}:{PORT}/bytes/{}", collapse::BYTES);
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec {}", self.client.replace("{url}", &url))]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::null());
        let start = quiche::clock::now();
        let client = start_first(&network.client, &mut command)?;
        let status = client.wait(self.limit, || false)?;
        let time = quiche::clock::now() - start;
        drop((client, server));
        if let Some(code) =
            status.and_then(|status| status.code()).filter(|code| NOT_RUN.contains(code))
        {
            return Err(RealNetError::Client(self.client.to_owned(), code));
        }
        let overflow = network.overflow()?;
        let ended = emulator.stop()?;
        let tally = ended.link.towards(End::Client).tally();
        let whole = tally.delivered_bytes >= collapse::BYTES;
        let done = status.is_some_and(|status| status.success()) && whole;
        let intervals = tally.flows.values().map(Vec::len).max().unwrap_or_default();
        let mut delivered = vec![0; intervals];
        for flow in tally.flows.values() {
            for (sum, bytes) in delivered.iter_mut().zip(flow) {
                *sum += bytes;
            }
        }
        Ok(Attempted { completed: done.then_some(time), delivered, overflow, ended })
    }

    fn serve(&self, network: &Network) -> Result<Server, RealNetError> {
        match self.control {
            Control::Ours(configured) => Ok(Server::Product {
                _server: ProductServer::start(
                    network,
                    self.program,
                    configured.algorithm,
                    self.core,
                )?,
            }),
            control => {
                let socket = network.server.within(|| UdpSocket::bind((SERVER, PORT)))??;
                Ok(Server::Quiche {
                    _server: QuicheServer::start(socket, control, collapse::BYTES)?,
                })
            }
        }
    }
}

impl Attempted {
    /// Returns the bytes that have reached the client over time: seconds and million bytes.
    pub fn progress(&self) -> Vec<(f64, f64)> {
        let mut sum = 0;
        let points = (1..).zip(&self.delivered).map(|(interval, bytes)| {
            sum += bytes;
            (f64::from(interval) * INTERVAL.as_secs_f64(), sum as f64 / 1e6)
        });
        std::iter::once((0.0, 0.0)).chain(points).collect()
    }
}
