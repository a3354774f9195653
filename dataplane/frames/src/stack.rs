//! The slow path of a port: ARP, NDP and ICMP.

mod announce;
mod arp;
mod frame_writer;
mod icmp;
mod ndp;
mod too_big;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use self::frame_writer::FrameWriter;
use crate::address::MacAddr;
use crate::bucket::TokenBucket;
use crate::config::PortConfig;
use crate::neighbors::{Answer, Neighbors};
use crate::next_hops::NeighborTable;
use crate::parse::{Addresses, FrameParser, Packet, RxChecksums};
use crate::quote::Quote;

/// Replies to ARP and neighbour solicitation of stations that are no neighbours of ours: per second, and at once.
const STRANGERS: (u64, u64) = (500, 250);
/// The same for each known neighbour and gateway together, so that a flood of strangers cannot keep them waiting.
const NEIGHBORS: (u64, u64) = (500, 250);
/// Replies to echo requests per second, and at once.
const ECHOES: (u64, u64) = (200, 100);
/// Reports of packets too big per second, and at once.
const TOO_BIG: (u64, u64) = (100, 64);
/// Most events kept until they are taken.
const EVENTS: usize = 64;

/// Outcome of [`Stack::resolve`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Frames go to this station.
    Known(MacAddr),
    /// The network is being asked; [`Stack::take_resolved`] has the answer soon.
    Asked,
    /// Nobody answered three questions, the last seconds ago. It is asked again after 5 s.
    Silent,
    /// The destination is on no link of the port and there is no gateway, or no address of the port to ask from.
    NoRoute,
}

/// A fact that the stack learned about the network, taken by [`Stack::take_event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackEvent {
    /// A router reports that a datagram of ours was too big for the path.
    ///
    /// The quoted packet has the headers of a datagram of ours: our source address, UDP, DF and no options, and a length
    /// above the reported MTU. Whoever knows addresses and ports of a connection can forge that, so it is no more than a
    /// reason to probe the path again. Whether somebody listens at the local port, and whether the quoted payload can be
    /// one of theirs, is the caller's to check.
    TooBig {
        /// Our end: source of the quoted packet.
        local: SocketAddr,
        /// Destination of the quoted packet.
        peer: SocketAddr,
        /// UDP payload of the datagram that was too big, bytes.
        size: usize,
        /// Largest UDP payload that the path carries, bytes: 1,200 or more, and less than `size`.
        max_size: usize,
        /// First bytes of the quoted payload.
        quote: Quote,
    },
}

/// Counters of the frames of the slow path, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackCounters {
    /// ARP requests that were answered.
    pub arp_replies: u64,
    /// Neighbour solicitations that were answered.
    pub ndp_replies: u64,
    /// Echo requests that were answered, of both families.
    pub echo_replies: u64,
    /// Questions for Ethernet addresses that were sent, by ARP or NDP.
    pub questions: u64,
    /// Questions of ours that were answered.
    pub answers: u64,
    /// Requests and reports without a reaction because there were too many.
    pub rate_limited: u64,
    /// ARP and NDP messages that nobody asked for, that contradict themselves or their frame, or that come from another
    /// network: spoofed, or of no use.
    pub unsolicited: u64,
    /// Messages that are malformed, or have a wrong checksum.
    pub malformed: u64,
    /// Messages of other types, and whatever else the slow path does nothing about.
    pub ignored: u64,
    /// Claims of other stations to have an address of the port.
    pub address_conflicts: u64,
    /// Reports of packets too big that became events.
    pub too_big: u64,
    /// Reports of packets too big that quote no datagram of ours.
    pub too_big_forged: u64,
}

/// The one owner of ARP, NDP and ICMP of a port: a host that answers for the port's addresses and asks for those of
/// neighbours. It forwards nothing, and takes neither addresses nor routes from the network.
///
/// Messages are parsed and written by smoltcp. The table of neighbours is our own: an entry begins with a question of
/// ours, and only its answer fills it, so requests, gratuitous replies and floods change nothing.
///
/// Time is in milliseconds since any fixed moment. Calls of several threads may be a few milliseconds out of order. Memory
/// is bounded: 256 neighbours and the gateways, 64 events, one frame.
#[derive(Debug)]
pub struct Stack {
    config: Arc<PortConfig>,
    parser: FrameParser,
    neighbors: Neighbors,
    writer: FrameWriter,
    strangers: TokenBucket,
    known: TokenBucket,
    echoes: TokenBucket,
    reports: TokenBucket,
    /// Time of the next announcement.
    announcement: u64,
    /// The port's addresses were announced to the link.
    is_announced: bool,
    events: VecDeque<StackEvent>,
    counters: StackCounters,
}

impl Stack {
    /// Makes the stack of a port. The configuration has passed [`PortConfig::check`]. The first [`Stack::poll`] asks for
    /// the gateways that are not fixed, and announces the port's addresses.
    #[must_use]
    pub fn new(config: Arc<PortConfig>) -> Self {
        let gateways = config.gateways.iter().copied();
        let learned = gateways.filter(|gateway| config.fixed_neighbor(*gateway).is_none());
        Self {
            parser: FrameParser::new(&config),
            neighbors: Neighbors::new(learned),
            writer: FrameWriter::new(&config),
            strangers: TokenBucket::new(STRANGERS.0, STRANGERS.1),
            known: TokenBucket::new(NEIGHBORS.0, NEIGHBORS.1),
            echoes: TokenBucket::new(ECHOES.0, ECHOES.1),
            reports: TokenBucket::new(TOO_BIG.0, TOO_BIG.1),
            announcement: 0,
            is_announced: false,
            events: VecDeque::with_capacity(EVENTS),
            counters: StackCounters::default(),
            config,
        }
    }

