//! A client, its addresses, and what it has received over time.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use sluicegate_cc::PathChange;
use sluicegate_sim::ReceiveWindow;

use super::EndpointError;
use super::client::{Client, Plan};
use crate::virtual_net::{Burst, Sample, VirtualClock, Wire, earliest};

const SERVER: SocketAddr = address(2, 443);

/// Address of the listener with the second algorithm.
const SECOND: SocketAddr = address(2, 444);

/// Host part of the first client's address.
const FIRST_HOST: u8 = 10;

const CLIENT_PORT: u16 = 40_000;

/// Largest datagram of a client, bytes.
const CLIENT_DATAGRAM: usize = 1_200;

const fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, host)), port)
}

/// A client behind a NAT that may give it other addresses.
pub(super) struct ClientHost {
    plan: Plan,
    /// Time at which it connects.
    pub(super) start: Duration,
    /// Whether it uses the listener with the second algorithm.
    pub(super) second: bool,
    /// Changes of its address, ascending. It does not notice them; what is sent to an earlier address is lost at the NAT.
    pub(super) path_changes: Vec<(Duration, PathChange)>,
    /// Flow control of the client, and the rate at which it reads; `None` never limits.
    pub(super) receive_window: Option<ReceiveWindow>,
    /// Time from its start until everything had arrived.
    pub(super) completed: Option<Duration>,
    /// Samples over time; those of the first client show its controller.
    pub(super) trace: Vec<Sample>,
    pub(super) burst: Burst,
    client: Option<Client>,
    /// Addresses that the server sees, each from its time on.
    addresses: Vec<(Duration, SocketAddr)>,
    /// Packets that the server has sent to the present address, as far as this end can tell.
    expected: (usize, u64),
}

impl ClientHost {
    /// Returns a client that connects to the first listener at once.
    pub(super) fn new(plan: Plan) -> Self {
        Self {
            plan,
            start: Duration::ZERO,
            second: false,
            path_changes: Vec::new(),
            receive_window: None,
            completed: None,
            trace: Vec::new(),
            burst: Burst::default(),
            client: None,
            addresses: Vec::new(),
            expected: (0, 0),
        }
    }

    /// Has the client carry out another plan, once the one before is done.
    pub(super) fn load(&mut self, plan: Plan) {
        self.completed = None;
        match &mut self.client {
            Some(client) => client.load(plan),
            None => self.plan = plan,
        }
    }

    /// Takes the addresses of client `number`.
    pub(super) fn settle(&mut self, number: u8) {
        let mut address = address(FIRST_HOST + number, CLIENT_PORT);
        self.addresses = vec![(Duration::ZERO, address)];
        for &(at, change) in &self.path_changes {
            match (change, address.ip()) {
                (PathChange::Address, IpAddr::V4(ip)) => {
                    let moved = u32::from(ip) ^ (1 << 8);
                    address.set_ip(Ipv4Addr::from(moved).into());
                }
                _ => address.set_port(address.port() + 1),
            }
            self.addresses.push((at, address));
        }
    }

    /// Returns the number of an address, present, past or future, among those of the client.
    pub(super) fn number_of(&self, address: SocketAddr) -> Option<usize> {
        self.addresses.iter().position(|(_, own)| *own == address)
    }

    /// Returns the address that packets have which leave the client at this time.
    pub(super) fn address_at(&self, elapsed: Duration) -> SocketAddr {
        self.addresses[self.number_at(elapsed)].1
    }

    fn number_at(&self, elapsed: Duration) -> usize {
        let begun = self.addresses.partition_point(|(at, _)| *at <= elapsed);
        begun.saturating_sub(1)
    }

    /// Returns the address of its listener.
    pub(super) const fn server(&self) -> SocketAddr {
        if self.second { SECOND } else { SERVER }
    }

    /// Returns the bytes of bodies so far.
    pub(super) fn received(&self) -> u64 {
        self.client.as_ref().map_or(0, Client::received)
    }

    /// Returns the times that its pages took.
    pub(super) fn pages(&self) -> Vec<Duration> {
        let client = self.client.as_ref();
        client.map_or_else(Vec::new, |client| client.pages().to_vec())
    }

    /// Takes a packet with its place among those sent to an address of the client.
    pub(super) fn receive(
        &mut self,
        (address, number): (usize, u64),
        (datagram, ecn): (&mut [u8], quiche::Ecn),
        clock: &VirtualClock,
    ) {
        if address != self.number_at(clock.elapsed()) {
            return;
        }
        let in_order = self.expected == (address, number);
        self.expected = (address, number + 1);
        if let Some(client) = &mut self.client {
            client.receive((datagram, ecn, in_order), clock.now());
        }
    }

    /// Lets the client work and send.
    pub(super) fn turn(
        &mut self,
        clock: &VirtualClock,
        up: &mut Wire,
        scratch: &mut [u8],
    ) -> Result<(), EndpointError> {
        let (now, elapsed) = (clock.now(), clock.elapsed());
        if elapsed < self.start {
            return Ok(());
        }
        let (local, server) = (self.address_at(elapsed), self.server());
        let client = match &mut self.client {
            Some(client) => client,
            None => {
                let plan = self.plan.clone();
                let client = Client::connect(local, server, plan, self.receive_window)?;
                self.client.insert(client)
            }
        };
        client.on_timer(now);
        client.on_turn(elapsed, now, scratch)?;
        while client.may_send(now)
            && let Some(size) = client.http.next_datagram(&mut scratch[..CLIENT_DATAGRAM])
        {
            up.depart(elapsed, &scratch[..size]);
        }
        if client.finished() && self.completed.is_none() {
            self.completed = Some(elapsed - self.start);
        }
        Ok(())
    }

    /// Returns whether nothing more will arrive.
    pub(super) fn has_ended(&self) -> bool {
        let closed = |client: &Client| client.http.quic().is_closed();
        self.completed.is_some() || self.client.as_ref().is_some_and(closed)
    }

    /// Returns when it does something next.
    pub(super) fn next_event(&self, clock: &VirtualClock) -> Option<Duration> {
        let Some(client) = &self.client else {
            return Some(self.start);
        };
        let timer = client.next_event().map(|at| clock.since_start(at));
        earliest([timer, client.next_action(clock.elapsed())])
    }
}
