//! The event loop: turns of the sender and of its clients, with the clock jumping between them.

use std::time::Duration;

use sluicegate_dataplane as dataplane;
use sluicegate_sim::Ecn;

use super::client::Plan;
use super::clock::{VirtualClock, earliest};
use super::host::ClientHost;
use super::sender::Sender;
use super::wire::Wire;
use super::{Outcome, Sample, Scenario, SimulationError, watch};
use crate::conventions::{SAMPLE_EVERY, UP_SEED};

/// A run that needs more has stopped making progress.
const MAX_TURNS: u64 = 50_000_000;

/// The sender, its clients and the paths between them.
pub(super) struct Net<S> {
    clock: VirtualClock,
    pub(super) sender: S,
    /// Clients, each with its path to the sender.
    hosts: Vec<(ClientHost, Wire)>,
    down: Wire,
    /// Largest datagram that passes, bytes.
    max_datagram: usize,
    limit: Duration,
    turn_interval: Duration,
    socket_full_from: Option<Duration>,
    /// Time before which the sender makes no turn and receives nothing.
    next_turn: Duration,
    /// Datagrams that reached the sender.
    received: u64,
    scratch: Vec<u8>,
    next_sample: Duration,
}

impl<S: Sender> Net<S> {
    /// Returns the network of a scenario, between a sender and the clients of its downloads.
    pub(super) fn new(
        scenario: &Scenario,
        clock: VirtualClock,
        sender: S,
        hosts: Vec<ClientHost>,
    ) -> Self {
        let hosts = (0..).zip(hosts).map(|(number, host)| {
            let seed = (scenario.seed ^ UP_SEED).wrapping_add(number);
            (host, Wire::new(&scenario.up, seed))
        });
        Self {
            clock,
            sender,
            hosts: hosts.collect(),
            down: Wire::new(&scenario.down, scenario.seed),
            max_datagram: scenario.max_datagram,
            limit: scenario.limit,
            turn_interval: scenario.turn_interval,
            socket_full_from: scenario.socket_full_from,
            next_turn: Duration::ZERO,
            received: 0,
            scratch: vec![0; 64 * 1024],
            next_sample: Duration::ZERO,
        }
    }

    pub(super) fn hosts(&self) -> impl Iterator<Item = &ClientHost> {
        self.hosts.iter().map(|(host, _)| host)
    }

    /// Returns what the clients received, in their order; the first with its connection's counters.
    pub(super) fn into_outcomes(self) -> Vec<Outcome> {
        let waits = self.sender.waits(self.clock.now());
        let mut first = Some((self.sender.counts(watch::view()), watch::inside()));
        let hosts = self.hosts.into_iter();
        let outcomes = hosts.map(|(host, _)| {
            let (counts, inside) = first.take().unwrap_or_default();
            host.into_outcome(counts, inside)
        });
        let mut outcomes: Vec<Outcome> = outcomes.collect();
        if let Some(first) = outcomes.first_mut() {
            first.waits = waits;
        }
        outcomes
    }

    /// Returns the number of datagrams that left the sender for its clients since the last call, once a handshake was done.
    pub(super) fn take_sent(&mut self) -> u64 {
        let hosts = self.hosts.iter_mut();
        hosts.map(|(host, _)| std::mem::take(&mut host.datagrams).len() as u64).sum()
    }

    /// Returns the number of datagrams that reached the sender since the last call.
    pub(super) fn take_received(&mut self) -> u64 {
        std::mem::take(&mut self.received)
    }

    /// Has each client carry out another plan, once the one before is done.
    pub(super) fn load(&mut self, plan: &Plan) {
        for (host, _) in &mut self.hosts {
            host.load(plan.clone());
        }
    }

    /// Lets the sender make a turn in which nothing has arrived; what it sends is lost.
    pub(super) fn idle_turn(&mut self) -> Result<(), SimulationError> {
        self.sender.turn(self.clock.now(), |_, _, _| {})
    }

