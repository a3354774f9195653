//! Goodput of established connections while strangers flood the worker, or a socket is full. What it costs is counted in
//! turns: each takes a millisecond, and what is sent in one arrives in it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use sluicegate_config::Config;
use sluicegate_dataplane::Ecn;

use super::SimulationError;
use super::client::{Client, Plan, Receiver};
use super::clock::VirtualClock;
use super::random::Seeded;
use super::sender::Sender as _;
use super::worker::Worker;

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

/// Turns in which the connections find their rate.
const WARM_UP: u32 = 60;

/// Turns that are measured before and after the trouble began.
const MEASURED: u32 = 40;

/// Datagrams of strangers per turn: half of what a worker receives in one.
const STRANGERS: u16 = 512;

/// Clients of each listener: enough to use up a worker's budget, although each connection is given data once a turn.
const CLIENTS: u16 = 12;

/// Body that lasts for the whole run, bytes.
const BODY: u64 = 1 << 30;

const SERVER: SocketAddr = address([192, 0, 2, 2], 443);
const SECOND: SocketAddr = address([192, 0, 2, 2], 444);

const fn address([a, b, c, d]: [u8; 4], port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), port)
}

/// Lets clients download from a worker, and returns what they receive before and after the trouble began.
///
/// # Errors
///
/// [`SimulationError`] when an end could not be set up, or broke the protocol.
pub fn goodput_under(flood: Flood) -> Result<Goodput, SimulationError> {
    let _random = Seeded::new(1);
    let clock = VirtualClock::start();
    let change = |config: &mut Config| config.quic.retry_above = Some(0);
    let worker = Worker::new(clock.now(), change, [None, None])?;
    let mut crowd = Crowd {
        clock,
        worker,
        clients: BTreeMap::new(),
        scratch: vec![0; 64 * 1024],
        stateless_packets: 0,
    };
    crowd.connect(SERVER, 1)?;
    if flood == Flood::FullSocket {
        crowd.connect(SECOND, 2)?;
    }
    let start = crowd.turns(WARM_UP, None)?;
    let middle = crowd.turns(MEASURED, None)?;
    let end = crowd.turns(MEASURED, Some(flood))?;
    Ok(Goodput {
        before: middle - start,
        after: end - middle,
        stateless_packets: crowd.stateless_packets,
    })
}

struct Crowd {
    clock: VirtualClock,
    worker: Worker,
    clients: BTreeMap<SocketAddr, (SocketAddr, Client)>,
    scratch: Vec<u8>,
    stateless_packets: u64,
}

impl Crowd {
    fn connect(&mut self, server: SocketAddr, host: u8) -> Result<(), SimulationError> {
        for port in 0..CLIENTS {
            let local = address([192, 0, 2, 100 + host], 40_000 + port);
            let plan = Plan::Timed([(Duration::ZERO, BODY)].into());
            let client = Client::connect((local, server), plan, Receiver::Browser(None))?;
            self.clients.insert(local, (server, client));
        }
        Ok(())
    }

    /// Makes turns, and returns the bytes that the first listener's clients have received in all.
    fn turns(&mut self, count: u32, flood: Option<Flood>) -> Result<u64, SimulationError> {
        if flood == Some(Flood::FullSocket) {
            self.worker.block(SECOND);
        }
        for _ in 0..count {
            let next = self.clock.elapsed() + TURN;
            self.clock.advance_to(next);
            self.turn(flood)?;
        }
        let first = self.clients.values().filter(|(server, _)| *server == SERVER);
        Ok(first.map(|(_, client)| client.received()).sum())
    }

    fn turn(&mut self, flood: Option<Flood>) -> Result<(), SimulationError> {
        let (now, elapsed) = (self.clock.now(), self.clock.elapsed());
        for number in 0..STRANGERS {
            if let Some(mut datagram) = flood.and_then(|flood| stranger(flood, number)) {
                let from = address([198, 51, 100, 1], 1_024 + number);
                self.worker.receive((from, SERVER), (&mut datagram, Ecn::NotCapable), now);
            }
        }
        for (local, (server, client)) in &mut self.clients {
            client.on_timer(now);
            client.on_turn(elapsed, now, &mut self.scratch)?;
            while let Some(size) = client.http.next_datagram(&mut self.scratch[..1_200]) {
                let datagram = &mut self.scratch[..size];
                self.worker.receive((*local, *server), (datagram, Ecn::NotCapable), now);
            }
        }
        let Self { worker, clients, stateless_packets, scratch, .. } = self;
        worker.turn(now, |peer, _, datagram| {
            let Some((_, client)) = clients.get_mut(&peer) else {
                *stateless_packets += 1;
                return;
            };
            let copy = &mut scratch[..datagram.len()];
            copy.copy_from_slice(datagram);
            client.receive((copy, quiche::Ecn::NotCapable, true), now);
        })
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
