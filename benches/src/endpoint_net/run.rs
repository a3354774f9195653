//! The event loop: turns of the worker and of its client, with the clock jumping between them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use sluicegate_sim::Bottleneck;

use super::client::Client;
use super::worker::Worker;
use super::{EndpointError, Outcome, Scenario};
use crate::virtual_net::{Seeded, VirtualClock, Wire, earliest};

const CLIENT: SocketAddr = address(1, 40_000);
const SERVER: SocketAddr = address(2, 443);

/// A run that needs more has stopped making progress.
const MAX_TURNS: usize = 1_000_000;

/// Largest datagram of the client, bytes.
const CLIENT_DATAGRAM: usize = 1_200;

const fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, host)), port)
}

/// Runs one scenario on this thread.
///
/// # Errors
///
/// [`EndpointError`] when an end could not be set up, or broke the protocol. Not finishing in time is an outcome.
pub fn run(scenario: &Scenario) -> Result<Outcome, EndpointError> {
    let _random = Seeded::new(scenario.seed);
    let mut net = Net::new(scenario)?;
    for _ in 0..MAX_TURNS {
        net.turn()?;
        if net.client.finished() {
            net.outcome.completed = Some(net.clock.elapsed());
            break;
        }
        let Some(next) = net.next_event() else { break };
        if next > scenario.limit {
            break;
        }
        net.clock.advance_to(next);
        net.deliver();
    }
    net.outcome.received = net.client.received();
    Ok(net.outcome)
}

struct Net {
    clock: VirtualClock,
    client: Client,
    worker: Worker,
    up: Wire,
    down: Wire,
    /// Largest datagram that passes, bytes.
    max_datagram: usize,
    outcome: Outcome,
    scratch: Vec<u8>,
}

impl Net {
    fn new(scenario: &Scenario) -> Result<Self, EndpointError> {
        let clock = VirtualClock::start();
        let path = scenario.path;
        let down = Bottleneck {
            rate: vec![(Duration::ZERO, path.rate)],
            queue_bytes: path.queue_bytes,
            ..Bottleneck::unlimited(path.delay)
        };
        Ok(Self {
            client: Client::connect(CLIENT, SERVER, &scenario.page, scenario.pages)?,
            worker: Worker::new(clock.now(), |_| {})?,
            clock,
            up: Wire::new(&Bottleneck::unlimited(path.delay), scenario.seed),
            down: Wire::new(&down, scenario.seed),
            max_datagram: path.max_datagram,
            outcome: Outcome::default(),
            scratch: vec![0; 64 * 1024],
        })
    }

    /// Lets both ends work and send.
    fn turn(&mut self) -> Result<(), EndpointError> {
        let (now, elapsed) = (self.clock.now(), self.clock.elapsed());
        let client = &mut self.client;
        if client.quic.timeout_instant().is_some_and(|at| at <= now) {
            client.quic.on_timeout();
        }
        client.on_turn(&mut self.scratch)?;
        while client.may_send(now) {
            match client.quic.send(&mut self.scratch[..CLIENT_DATAGRAM]) {
                Ok((size, _)) => self.up.depart(elapsed, &self.scratch[..size]),
                Err(quiche::Error::Done) => break,
                Err(error) => return Err(error.into()),
            }
        }
        let counts = self.worker.has_established();
        let Self {
            worker,
            down,
            outcome,
            max_datagram,
            ..
        } = self;
        worker.turn(now, |_, datagram| {
            if counts {
                outcome.datagrams.push(datagram.len());
            }
            if datagram.len() <= *max_datagram {
                down.depart(elapsed, datagram);
            }
        });
        Ok(())
    }

    /// Returns when something happens next, since the start.
    fn next_event(&self) -> Option<Duration> {
        let timers = earliest([
            self.client.next_event(),
            self.worker.next_turn(self.clock.now()),
        ]);
        earliest([
            timers.map(|at| self.clock.since_start(at)),
            self.up.next_arrival(),
            self.down.next_arrival(),
        ])
    }

    /// Hands over what arrived. An end may refuse a packet, which is then gone.
    fn deliver(&mut self) {
        let (now, elapsed) = (self.clock.now(), self.clock.elapsed());
        while let Some(mut packet) = self.down.take_arrived(elapsed) {
            let (from, to) = (SERVER, CLIENT);
            self.client
                .receive(&mut packet, quiche::RecvInfo { from, to }, now);
            self.down.recycle(packet);
        }
        while let Some(mut packet) = self.up.take_arrived(elapsed) {
            self.worker.receive((CLIENT, SERVER), &mut packet, now);
            self.up.recycle(packet);
        }
    }
}
