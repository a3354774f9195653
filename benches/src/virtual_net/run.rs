//! Sets up both ends of a scenario.

use std::time::Duration;

use sluicegate_config::{Config, Handler};
use sluicegate_quic::connection::PACING_SLACK;
use sluicegate_sim::Source;

use super::client::{Plan, Receiver};
use super::clock::VirtualClock;
use super::connection::BareConnection;
use super::host::ClientHost;
use super::net::Net;
use super::random::Seeded;
use super::sender::Sender;
use super::watch::{self, Watch};
use super::worker::Worker;
use super::{Control, Download, Outcome, PageLoad, Scenario, Server, SimulationError, tls};
use crate::conventions::{ENDS_SEED, IDLE_TIMEOUT};

/// Body that no run receives whole, bytes.
const ENDLESS: u64 = 1 << 40;

/// The control whose states are read from its trace. Writing one costs time, so the others go without.
const SPECIMEN: Control = Control::QuicheCubic { idle_fix: false };

/// Runs all downloads on this thread. Returns their outcomes in their order.
///
/// # Errors
///
/// [`SimulationError`] when an end could not be set up, or broke the protocol. Not finishing in time is an outcome.
pub fn run(scenario: &Scenario) -> Result<Vec<Outcome>, SimulationError> {
    let _random = Seeded::new(scenario.seed ^ ENDS_SEED);
    let clock = VirtualClock::start();
    let first = scenario.downloads.first().ok_or(SimulationError::NoDownload)?;
    match scenario.server {
        Server::Endpoint { max_udp_payload } => {
            let worker = worker(scenario, first.control, max_udp_payload, &clock)?;
            let hosts = (0..).zip(&scenario.downloads).map(|(number, one)| {
                let plan = plan(one, scenario.down.delay);
                let mut host = ClientHost::new(number, plan).moving(&one.path_changes);
                host.start = one.start;
                host.second = one.control != first.control;
                host.receiver = Receiver::Browser(one.receive_window);
                host
            });
            finish(scenario, clock, worker, hosts.collect())
        }
        Server::Bare => {
            let body = first.source.clone();
            let whole = body.total(1).unwrap_or(ENDLESS);
            let mut host = ClientHost::new(0, Plan::Timed([(Duration::ZERO, whole)].into()));
            host.receiver = Receiver::Bare;
            host.connect(Duration::ZERO)?;
            let (peer, local) = (host.address_at(Duration::ZERO), host.server());
            let mut config = tls::server(first.control)?;
            let mut sender = BareConnection::accept(&mut config, peer, local, body, clock.now())?;
            if first.control == SPECIMEN {
                sender.trace();
            }
            finish(scenario, clock, sender, vec![host])
        }
    }
}

fn finish<S: Sender>(
    scenario: &Scenario,
    clock: VirtualClock,
    sender: S,
    hosts: Vec<ClientHost>,
) -> Result<Vec<Outcome>, SimulationError> {
    let mut net = Net::new(scenario, clock, sender, hosts);
    net.run()?;
    Ok(net.into_outcomes())
}

/// Returns the product's endpoint with both algorithms of the downloads. That of the first is watched.
fn worker(
    scenario: &Scenario,
    first: Control,
    max_udp_payload: u64,
    clock: &VirtualClock,
) -> Result<Worker, SimulationError> {
    let watch = match scenario.downloads.len() {
        1 => Watch::Connection,
        _ => Watch::First,
    };
    let mut others = scenario.downloads.iter().map(|one| one.control);
    let second = others.find(|control| *control != first);
    let (algorithm, options) = first.find()?;
    let watched = watch::watched(algorithm, watch, PACING_SLACK);
    let algorithms = [Some((watched, options)), second.map(Control::find).transpose()?];
    let change = |config: &mut Config| configure(config, max_udp_payload);
    let identity =
        if scenario.large_certificate { tls::large_identity()? } else { tls::identity()? };
    Ok(Worker::with_identity(identity, clock.now(), change, algorithms)?)
}

/// Sets what the scenarios fix: the datagram size, bodies of any length, and no end of a connection that waits.
fn configure(config: &mut Config, max_udp_payload: u64) {
    config.quic.max_udp_payload = max_udp_payload;
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
