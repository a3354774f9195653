//! Pages that one client loads.

use sluicegate_sim::Bottleneck;
use std::time::Duration;

use super::client::Plan;
use super::host::ClientHost;
use super::net::{Net, Setup};
use super::worker::Worker;
use super::{EndpointError, Outcome, Scenario};
use crate::virtual_net::{Seeded, VirtualClock, watch};

/// Runs one scenario on this thread.
///
/// # Errors
///
/// [`EndpointError`] when an end could not be set up, or broke the protocol. Not finishing in time is an outcome.
pub fn run(scenario: &Scenario) -> Result<Outcome, EndpointError> {
    let _random = Seeded::new(scenario.seed);
    watch::forget();
    let clock = VirtualClock::start();
    let path = scenario.path;
    let worker = Worker::new(clock.now(), |_| {}, [None, None])?;
    let plan = Plan::pages(scenario.page.clone(), scenario.pages, Duration::ZERO);
    let setup = Setup {
        down: Bottleneck {
            rate: vec![(Duration::ZERO, path.rate)],
            queue_bytes: path.queue_bytes,
            ..Bottleneck::unlimited(path.delay)
        },
        up: Bottleneck::unlimited(path.delay),
        max_datagram: path.max_datagram,
        limit: scenario.limit,
        seed: scenario.seed,
        turn_interval: Duration::ZERO,
    };
    let mut net = Net::new(&setup, (clock, worker), vec![ClientHost::new(plan)]);
    net.run()?;
    let datagrams = net.take_datagrams();
    let host = net.hosts().next();
    Ok(Outcome {
        completed: host.and_then(|host| host.completed),
        received: host.map_or(0, ClientHost::received),
        datagrams,
    })
}
