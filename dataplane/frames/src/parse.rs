//! Parser of received frames.

mod extension;
mod icmp;
mod ipv4;
mod ipv6;
mod udp;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;

use crate::address::MacAddr;
use crate::config::PortConfig;
use crate::drop_reason::DropReason;
use crate::layout::{ETHERNET, TAG, ethertype};

/// The port's verdict on a checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChecksumState {
    /// Nothing: it is verified here.
    #[default]
    Unknown,
    /// The data is intact: it is not verified again.
    Intact,
    /// It is wrong: the frame is dropped.
    Wrong,
}

/// The port's verdicts on the checksums of a received frame.
///
/// For DPDK: `RTE_MBUF_F_RX_IP_CKSUM_GOOD` and `…_L4_CKSUM_GOOD` are `Intact`, `…_BAD` are `Wrong`. `…_NONE` says that the
/// field is not right and the data is intact, as between virtual machines of one host: `Intact`. All else is `Unknown`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxChecksums {
    /// Checksum of the IPv4 header.
    pub ip: ChecksumState,
    /// Checksum of UDP.
    pub udp: ChecksumState,
}

impl RxChecksums {
    /// The port verifies nothing.
    pub const UNKNOWN: Self = Self { ip: ChecksumState::Unknown, udp: ChecksumState::Unknown };
}

/// A UDP datagram in a received frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpFrame {
    /// Ethernet address that sent the frame: the host itself, or its router.
    pub source_mac: MacAddr,
    /// Source address and port, which is not 0. A link-local address has the scope ID of [`PortConfig::scope_id`], so
    /// the same host is always the same `SocketAddr`; flow information is always 0.
    pub peer: SocketAddr,
    /// Destination address and port: one of the port's addresses, any UDP port but 0. Scope ID as for `peer`.
    pub local: SocketAddr,
    /// The two ECN bits, in the low bits.
    pub ecn: u8,
    /// The payload's bytes of the frame; may be empty.
    pub payload: Range<usize>,
}

/// Result of parsing a received frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A UDP datagram for one of the port's addresses. Whether somebody listens at its port is the caller's to know.
    Udp(UdpFrame),
    /// ARP or ICMP for one of the port's addresses, neighbour discovery included, of a kind that the stack acts upon. Nothing
    /// else is checked.
    Slow(SlowKind),
    /// Nothing for this host.
    Dropped(DropReason),
}

/// Kind of a frame of the slow path. Whoever bounds such frames does so for each kind, because a flood of one must not delay
/// the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SlowKind {
    /// ARP or neighbour discovery.
    Neighbor,
    /// An echo request.
    Echo,
    /// A report that a packet was too big.
    TooBig,
}

impl SlowKind {
    /// All kinds, in the order of their discriminants.
    pub const ALL: [Self; 3] = [Self::Neighbor, Self::Echo, Self::TooBig];

    /// Returns the index of the kind in [`SlowKind::ALL`], for an array of budgets.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Parses received frames of a port. Cheap to clone: each worker has its own.
#[derive(Clone, Debug)]
pub struct FrameParser {
    mac: MacAddr,
    vlan: Option<u16>,
    mtu: usize,
    scope_id: u32,
    v4: Box<[Ipv4Addr]>,
    broadcasts: Box<[Ipv4Addr]>,
    v6: Box<[Ipv6Addr]>,
}

/// A packet for the port, with what its layers say.
#[derive(Debug)]
pub(crate) enum Packet<'a> {
    /// A UDP datagram.
    Udp(UdpFrame),
    /// ARP for Ethernet and IPv4 that asks for or replies to an address of the port.
    Arp(Arp<'a>),
    /// ICMP for IPv4 or IPv6, to an address of the port or to its solicited-node group.
    Icmp(Icmp<'a>),
}

/// An ARP packet.
#[derive(Debug)]
pub(crate) struct Arp<'a> {
    /// Ethernet address that sent the frame.
    pub(crate) source_mac: MacAddr,
    /// The frame is for a group of stations or for all.
    pub(crate) to_group: bool,
    /// The packet's bytes.
    pub(crate) packet: &'a [u8],
}

/// An ICMP message. Its checksum is not verified.
#[derive(Debug)]
pub(crate) struct Icmp<'a> {
    /// The kind that the message's first bytes state.
    pub(crate) kind: SlowKind,
    /// Ethernet address that sent the frame.
    pub(crate) source_mac: MacAddr,
    /// Addresses of source and destination.
    pub(crate) addresses: Addresses,
    /// IPv4 TTL or IPv6 hop limit on arrival.
    pub(crate) hop_limit: u8,
    /// The message's bytes.
    pub(crate) message: &'a [u8],
}

/// Source and destination of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Addresses {
    V4(Ipv4Addr, Ipv4Addr),
    V6(Ipv6Addr, Ipv6Addr),
}