    /// Processes a received frame whose verdict was [`Verdict::Slow`](crate::Verdict::Slow); all others are ignored. `send`
    /// receives the reply, if there is one: a whole frame, to be copied.
    ///
    /// Never panics, whatever the bytes.
    pub fn input(&mut self, frame: &[u8], now_ms: u64, send: &mut dyn FnMut(&[u8])) {
        match self.parser.dissect(frame, RxChecksums::UNKNOWN) {
            Ok(Packet::Arp(arp)) => self.on_arp(&arp, now_ms, send),
            Ok(Packet::Icmp(icmp)) => match icmp.addresses {
                Addresses::V4(source, destination) => {
                    self.on_icmpv4(&icmp, source, destination, now_ms, send);
                }
                Addresses::V6(source, destination) => {
                    self.on_icmpv6(&icmp, source, destination, now_ms, send);
                }
            },
            Ok(Packet::Udp(_)) | Err(_) => self.counters.ignored += 1,
        }
    }

    /// Sends the questions and announcements that are due: after [`Stack::resolve`], and at [`Stack::next_timer`]. Costs
    /// little where nothing is due.
    pub fn poll(&mut self, now_ms: u64, send: &mut dyn FnMut(&[u8])) {
        let Self { neighbors, writer, config, counters, .. } = self;
        neighbors.poll(now_ms, |address, mac| {
            counters.questions += 1;
            match address {
                IpAddr::V4(address) => writer.ask_v4(config, address, mac, send),
                IpAddr::V6(address) => writer.ask_v6(config, address, mac, send),
            }
        });
        if self.announcement <= now_ms {
            self.announce(now_ms, send);
        }
    }

    /// Returns the time of the next [`Stack::poll`] that does something, milliseconds.
    #[must_use]
    pub fn next_timer(&self) -> Option<u64> {
        let announcement = Some(self.announcement);
        let timers = [self.neighbors.next_timer(), announcement];
        timers.into_iter().flatten().min()
    }

    /// Makes the next [`Stack::poll`] announce the port's addresses again, for a link that has come up.
    pub fn on_link_up(&mut self, now_ms: u64) {
        self.is_announced = false;
        self.announcement = now_ms;
    }

    /// Returns the station that frames to `destination` go to: the destination if it is on the link, else a gateway. An
    /// unknown one is asked at the next [`Stack::poll`].
    pub fn resolve(&mut self, destination: IpAddr, now_ms: u64) -> Resolution {
        let is_v4 = destination.is_ipv4();
        if !self.config.addresses.iter().any(|(own, _)| own.is_ipv4() == is_v4) {
            return Resolution::NoRoute;
        }
        if self.config.is_on_link(destination) {
            return self.resolve_station(destination, now_ms);
        }
        let config = Arc::clone(&self.config);
        let gateways = config.gateways.iter().filter(|ip| ip.is_ipv4() == is_v4);
        let mut best = Resolution::NoRoute;
        for gateway in gateways {
            match (self.resolve_station(*gateway, now_ms), best) {
                (Resolution::Known(mac), _) => return Resolution::Known(mac),
                (Resolution::Asked, _) => best = Resolution::Asked,
                (other, Resolution::NoRoute) => best = other,
                _ => {}
            }
        }
        best
    }

    fn resolve_station(&mut self, address: IpAddr, now: u64) -> Resolution {
        if let Some(mac) = self.config.fixed_neighbor(address) {
            return Resolution::Known(mac);
        }
        match self.neighbors.resolve(address, now) {
            Answer::Known(mac) => Resolution::Known(mac),
            Answer::Asked => Resolution::Asked,
            Answer::Silent => Resolution::Silent,
        }
    }

    /// Returns all hosts that are resolved, if they changed since the last call: for
    /// [`NextHops::set_resolved`](crate::NextHops::set_resolved) of each worker. Fixed neighbours are not among them.
    pub fn take_resolved(&mut self) -> Option<NeighborTable> {
        let known = self.neighbors.take_changed();
        known.map(|known| NeighborTable::new(known.into_vec()))
    }

    /// Takes the oldest event.
    pub fn take_event(&mut self) -> Option<StackEvent> {
        self.events.pop_front()
    }

    /// Returns what became of the frames of the slow path.
    #[must_use]
    pub fn counters(&self) -> StackCounters {
        self.counters
    }

    /// Takes a token for a reply to a neighbour's question.
    fn may_reply(&mut self, address: IpAddr, mac: MacAddr, now: u64) -> bool {
        let is_known = self.config.fixed_neighbor(address) == Some(mac)
            || self.neighbors.is_known(address, mac);
        let bucket = if is_known { &mut self.known } else { &mut self.strangers };
        let may = bucket.take(now);
        self.counters.rate_limited += u64::from(!may);
        may
    }

    /// Takes the answer of a neighbour.
    fn on_answer(&mut self, address: IpAddr, mac: MacAddr, now: u64) {
        if self.neighbors.on_answer(address, mac, now) {
            self.counters.answers += 1;
        } else {
            self.counters.unsolicited += 1;
        }
    }

    fn push_event(&mut self, event: StackEvent, now: u64) {
        if self.events.len() < EVENTS && self.reports.take(now) {
            self.counters.too_big += 1;
            self.events.push_back(event);
        } else {
            self.counters.rate_limited += 1;
        }
    }
}
