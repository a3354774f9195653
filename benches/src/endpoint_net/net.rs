//! The event loop: turns of the worker and of its clients, with the clock jumping between them.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use sluicegate::quic::connection::PACING_SLACK;
use sluicegate_cc::PathChange;
use sluicegate_dataplane as dataplane;
use sluicegate_sim::{Bottleneck, Ecn};

use super::EndpointError;
use super::client::{Client, Plan};
use super::worker::Worker;
use crate::virtual_net::{Burst, Sample, View, VirtualClock, Wire, earliest, watch};

const SERVER: SocketAddr = address(2, 443);

/// Address of the listener with the second algorithm.
const SECOND: SocketAddr = address(2, 444);

/// Host of the first client.
const FIRST_HOST: u8 = 10;

const CLIENT_PORT: u16 = 40_000;

/// A run that needs more has stopped making progress.
const MAX_TURNS: u64 = 50_000_000;

/// Datagrams of the server where its controller is watched, bytes of UDP payload.
pub(super) const DATAGRAM: u64 = 1_200;

/// Largest datagram of a client, bytes.
const CLIENT_DATAGRAM: usize = 1_200;

const SAMPLE_EVERY: Duration = Duration::from_millis(10);

/// Sets apart the sequences of the two directions.
const UP_SEED: u64 = 0x5bd1_e995_7f4a_7c15;

const fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, host)), port)
}

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
}

/// A client, and its place in the network.
pub(super) struct Station {
    plan: Plan,
    /// Time at which it connects.
    pub(super) start: Duration,
    /// Whether it uses the listener with the second algorithm.
    pub(super) second: bool,
    /// Changes of its address on the way to the server, ascending. It does not notice them, as behind a NAT.
    pub(super) path_changes: VecDeque<(Duration, PathChange)>,
    /// Time from its start until everything had arrived.
    pub(super) completed: Option<Duration>,
    /// Samples over time; those of the first client show its controller.
    pub(super) trace: Vec<Sample>,
    client: Option<Client>,
    /// Address that the server sees.
    seen_as: SocketAddr,
    burst: Burst,
}

impl Station {
    /// Returns a client that connects to the first listener at once.
    pub(super) fn new(plan: Plan) -> Self {
        Self {
            plan,
            start: Duration::ZERO,
            second: false,
            path_changes: VecDeque::new(),
            completed: None,
            trace: Vec::new(),
            client: None,
            seen_as: address(FIRST_HOST, CLIENT_PORT),
            burst: Burst::default(),
        }
    }

    /// Returns the bytes of bodies so far.
    pub(super) fn received(&self) -> u64 {
        self.client.as_ref().map_or(0, Client::received)
    }

    fn server(&self) -> SocketAddr {
        if self.second { SECOND } else { SERVER }
    }

    /// Takes over the address that the client has at this time.
    fn change_path(&mut self, elapsed: Duration) {
        while let Some(&(at, change)) = self.path_changes.front()
            && at <= elapsed
        {
            self.path_changes.pop_front();
            let (ip, port) = (self.seen_as.ip(), self.seen_as.port());
            match (change, ip) {
                (PathChange::Address, IpAddr::V4(ip)) => {
                    let moved = u32::from(ip) ^ (1 << 8);
                    self.seen_as.set_ip(Ipv4Addr::from(moved).into());
                }
                (PathChange::Port, _) | (PathChange::Address, IpAddr::V6(_)) => {
                    self.seen_as.set_port(port + 1);
                }
            }
        }
    }

    /// Lets the client work and send.
    fn turn(
        &mut self,
        clock: &VirtualClock,
        up: &mut Wire,
        scratch: &mut [u8],
    ) -> Result<(), EndpointError> {
        let (now, elapsed) = (clock.now(), clock.elapsed());
        if elapsed < self.start {
            return Ok(());
        }
        self.change_path(elapsed);
        let server = self.server();
        let client = match &mut self.client {
            Some(client) => client,
            None => {
                let client = Client::connect(self.seen_as, server, self.plan.clone())?;
                self.client.insert(client)
            }
        };
        if client.quic.timeout_instant().is_some_and(|at| at <= now) {
            client.quic.on_timeout();
        }
        client.on_turn(elapsed, scratch)?;
        while client.may_send(now) {
            match client.quic.send(&mut scratch[..CLIENT_DATAGRAM]) {
                Ok((size, _)) => up.depart(elapsed, &scratch[..size]),
                Err(quiche::Error::Done) => break,
                Err(error) => return Err(error.into()),
            }
        }
        if client.finished() && self.completed.is_none() {
            self.completed = Some(elapsed - self.start);
        }
        Ok(())
    }

    /// Returns whether nothing more will arrive.
    fn has_ended(&self) -> bool {
        let closed = |client: &Client| client.quic.is_closed();
        self.completed.is_some() || self.client.as_ref().is_some_and(closed)
    }

    /// Returns when it does something next.
    fn next_event(&self, clock: &VirtualClock) -> Option<Duration> {
        let Some(client) = &self.client else {
            return Some(self.start);
        };
        let timer = client.next_event().map(|at| clock.since_start(at));
        let change = self.path_changes.front().map(|(at, _)| *at);
        earliest([timer, client.next_request(clock.elapsed()), change])
    }
}

/// The worker, its clients and the paths between them.
pub(super) struct Net {
    clock: VirtualClock,
    worker: Worker,
    /// Clients, each with its path to the server.
    stations: Vec<(Station, Wire)>,
    down: Wire,
    /// Largest datagram that passes, bytes.
    max_datagram: usize,
    /// Size of each datagram that left the server once a handshake was done.
    datagrams: Vec<usize>,
    scratch: Vec<u8>,
    next_sample: Duration,
}

