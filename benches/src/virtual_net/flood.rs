//! Goodput of established connections while strangers flood the worker, or a socket is full. What it costs is counted in
//! turns: each takes a millisecond, and what is sent in one arrives at once.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use sluicegate_config::Config;
use sluicegate_dataplane::Ecn;
use sluicegate_sim::Bottleneck;

use super::client::Plan;
use super::clock::VirtualClock;
use super::host::{ClientHost, SECOND, SERVER};
use super::net::Net;
use super::random::Seeded;
use super::sender::{Counts, Sender};
use super::watch::View;
use super::worker::Worker;
use super::{Scenario, Server, SimulationError, watch};

/// Trouble that begins once the connections have their full rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flood {
    /// Initials without a token, which provoke Retry.
    Initials,
    /// Long headers of an unknown version, which provoke Version Negotiation.
    UnknownVersions,
    /// The socket of a second listener, which has connections of its own, takes nothing.
    FullSocket,
}

/// Work of equally many turns before and after the trouble began.
#[derive(Clone, Copy, Debug)]
pub struct Goodput {
    /// Bytes of bodies that the clients of the first listener received before.
    pub before: u64,
    /// Bytes of bodies that they received after.
    pub after: u64,
    /// Datagrams that strangers received.
    pub stateless_packets: u64,
}

const TURN: Duration = Duration::from_millis(1);

/// Time in which the connections find their rate.
const WARM_UP: Duration = Duration::from_millis(60);

/// Time that is measured before and after the trouble began.
const MEASURED: Duration = Duration::from_millis(40);

/// Datagrams of strangers per turn: half of what a worker receives in one.
const STRANGERS: u16 = 512;

/// Clients of each listener: enough to use up a worker's budget, although each connection is given data once a turn.
const CLIENTS: u8 = 12;

/// Body that lasts for the whole run, bytes.
const BODY: u64 = 1 << 30;

/// Address of the strangers; each has a port.
const STRANGERS_HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));

/// Lets clients download from a worker, and returns what they receive before and after the trouble began.
///
/// # Errors
///
/// [`SimulationError`] when an end could not be set up, or broke the protocol.
pub fn goodput_under(flood: Flood) -> Result<Goodput, SimulationError> {
    let _random = Seeded::new(1);
    let clock = VirtualClock::start();
    watch::forget();
    let change = |config: &mut Config| config.quic.retry_above = Some(0);
    let worker = Worker::new(clock.now(), change, [None, None])?;
    let begins = WARM_UP + MEASURED;
    let sender = Flooded { worker, flood, begins: clock.now() + begins, stateless_packets: 0 };
    let listeners = if flood == Flood::FullSocket { 2 } else { 1 };
    let hosts = (0..CLIENTS * listeners).map(|number| {
        let mut host = ClientHost::new(number, Plan::Timed([(Duration::ZERO, BODY)].into()));
        host.second = number >= CLIENTS;
        host
    });
    let (path, end) = (Bottleneck::unlimited(Duration::ZERO), begins + MEASURED);
    let scenario = Scenario::new(Server::default(), Vec::new(), &path, end, 1);
    let scenario = Scenario { turn_interval: TURN, ..scenario };
    let mut net = Net::new(&scenario, clock, sender, hosts.collect());
    net.run()?;
    let received_by = |time| -> u64 {
        let first = net.hosts().filter(|host| !host.second);
        first.map(|host| host.received_by(time)).sum()
    };
    let (start, middle, end) = (received_by(WARM_UP), received_by(begins), received_by(end));
    Ok(Goodput {
        before: middle - start,
        after: end - middle,
        stateless_packets: net.sender.stateless_packets,
    })
}

/// A worker in trouble. What a turn leaves has to wait for the next, as time is counted in turns.
struct Flooded {
    worker: Worker,
    flood: Flood,
    /// Time at which the trouble begins.
    begins: Instant,
    /// Datagrams that strangers received.
    stateless_packets: u64,
}

impl Sender for Flooded {
    fn receive(
        &mut self,
        from: SocketAddr,
        to: SocketAddr,
        datagram: &mut [u8],
        ecn: Ecn,
        now: Instant,
    ) {
        self.worker.receive(from, to, datagram, ecn, now);
    }

    fn turn(
        &mut self,
        now: Instant,
        mut send: impl FnMut(SocketAddr, Ecn, &[u8]),
    ) -> Result<(), SimulationError> {
        let Self { worker, stateless_packets, .. } = self;
        if self.begins < now {
            if self.flood == Flood::FullSocket {
                worker.block(SECOND);
            }
            for number in 0..STRANGERS {
                if let Some(mut datagram) = stranger(self.flood, number) {
                    let from = SocketAddr::new(STRANGERS_HOST, 1_024 + number);
                    worker.receive(from, SERVER, &mut datagram, Ecn::NotCapable, now);
                }
            }
        }
        worker.turn(now, |peer, ecn, datagram| {
            *stateless_packets += u64::from(peer.ip() == STRANGERS_HOST);
            send(peer, ecn, datagram);
        })
    }

    fn next_turn(&mut self, now: Instant) -> Option<Instant> {
        self.worker.next_turn(now)
    }

    fn has_established(&self) -> bool {
        self.worker.has_established()
    }

    fn counts(&self, view: Option<View>) -> Counts {
        self.worker.counts(view)
    }
}

/// Returns a datagram of a stranger: a long header with connection IDs of 8 and 0 bytes, and nothing that can be read.
fn stranger(flood: Flood, number: u16) -> Option<Vec<u8>> {
    let version = match flood {
        Flood::Initials => quiche::PROTOCOL_VERSION,
        Flood::UnknownVersions => 0x1a2a_3a4a,
        Flood::FullSocket => return None,
    };
    let mut datagram = vec![0; 1_200];
    datagram[0] = 0xc0;
    datagram[1..5].copy_from_slice(&version.to_be_bytes());
    datagram[5] = 8;
    datagram[6..8].copy_from_slice(&number.to_be_bytes());
    // No source ID, no token, and the rest of the datagram as the packet's length.
    datagram[16..18].copy_from_slice(&(0x4000_u16 + 1_182).to_be_bytes());
    Some(datagram)
}
