//! Downloads over one bottleneck, each with its algorithm.

use std::time::Duration;

use anyhow::Context as _;
use sluicegate_cc::{Algorithm, Options, PathChange};
use sluicegate_config::{Config, Handler};
use sluicegate_quic::connection::PACING_SLACK;
use sluicegate_sim::{Bottleneck, Pages, ReceiveWindow, Source};

use super::EndpointError;
use super::client::Plan;
use super::host::ClientHost;
use super::net::{Net, Setup};
use super::worker::Worker;
use crate::conventions::{DATAGRAM, ENDS_SEED, IDLE_TIMEOUT};
use crate::virtual_net::watch::{self, Watch};
use crate::virtual_net::{ConfiguredAlgorithm, Outcome, Seeded, VirtualClock};

/// Body that no run receives whole, bytes.
const ENDLESS: u64 = 1 << 40;

/// Downloads from one worker.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// Downloads; samples of the first show its controller.
    pub downloads: Vec<Download>,
    /// Path to the clients, which share it.
    pub down: Bottleneck,
    /// Path of each client to the server.
    pub up: Bottleneck,
    /// Time at which the run ends at the latest.
    pub limit: Duration,
    /// Drives the random numbers of the link and of both ends.
    pub seed: u64,
    /// Least time between two turns of the worker, as on a host whose timers are late; zero where they are in time.
    pub turn_interval: Duration,
}

/// One client with a connection of its own.
#[derive(Clone, Debug)]
pub struct Download {
    /// Algorithm of the server's end. There are at most two in a run.
    pub algorithm: ConfiguredAlgorithm,
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
    pub fn new(algorithm: impl Into<ConfiguredAlgorithm>, source: Source) -> Self {
        Self {
            algorithm: algorithm.into(),
            source,
            start: Duration::ZERO,
            path_changes: Vec::new(),
            receive_window: None,
            pages: None,
        }
    }
}

/// Runs all downloads on this thread. Returns their outcomes in their order.
///
/// # Errors
///
/// [`EndpointError`] when an end could not be set up, or broke the protocol. Not finishing in time is an outcome.
pub fn transfer(transfer: &Transfer) -> Result<Vec<Outcome>, EndpointError> {
    let _random = Seeded::new(transfer.seed ^ ENDS_SEED);
    let clock = VirtualClock::start();
    let watch = match transfer.downloads.len() {
        1 => Watch::Connection,
        _ => Watch::First,
    };
    let algorithms = transfer.downloads.iter().map(|one| one.algorithm);
    let first = algorithms.clone().next().context("no download")?;
    let second = algorithms.clone().find(|configured| *configured != first);
    let (algorithm, options) = find(first)?;
    let watched = watch::watched(algorithm, watch, PACING_SLACK);
    let second = second.map(find).transpose()?;
    let algorithms = [Some((watched, options)), second];
    let worker = Worker::new(clock.now(), configure, algorithms)?;
    let hosts = transfer.downloads.iter().map(|one| {
        let mut host = ClientHost::new(plan(one, transfer.down.delay));
        host.start = one.start;
        host.second = one.algorithm != first;
        host.path_changes = one.path_changes.clone();
        host.receive_window = one.receive_window;
        host
    });
    let setup = Setup {
        down: transfer.down.clone(),
        up: transfer.up.clone(),
        max_datagram: usize::MAX,
        limit: transfer.limit,
        seed: transfer.seed,
        turn_interval: transfer.turn_interval,
    };
    let mut net = Net::new(&setup, (clock, worker), hosts.collect());
    net.run()?;
    let views =
        std::iter::once((watch::view(), watch::inside())).chain(std::iter::repeat((None, None)));
    let outcomes = net.into_hosts().zip(views);
    Ok(outcomes
        .map(|(host, (view, inside))| Outcome {
            completed: host.completed,
            received: host.received(),
            final_cwnd: view.map_or(0, |view| view.cwnd),
            lost_packets: view.map_or(0, |view| view.lost_packets),
            pages: host.pages(),
            inside,
            trace: host.trace,
        })
        .collect())
}

fn find(configured: ConfiguredAlgorithm) -> anyhow::Result<(Algorithm, Options)> {
    Ok(configured.find()?)
}

/// Sets what the scenarios fix: the datagram size, bodies of any length, and no end of a connection that waits.
fn configure(config: &mut Config) {
    config.quic.max_udp_payload = DATAGRAM;
    config.quic.idle_timeout = IDLE_TIMEOUT;
    for route in &mut config.routes {
        if let Handler::Generate(generate) = &mut route.handler {
            generate.max_size = ENDLESS;
        }
    }
}

/// Returns the sizes of a page's objects.
fn split(bytes: u64, objects: u64) -> Vec<u64> {
    let larger = bytes % objects;
    let size = |number| bytes / objects + u64::from(number < larger);
    (0..objects).map(size).collect()
}

/// Returns the requests for the data of a download, those with a time early enough for the way to the server.
fn plan(download: &Download, delay: Duration) -> Plan {
    let Download { source, start, .. } = download;
    if let Some(PageLoad { pages, objects }) = download.pages {
        let times = source.total(1).map_or(u64::MAX, |bytes| bytes.div_ceil(pages.bytes));
        return Plan::pages(split(pages.bytes, objects), times, pages.think);
    }
    let offers: Vec<(Duration, u64)> = match source {
        Source::Bulk(bytes) => vec![(Duration::ZERO, *bytes)],
        Source::Endless => vec![(Duration::ZERO, ENDLESS)],
        Source::Periodic { bytes, every, times } => {
            let times = 0..u32::try_from(*times).unwrap_or(u32::MAX);
            times.map(|number| (*every * number, *bytes)).collect()
        }
        Source::Bursts(bursts) => bursts.clone(),
    };
    let requests = offers.into_iter();
    let requests = requests.map(|(at, bytes)| (*start + at.saturating_sub(delay), bytes));
    Plan::Timed(requests.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_a_page_have_all_of_its_bytes() {
        assert_eq!(split(10, 4), [3, 3, 2, 2]);
        assert_eq!(split(2_450_000, 70), [35_000; 70]);
        assert_eq!(split(500_000, 1), [500_000]);
        assert_eq!(split(2, 3), [1, 1, 0]);
    }
}