impl Net {
    pub(super) fn new(
        setup: &Setup,
        (clock, worker): (VirtualClock, Worker),
        stations: Vec<Station>,
    ) -> Self {
        let stations = (FIRST_HOST..).zip(stations).map(|(host, mut station)| {
            station.seen_as = address(host, CLIENT_PORT);
            let up = Wire::new(
                &setup.up,
                (setup.seed ^ UP_SEED).wrapping_add(u64::from(host)),
            );
            (station, up)
        });
        Self {
            clock,
            worker,
            stations: stations.collect(),
            down: Wire::new(&setup.down, setup.seed),
            max_datagram: setup.max_datagram,
            datagrams: Vec::new(),
            scratch: vec![0; 64 * 1024],
            next_sample: Duration::ZERO,
        }
    }

    pub(super) fn stations(&self) -> impl Iterator<Item = &Station> {
        self.stations.iter().map(|(station, _)| station)
    }

    pub(super) fn into_stations(self) -> impl Iterator<Item = Station> {
        self.stations.into_iter().map(|(station, _)| station)
    }

    /// Returns the size of each datagram that left the server once a handshake was done.
    pub(super) fn take_datagrams(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.datagrams)
    }

    /// Runs until every client has everything, or until `limit`.
    pub(super) fn run(&mut self, limit: Duration) -> Result<(), EndpointError> {
        for _ in 0..MAX_TURNS {
            self.turn()?;
            self.sample();
            if self.stations().all(Station::has_ended) {
                break;
            }
            let Some(next) = self.next_event() else { break };
            if next > limit {
                break;
            }
            self.clock.advance_to(next);
            self.deliver();
        }
        Ok(())
    }

    /// Lets all ends work and send.
    fn turn(&mut self) -> Result<(), EndpointError> {
        for (station, up) in &mut self.stations {
            station.turn(&self.clock, up, &mut self.scratch)?;
        }
        let (now, elapsed) = (self.clock.now(), self.clock.elapsed());
        let counts = self.worker.has_established();
        let Self {
            worker,
            stations,
            down,
            datagrams,
            max_datagram,
            ..
        } = self;
        worker.turn(now, |meta, datagram| {
            if counts {
                datagrams.push(datagram.len());
            }
            let place = { stations.iter() }.position(|(station, _)| station.seen_as == meta.peer);
            // What goes to an address that a client has left is lost.
            let Some(place) = place else { return };
            stations[place].0.burst.add(elapsed, datagram.len() as u64);
            if datagram.len() <= *max_datagram {
                down.depart_of(elapsed, datagram, place, link_ecn(meta.ecn));
            }
        });
        Ok(())
    }

    fn sample(&mut self) {
        let at = self.clock.elapsed();
        if at < self.next_sample {
            return;
        }
        self.next_sample = at + SAMPLE_EVERY;
        let in_flight = self.down.bytes();
        let first = watch::view().map(with_slack);
        let views = std::iter::once(first).chain(std::iter::repeat(None));
        for ((station, _), view) in self.stations.iter_mut().zip(views) {
            station.trace.push(Sample {
                at,
                cwnd: view.map_or(0, |view| view.cwnd),
                in_flight,
                received: station.received(),
                sent_packets: view.map_or(0, |view| view.sent_packets),
                lost_packets: view.map_or(0, |view| view.lost_packets),
                srtt: view.and_then(|view| view.srtt),
                burst: station.burst.take(),
                state: view.map(|view| view.state.name()),
                view,
            });
        }
    }

    /// Returns when something happens next, since the start.
    fn next_event(&self) -> Option<Duration> {
        let worker = self.worker.next_turn(self.clock.now());
        let stations = self.stations.iter().filter_map(|(station, up)| {
            earliest([station.next_event(&self.clock), up.next_arrival()])
        });
        earliest([
            worker.map(|at| self.clock.since_start(at)),
            stations.min(),
            self.down.next_arrival(),
        ])
    }

    /// Hands over what arrived. An end may refuse a packet, which is then gone.
    fn deliver(&mut self) {
        let (now, elapsed) = (self.clock.now(), self.clock.elapsed());
        while let Some(mut packet) = self.down.take_delivery(elapsed) {
            let (station, _) = &mut self.stations[packet.flow];
            let from = station.server();
            if let Some(client) = &mut station.client {
                let to = client.local;
                let ecn = received_ecn(packet.ecn, packet.ce);
                let info = quiche::RecvInfo { from, to };
                client.receive((&mut packet.bytes, ecn), info, now);
            }
            self.down.recycle(packet.bytes);
        }
        for (station, up) in &mut self.stations {
            let ends = (station.seen_as, station.server());
            while let Some(mut packet) = up.take_arrived(elapsed) {
                let ecn = dataplane::Ecn::NotCapable;
                self.worker.receive(ends, (&mut packet, ecn), now);
                up.recycle(packet);
            }
        }
    }
}

/// Adds to the allowed burst what the server sends ahead of its release time, in whole datagrams.
fn with_slack(view: View) -> View {
    let slack = u64::try_from(PACING_SLACK.as_micros()).unwrap_or(u64::MAX);
    let ahead = view.pacing_rate.unwrap_or(0).saturating_mul(slack) / 1_000_000;
    View {
        quantum: view.quantum + ahead.div_ceil(DATAGRAM) * DATAGRAM,
        ..view
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
