//! Steady work of a worker, whose instructions are counted: first some of it as a warm-up, then what counts.

use std::time::Duration;

use anyhow::Context as _;
use sluicegate_base::tls::Identity;
use sluicegate_config::Config;
use sluicegate_sim::Bottleneck;

use super::client::Plan;
use super::clock::VirtualClock;
use super::host::ClientHost;
use super::net::Net;
use super::random::Seeded;
use super::worker::Worker;
use super::{Scenario, Server, SimulationError, watch};

/// Delay in each direction.
const DELAY: Duration = Duration::from_millis(5);

/// Rate towards the clients, bits per second. The queue before it never drops: what is counted has no losses.
const RATE: u64 = 100_000_000;

/// Longer than any run takes.
const LIMIT: Duration = Duration::from_secs(600);

/// More than any upload has, bytes.
const LARGEST_REQUEST: u64 = 1 << 30;

/// Drives the random numbers of both ends.
const SEED: u64 = 1;

/// Turns after the last page in which the worker sends what is left.
const LAST_TURNS: u32 = 10;

/// Lets a client load a page so many times, and `warm_up` times before, with the instructions of the worker counted: datagrams that
/// it receives, and turns. Returns the number of datagrams that it sent meanwhile.
///
/// # Errors
///
/// [`SimulationError`] when an end could not be set up, broke the protocol, or did not finish.
pub(crate) fn count_pages(page: &[u64], warm_up: u64, times: u64) -> Result<u64, SimulationError> {
    let pages = |times| Plan::pages(page.to_vec(), times, Duration::ZERO);
    let mut run = Run::new(&pages(warm_up), 1)?;
    run.count(&pages(times))?;
    Ok(run.net.take_sent())
}

/// Lets a client send a request with a body of so many bytes, and one with a body of `warm_up` bytes before, with the instructions of
/// the worker counted. Returns the number of datagrams that it received meanwhile.
///
/// # Errors
///
/// Those of [`count_pages`].
pub(crate) fn count_upload(warm_up: u64, bytes: u64) -> Result<u64, SimulationError> {
    let mut run = Run::new(&Plan::Upload(warm_up), 1)?;
    run.count(&Plan::Upload(bytes))?;
    Ok(run.net.take_received())
}

/// Has the instructions of turns counted in which nothing arrives and no timer is due, with so many connections open.
///
/// # Errors
///
/// Those of [`count_pages`].
pub(crate) fn count_idle_turns(connections: u8, turns: u64) -> Result<(), SimulationError> {
    let page = Plan::pages(vec![1_000], 1, Duration::ZERO);
    let mut run = Run::new(&page, connections)?;
    for _ in 0..LAST_TURNS {
        run.net.idle_turn()?;
    }
    run.net.sender.count();
    for _ in 0..turns {
        run.net.idle_turn()?;
    }
    Ok(())
}

/// A worker and clients that have carried out their first plan.
struct Run {
    net: Net<Worker>,
    _random: Seeded,
}

impl Run {
    fn new(plan: &Plan, clients: u8) -> Result<Self, SimulationError> {
        let random = Seeded::new(SEED);
        watch::forget();
        let clock = VirtualClock::start();
        // With the curve of the product's own certificates: a key of RSA takes callgrind seconds.
        let identity = Identity::self_signed().context("the certificate")?;
        let change = |config: &mut Config| config.limits.max_request_body = LARGEST_REQUEST;
        let worker = Worker::with_identity(&identity, clock.now(), change, [None, None])?;
        let path =
            Bottleneck { rate: vec![(Duration::ZERO, RATE)], ..Bottleneck::unlimited(DELAY) };
        let scenario = Scenario::new(Server::default(), Vec::new(), &path, LIMIT, SEED);
        let hosts = (0..clients).map(|number| ClientHost::new(number, plan.clone()));
        let net = Net::new(&scenario, clock, worker, hosts.collect());
        let mut run = Self { net, _random: random };
        run.finish()?;
        Ok(run)
    }

    /// Has the instructions of the worker counted while the clients carry out another plan.
    fn count(&mut self, plan: &Plan) -> Result<(), SimulationError> {
        self.net.sender.count();
        self.net.take_sent();
        self.net.take_received();
        self.net.load(plan);
        self.finish()
    }

    fn finish(&mut self) -> Result<(), SimulationError> {
        self.net.run()?;
        let done = self.net.hosts().all(|host| host.completed.is_some());
        done.then_some(()).ok_or(SimulationError::Unfinished)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_take_at_least_the_datagrams_of_their_bytes() {
        let sent = count_pages(&[100_000], 1, 3).unwrap();
        assert!((3 * 100_000 / 1_472..3 * 100_000 / 1_000).contains(&sent), "{sent}");
    }

    #[test]
    fn upload_takes_at_least_the_datagrams_of_its_bytes() {
        let received = count_upload(10_000, 300_000).unwrap();
        assert!((300_000 / 1_200..300_000 / 800).contains(&received), "{received}");
    }

    #[test]
    fn turns_without_work_end() {
        count_idle_turns(2, 3).unwrap();
    }
}
