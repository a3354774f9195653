//! The event loop: turns of the worker and of its clients, with the clock jumping between them.

use std::time::Duration;

use sluicegate_dataplane as dataplane;
use sluicegate_sim::{Bottleneck, Ecn};

use super::EndpointError;
use super::client::Plan;
use super::host::ClientHost;
use super::worker::Worker;
use crate::conventions::{SAMPLE_EVERY, UP_SEED};
use crate::virtual_net::{Sample, VirtualClock, Wire, earliest, watch};

/// A run that needs more has stopped making progress.
const MAX_TURNS: u64 = 50_000_000;

/// The network and the limits of a run.
pub(super) struct Setup {
    /// Path to the clients, which share it.
    pub(super) down: Bottleneck,
    /// Path of each client to the server.
    pub(super) up: Bottleneck,
    /// Largest datagram that passes towards a client, bytes of UDP payload.
    pub(super) max_datagram: usize,
    /// Time at which the run ends at the latest.
    pub(super) limit: Duration,
    /// Drives the losses in both directions.
    pub(super) seed: u64,
    /// Least time between two turns of the worker, as on a host whose timers are late.
    pub(super) turn_interval: Duration,
}

/// The worker, its clients and the paths between them.
pub(super) struct Net {
    clock: VirtualClock,
    worker: Worker,
    /// Clients, each with its path to the server.
    hosts: Vec<(ClientHost, Wire)>,
    down: Wire,
    /// Largest datagram that passes, bytes.
    max_datagram: usize,
    limit: Duration,
    turn_interval: Duration,
    /// Time before which the worker makes no turn and receives nothing.
    next_turn: Duration,
    /// Size of each datagram that left the server once a handshake was done.
    datagrams: Vec<usize>,
    /// Datagrams that reached the server.
    received: u64,
    scratch: Vec<u8>,
    next_sample: Duration,
}

impl Net {
    pub(super) fn new(
        setup: &Setup,
        (clock, worker): (VirtualClock, Worker),
        hosts: Vec<ClientHost>,
    ) -> Self {
        let hosts = (0..).zip(hosts).map(|(number, mut host)| {
            host.settle(number);
            let seed = (setup.seed ^ UP_SEED).wrapping_add(u64::from(number));
            (host, Wire::new(&setup.up, seed))
        });
        Self {
            clock,
            worker,
            hosts: hosts.collect(),
            down: Wire::new(&setup.down, setup.seed),
            max_datagram: setup.max_datagram,
            limit: setup.limit,
            turn_interval: setup.turn_interval,
            next_turn: Duration::ZERO,
            datagrams: Vec::new(),
            received: 0,
            scratch: vec![0; 64 * 1024],
            next_sample: Duration::ZERO,
        }
    }

    pub(super) fn hosts(&self) -> impl Iterator<Item = &ClientHost> {
        self.hosts.iter().map(|(host, _)| host)
    }

    pub(super) fn into_hosts(self) -> impl Iterator<Item = ClientHost> {
        self.hosts.into_iter().map(|(host, _)| host)
    }

