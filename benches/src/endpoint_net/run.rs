//! Pages that one client loads.

use sluicegate_sim::Bottleneck;
use std::time::Duration;

use super::client::Plan;
use super::net::{Net, Setup, Station};
use super::worker::Worker;
use super::{EndpointError, Outcome, Scenario};
use crate::virtual_net::{Seeded, VirtualClock};

/// Runs one scenario on this thread.
///
/// # Errors
///
/// [`EndpointError`] when an end could not be set up, or broke the protocol. Not finishing in time is an outcome.
pub fn run(scenario: &Scenario) -> Result<Outcome, EndpointError> {
    let _random = Seeded::new(scenario.seed);
    let clock = VirtualClock::start();
    let path = scenario.path;
    let worker = Worker::new(clock.now(), |_| {}, [None; 2])?;
    let plan = Plan::Pages {
        page: scenario.page.clone(),
        times: scenario.pages,
    };
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
    };
    let mut net = Net::new(&setup, (clock, worker), vec![Station::new(plan)]);
    net.run(setup.limit)?;
    let datagrams = net.take_datagrams();
    let station = net.stations().next();
    Ok(Outcome {
        completed: station.and_then(|station| station.completed),
        received: station.map_or(0, Station::received),
        datagrams,
    })
}
