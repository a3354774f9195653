//! A client, its addresses, and what it has received over time.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use sluicegate_cc::PathChange;

use super::client::{Client, Plan, Receiver};
use super::clock::{VirtualClock, earliest};
use super::sender::Counts;
use super::watch::Inside;
use super::wire::Wire;
use super::{Outcome, Sample, SimulationError};

/// Address of the first listener.
pub(super) const SERVER: SocketAddr = address(2, 443);

/// Address of the listener with the second algorithm.
pub(super) const SECOND: SocketAddr = address(2, 444);

/// Host part of the first client's address.
const FIRST_HOST: u8 = 10;

const CLIENT_PORT: u16 = 40_000;

/// Largest datagram of a client, bytes.
const CLIENT_DATAGRAM: usize = 1_200;

const fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, host)), port)
}

/// Bytes that left the sender at one instant.
#[derive(Debug, Default)]
pub(super) struct Burst {
    at: Duration,
    bytes: u64,
    largest: u64,
}

impl Burst {
    pub(super) fn add(&mut self, at: Duration, bytes: u64) {
        if self.at != at {
            self.bytes = 0;
        }
        self.at = at;
        self.bytes += bytes;
        self.largest = self.largest.max(self.bytes);
    }

    /// Returns the most bytes that left at one instant since the last call.
    pub(super) fn take(&mut self) -> u64 {
        std::mem::take(&mut self.largest)
    }
}

/// A client behind a NAT that may give it other addresses.
pub(super) struct ClientHost {
    plan: Plan,
    /// Time at which it connects.
    pub(super) start: Duration,
    /// Whether it uses the listener with the second algorithm.
    pub(super) second: bool,
    /// Whether it connects as a browser, and its window.
    pub(super) receiver: Receiver,
    /// Time from its start until everything had arrived.
    pub(super) completed: Option<Duration>,
    /// Samples over time; those of the first client show its controller.
    pub(super) trace: Vec<Sample>,
    pub(super) burst: Burst,
    /// Size of each datagram that left the sender for it once a handshake was done.
    pub(super) datagrams: Vec<usize>,
    client: Option<Client>,
    /// Addresses that the sender sees, each from its time on. The client does not notice a change; what is sent to an earlier address
    /// is lost at the NAT.
    addresses: Vec<(Duration, SocketAddr)>,
    /// Packets that the server has sent to the present address, as far as this end can tell.
    expected: (usize, u64),
}

impl ClientHost {
    /// Returns client `number`, which connects to the first listener at once.
    pub(super) fn new(number: u8, plan: Plan) -> Self {
        Self {
            plan,
            start: Duration::ZERO,
            second: false,
            receiver: Receiver::Browser(None),
            completed: None,
            trace: Vec::new(),
            burst: Burst::default(),
            datagrams: Vec::new(),
            client: None,
            addresses: vec![(Duration::ZERO, address(FIRST_HOST + number, CLIENT_PORT))],
            expected: (0, 0),
        }
    }

    /// Has its NAT change its address at these times, ascending.
    pub(super) fn moving(mut self, changes: &[(Duration, PathChange)]) -> Self {
        let (_, mut address) = self.addresses[0];
        for &(at, change) in changes {
            match (change, address.ip()) {
                (PathChange::Address, IpAddr::V4(ip)) => {
                    let moved = u32::from(ip) ^ (1 << 8);
                    address.set_ip(Ipv4Addr::from(moved).into());
                }
                _ => address.set_port(address.port() + 1),
            }
            self.addresses.push((at, address));
        }
        self
    }

    /// Has the client carry out another plan, once the one before is done.
    pub(super) fn load(&mut self, plan: Plan) {
        self.completed = None;
        match &mut self.client {
            Some(client) => client.load(plan),
            None => self.plan = plan,
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

    /// Returns the bytes of bodies by the sample at this time or the last before.
    pub(super) fn received_by(&self, time: Duration) -> u64 {
        let sample = self.trace.iter().rfind(|sample| sample.at <= time);
        sample.map_or(0, |sample| sample.received)
    }

    /// Returns its outcome, with the counters of its connection.
    pub(super) fn into_outcome(self, counts: Counts, inside: Option<Inside>) -> Outcome {
        Outcome {
            completed: self.completed,
            received: self.received(),
            final_cwnd: counts.cwnd,
            lost_packets: counts.lost,
            pages: self.client.map_or_else(Vec::new, Client::into_pages),
            datagrams: self.datagrams,
            waits: Vec::new(),
            inside,
            trace: self.trace,
        }
    }

    /// Takes a packet with its place among those sent to an address of the client.
    pub(super) fn receive(
        &mut self,
        address: usize,
        number: u64,
        datagram: &mut [u8],
        ecn: quiche::Ecn,
        clock: &VirtualClock,
    ) {
        if address != self.number_at(clock.elapsed()) {
            return;
        }
        let in_order = self.expected == (address, number);
        self.expected = (address, number + 1);
        if let Some(client) = &mut self.client {
            client.receive(datagram, ecn, in_order, clock.now());
        }
    }

    /// Starts its connection, if it has none.
    pub(super) fn connect(&mut self, elapsed: Duration) -> Result<(), SimulationError> {
        if self.client.is_none() {
            let (local, peer) = (self.address_at(elapsed), self.server());
            self.client = Some(Client::connect(local, peer, self.plan.clone(), self.receiver)?);
        }
        Ok(())
    }

    /// Lets the client work and send.
    pub(super) fn turn(
        &mut self,
        clock: &VirtualClock,
        up: &mut Wire,
        scratch: &mut [u8],
    ) -> Result<(), SimulationError> {
        let (now, elapsed) = (clock.now(), clock.elapsed());
        if elapsed < self.start {
            return Ok(());
        }
        self.connect(elapsed)?;
        let Some(client) = &mut self.client else {
            return Ok(());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_counts_what_leaves_at_one_instant() {
        let mut burst = Burst::default();
        for (at, bytes) in [(1, 100), (1, 200), (2, 250)] {
            burst.add(Duration::from_millis(at), bytes);
        }
        assert_eq!((burst.take(), burst.take()), (300, 0));
    }
}