    /// Returns the size of each datagram that left the server once a handshake was done.
    pub(super) fn take_datagrams(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.datagrams)
    }

    /// Returns the number of datagrams that reached the server since the last call.
    pub(super) fn take_received(&mut self) -> u64 {
        std::mem::take(&mut self.received)
    }

    /// Has the instructions of the worker counted from now on.
    pub(super) fn count(&mut self) {
        self.worker.count();
    }

    /// Has each client carry out another plan, once the one before is done.
    pub(super) fn load(&mut self, plan: &Plan) {
        for (host, _) in &mut self.hosts {
            host.load(plan.clone());
        }
    }

    /// Lets the worker make a turn in which nothing has arrived; what it sends is lost.
    pub(super) fn idle_turn(&mut self) {
        self.worker.turn(self.clock.now(), |_, _| {});
    }

    /// Runs until every client has everything, or until the limit.
    pub(super) fn run(&mut self) -> Result<(), EndpointError> {
        for _ in 0..MAX_TURNS {
            self.turn()?;
            self.sample();
            if self.hosts().all(ClientHost::has_ended) {
                return Ok(());
            }
            match self.next_event() {
                Some(next) if next <= self.limit => self.clock.advance_to(next),
                _ => return Ok(()),
            }
            self.deliver();
        }
        Err(EndpointError::Turns(MAX_TURNS))
    }

    /// Lets the clients work and send, and the worker if it is its turn.
    fn turn(&mut self) -> Result<(), EndpointError> {
        for (host, up) in &mut self.hosts {
            host.turn(&self.clock, up, &mut self.scratch)?;
        }
        if self.is_workers_turn() {
            self.worker_turn();
        }
        Ok(())
    }

    /// Lets the worker work and send.
    fn worker_turn(&mut self) {
        let (now, elapsed) = (self.clock.now(), self.clock.elapsed());
        let counts = self.worker.has_established();
        let Self { worker, hosts, down, datagrams, max_datagram, .. } = self;
        worker.turn(now, |meta, datagram| {
            if counts {
                datagrams.push(datagram.len());
            }
            let found = hosts.iter().enumerate().find_map(|(place, (host, _))| {
                let address = host.number_of(meta.peer)?;
                Some((place, address))
            });
            let Some((place, address)) = found else {
                return;
            };
            hosts[place].0.burst.add(elapsed, datagram.len() as u64);
            if datagram.len() <= *max_datagram {
                // Each address of a client is a flow of its own.
                let flow = address * hosts.len() + place;
                down.depart_of(elapsed, datagram, flow, link_ecn(meta.ecn));
            }
        });
        if !self.worker.has_more() {
            self.next_turn = elapsed + self.turn_interval;
        }
    }

    fn is_workers_turn(&self) -> bool {
        self.next_turn <= self.clock.elapsed()
    }

    fn sample(&mut self) {
        let at = self.clock.elapsed();
        if at < self.next_sample {
            return;
        }
        self.next_sample = at + SAMPLE_EVERY;
        let in_flight = self.down.bytes();
        let first = watch::view();
        let views = std::iter::once(first).chain(std::iter::repeat(None));
        for ((host, _), view) in self.hosts.iter_mut().zip(views) {
            host.trace.push(Sample {
                at,
                cwnd: view.map_or(0, |view| view.cwnd),
                in_flight,
                received: host.received(),
                sent_packets: view.map_or(0, |view| view.sent_packets),
                lost_packets: view.map_or(0, |view| view.lost_packets),
                srtt: view.and_then(|view| view.srtt),
                burst: host.burst.take(),
                state: view.map(|view| view.state.name()),
                view,
            });
        }
    }

    /// Returns when something happens next, since the start.
    fn next_event(&mut self) -> Option<Duration> {
        let timer = self.worker.next_turn(self.clock.now());
        let arrivals = self.hosts.iter().filter_map(|(_, up)| up.next_arrival());
        let worker = earliest([timer.map(|at| self.clock.since_start(at)), arrivals.min()]);
        let hosts = self.hosts.iter().filter_map(|(host, _)| host.next_event(&self.clock));
        earliest([worker.map(|at| at.max(self.next_turn)), hosts.min(), self.down.next_arrival()])
    }

    /// Hands over what arrived; the worker receives in its turns. An end may refuse a packet, which is then gone.
    fn deliver(&mut self) {
        let (now, elapsed) = (self.clock.now(), self.clock.elapsed());
        let count = self.hosts.len();
        while let Some(mut packet) = self.down.take_delivery(elapsed) {
            let (host, _) = &mut self.hosts[packet.flow % count];
            let ecn = received_ecn(packet.ecn, packet.ce);
            host.receive(
                (packet.flow / count, packet.number),
                (&mut packet.bytes, ecn),
                &self.clock,
            );
            self.down.recycle(packet.bytes);
        }
        if !self.is_workers_turn() {
            return;
        }
        for (host, up) in &mut self.hosts {
            while let Some(mut packet) = up.take_delivery(elapsed) {
                let ends = (host.address_at(packet.departed), host.server());
                let ecn = dataplane::Ecn::NotCapable;
                self.received += 1;
                self.worker.receive(ends, (&mut packet.bytes, ecn), now);
                up.recycle(packet.bytes);
            }
        }
    }
}

/// Returns the codepoint that the queues of the link see.
const fn link_ecn(ecn: dataplane::Ecn) -> Ecn {
    match ecn {
        dataplane::Ecn::NotCapable => Ecn::NotEct,
        dataplane::Ecn::Ect0 | dataplane::Ecn::CongestionExperienced => Ecn::Ect0,
        dataplane::Ecn::Ect1 => Ecn::Ect1,
    }
}

/// Returns the codepoint with which a packet arrives that the link may have marked.
const fn received_ecn(sent: Ecn, ce: bool) -> quiche::Ecn {
    match (sent, ce) {
        (Ecn::NotEct, _) => quiche::Ecn::NotCapable,
        (_, true) => quiche::Ecn::CongestionExperienced,
        (Ecn::Ect0, false) => quiche::Ecn::Ect0,
        (Ecn::Ect1, false) => quiche::Ecn::Ect1,
    }
}