    /// Runs until every client has everything, or until the limit.
    pub(super) fn run(&mut self) -> Result<(), SimulationError> {
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
        Err(SimulationError::Turns(MAX_TURNS))
    }

    /// Lets the clients work and send, and the sender if it is its turn.
    fn turn(&mut self) -> Result<(), SimulationError> {
        for (host, up) in &mut self.hosts {
            host.turn(&self.clock, up, &mut self.scratch)?;
        }
        if self.is_senders_turn() { self.sender_turn() } else { Ok(()) }
    }

    /// Lets the sender work and send.
    fn sender_turn(&mut self) -> Result<(), SimulationError> {
        let (now, elapsed) = (self.clock.now(), self.clock.elapsed());
        let counts = self.sender.has_established();
        if self.socket_full_from.take_if(|from| *from <= elapsed).is_some() {
            self.sender.fill_socket();
        }
        let Self { sender, hosts, down, max_datagram, .. } = self;
        sender.turn(now, |peer, ecn, datagram| {
            let found = hosts.iter().enumerate().find_map(|(place, (host, _))| {
                let address = host.number_of(peer)?;
                Some((place, address))
            });
            let Some((place, address)) = found else {
                return;
            };
            // Each address of a client is a flow of its own.
            let flow = address * hosts.len() + place;
            let host = &mut hosts[place].0;
            host.burst.add(elapsed, datagram.len() as u64);
            if counts {
                host.datagrams.push(datagram.len());
            }
            if datagram.len() <= *max_datagram {
                down.depart_of(elapsed, datagram, flow, link_ecn(ecn));
            }
        })?;
        if !self.sender.has_more() {
            self.next_turn = elapsed + self.turn_interval;
        }
        Ok(())
    }

    fn is_senders_turn(&self) -> bool {
        self.next_turn <= self.clock.elapsed()
    }

    fn sample(&mut self) {
        let at = self.clock.elapsed();
        if at < self.next_sample {
            return;
        }
        self.next_sample = at + SAMPLE_EVERY;
        let in_flight = self.down.bytes();
        let view = watch::view();
        let mut first = Some((self.sender.counts(view), view));
        for (host, _) in &mut self.hosts {
            let (counts, view) = first.take().unwrap_or_default();
            host.trace.push(Sample {
                at,
                cwnd: counts.cwnd,
                in_flight,
                received: host.received(),
                sent_packets: counts.sent,
                lost_packets: counts.lost,
                srtt: counts.srtt,
                burst: host.burst.take(),
                state: counts.state,
                view,
            });
        }
    }

    /// Returns when something happens next, since the start.
    fn next_event(&mut self) -> Option<Duration> {
        let timer = self.sender.next_turn(self.clock.now());
        let arrivals = self.hosts.iter().filter_map(|(_, up)| up.next_arrival());
        let sender = earliest([timer.map(|at| self.clock.since_start(at)), arrivals.min()]);
        let hosts = self.hosts.iter().filter_map(|(host, _)| host.next_event(&self.clock));
        earliest([sender.map(|at| at.max(self.next_turn)), hosts.min(), self.down.next_arrival()])
    }

    /// Hands over what arrived; the sender receives in its turns. An end may refuse a packet, which is then gone.
    fn deliver(&mut self) {
        let (now, elapsed) = (self.clock.now(), self.clock.elapsed());
        let count = self.hosts.len();
        while let Some(mut packet) = self.down.take_delivery(elapsed) {
            let (host, _) = &mut self.hosts[packet.flow % count];
            let ecn = received_ecn(packet.ecn, packet.ce);
            host.receive(packet.flow / count, packet.number, &mut packet.bytes, ecn, &self.clock);
            self.down.recycle(packet.bytes);
        }
        if !self.is_senders_turn() {
            return;
        }
        for (host, up) in &mut self.hosts {
            while let Some(mut packet) = up.take_delivery(elapsed) {
                let (from, to) = (host.address_at(packet.departed), host.server());
                let ecn = dataplane::Ecn::NotCapable;
                self.received += 1;
                self.sender.receive(from, to, &mut packet.bytes, ecn, now);
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