/// Facts of the Ethernet header.
#[derive(Clone, Copy)]
struct Ethernet {
    source: MacAddr,
    /// The frame is for a group of stations or for all. A packet for one host has no business there (RFC 1122 §3.3.6).
    to_group: bool,
    /// Offset of the packet in the frame.
    at: usize,
}

impl FrameParser {
    /// Makes the parser of a port. The configuration has passed [`PortConfig::check`].
    #[must_use]
    pub fn new(config: &PortConfig) -> Self {
        let addresses = || config.addresses.iter().map(|(address, _)| *address);
        Self {
            mac: config.mac,
            vlan: config.vlan,
            mtu: config.mtu,
            scope_id: config.scope_id,
            v4: addresses()
                .filter_map(|address| match address {
                    IpAddr::V4(address) => Some(address),
                    IpAddr::V6(_) => None,
                })
                .collect(),
            broadcasts: config.broadcasts().collect(),
            v6: addresses()
                .filter_map(|address| match address {
                    IpAddr::V6(address) => Some(address),
                    IpAddr::V4(_) => None,
                })
                .collect(),
        }
    }

    /// Parses a received frame: from the destination's Ethernet address on, without preamble, with or without padding and
    /// checksum behind the packet.
    ///
    /// Never panics, whatever the bytes.
    #[must_use]
    pub fn parse(&self, frame: &[u8], checksums: RxChecksums) -> Verdict {
        match self.dissect(frame, checksums) {
            Ok(Packet::Udp(udp)) => Verdict::Udp(udp),
            Ok(Packet::Arp(_)) => Verdict::Slow(SlowKind::Neighbor),
            Ok(Packet::Icmp(icmp)) => Verdict::Slow(icmp.kind),
            Err(reason) => Verdict::Dropped(reason),
        }
    }

    /// Returns the packet of a received frame.
    pub(crate) fn dissect<'a>(
        &self,
        frame: &'a [u8],
        checksums: RxChecksums,
    ) -> Result<Packet<'a>, DropReason> {
        let ethernet: &[u8; ETHERNET] = frame.first_chunk().ok_or(DropReason::Truncated)?;
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *ethernet;
        let destination = MacAddr([d0, d1, d2, d3, d4, d5]);
        let source = MacAddr([s0, s1, s2, s3, s4, s5]);
        if destination != self.mac && !destination.is_multicast() {
            return Err(DropReason::Destination);
        }
        if !source.is_unicast() || source == self.mac {
            return Err(DropReason::SourceAddress);
        }
        let (ethertype, at) = self.untag(frame, u16::from_be_bytes([t0, t1]))?;
        let ethernet = Ethernet { source, to_group: destination.is_multicast(), at };
        match ethertype {
            ethertype::IPV4 => self.ipv4(frame, ethernet, checksums),
            ethertype::IPV6 => self.ipv6(frame, ethernet, checksums),
            ethertype::ARP => self.arp(frame, ethernet),
            _ => Err(DropReason::Ethertype),
        }
    }

    /// Returns the EtherType of the packet and where it begins.
    fn untag(&self, frame: &[u8], ethertype: u16) -> Result<(u16, usize), DropReason> {
        match ethertype {
            ethertype::VLAN => {}
            ethertype::SERVICE_VLAN | ethertype::OLD_STACK => return Err(DropReason::Vlan),
            _ if self.vlan.is_some() => return Err(DropReason::Vlan),
            _ => return Ok((ethertype, ETHERNET)),
        }
        let tag = frame.get(ETHERNET..).and_then(|rest| rest.first_chunk());
        let [c0, c1, t0, t1] = *tag.ok_or(DropReason::Truncated)?;
        let vlan = u16::from_be_bytes([c0, c1]) & 0xfff;
        // VLAN 0 is a tag that has only a priority (IEEE 802.1Q §6.9).
        if vlan != self.vlan.unwrap_or(0) {
            return Err(DropReason::Vlan);
        }
        match u16::from_be_bytes([t0, t1]) {
            ethertype::VLAN | ethertype::SERVICE_VLAN | ethertype::OLD_STACK => {
                Err(DropReason::Vlan)
            }
            inner => Ok((inner, ETHERNET + TAG)),
        }
    }

    /// Lets requests and replies pass that concern an address of the port, so that a link's other broadcasts end here.
    fn arp<'a>(&self, frame: &'a [u8], ethernet: Ethernet) -> Result<Packet<'a>, DropReason> {
        let packet = frame.get(ethernet.at..);
        let packet = packet.and_then(|rest| rest.first_chunk::<28>());
        let packet = packet.ok_or(DropReason::Truncated)?;
        // Ethernet, IPv4, and the lengths of their addresses.
        if packet[..6] != [0, 1, 8, 0, 6, 4] {
            return Err(DropReason::Header);
        }
        let target = Ipv4Addr::new(packet[24], packet[25], packet[26], packet[27]);
        if !self.v4.contains(&target) {
            return Err(DropReason::Destination);
        }
        Ok(Packet::Arp(Arp { source_mac: ethernet.source, to_group: ethernet.to_group, packet }))
    }
}
