//! A stack, and single messages to it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use sluicegate_frames::{MacAddr, PortConfig, Stack};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{Icmpv6Packet, Icmpv6Repr, NdiscNeighborFlags, NdiscRepr};

pub(crate) const PORT_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
pub(crate) const HOST_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
pub(crate) const STRANGER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x66]);

pub(crate) const OWN_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub(crate) const HOST_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
pub(crate) const OWN_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
pub(crate) const HOST_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9);

pub(crate) fn config() -> PortConfig {
    PortConfig {
        mac: PORT_MAC,
        vlan: None,
        mtu: 1500,
        addresses: vec![(OWN_V4.into(), 24), (OWN_V6.into(), 64)],
        gateways: vec![],
        neighbors: vec![],
        scope_id: 1,
    }
}

/// A stack that has announced itself.
pub(crate) struct Port {
    pub(crate) stack: Stack,
    /// Frames that it sent.
    pub(crate) sent: Vec<Vec<u8>>,
}

impl Port {
    pub(crate) fn new(config: PortConfig) -> Self {
        assert_eq!(config.check(), Ok(()));
        let stack = Stack::new(Arc::new(config));
        let mut port = Self { stack, sent: vec![] };
        port.poll(0);
        port.sent.clear();
        port
    }

    pub(crate) fn input(&mut self, frame: &[u8], now: u64) {
        let sent = &mut self.sent;
        self.stack.input(frame, now, &mut |frame| sent.push(frame.to_vec()));
    }

    pub(crate) fn poll(&mut self, now: u64) {
        let sent = &mut self.sent;
        self.stack.poll(now, &mut |frame| sent.push(frame.to_vec()));
    }

    /// Returns the known Ethernet address of a host, as workers see it.
    pub(crate) fn known(&mut self, host: impl Into<IpAddr>) -> Option<MacAddr> {
        self.stack.take_resolved()?.get(host.into())
    }
}

pub(crate) fn ethernet(to: MacAddr, from: MacAddr, ethertype: u16, packet: &[u8]) -> Vec<u8> {
    [&to.0[..], &from.0, &ethertype.to_be_bytes(), packet].concat()
}

/// An ARP packet: its operation, and address pairs of sender and target.
pub(crate) fn arp(
    operation: u8,
    sender: (MacAddr, Ipv4Addr),
    target: (MacAddr, Ipv4Addr),
) -> Vec<u8> {
    let mut packet = vec![0, 1, 8, 0, 6, 4, 0, operation];
    for (mac, ip) in [sender, target] {
        packet.extend(mac.0);
        packet.extend(ip.octets());
    }
    packet
}

/// Returns a frame with an ARP packet of the host to the port.
pub(crate) fn arp_frame(operation: u8, sender: (MacAddr, Ipv4Addr)) -> Vec<u8> {
    let to = if operation == 1 { MacAddr::BROADCAST } else { PORT_MAC };
    ethernet(to, sender.0, 0x0806, &arp(operation, sender, (PORT_MAC, OWN_V4)))
}

/// An IPv6 packet with an ICMP message.
pub(crate) fn icmpv6(
    (source, destination): (Ipv6Addr, Ipv6Addr),
    hop_limit: u8,
    message: &Icmpv6Repr<'_>,
) -> Vec<u8> {
    let mut icmp = vec![0; message.buffer_len()];
    let mut packet = Icmpv6Packet::new_unchecked(&mut icmp[..]);
    message.emit(&source, &destination, &mut packet, &ChecksumCapabilities::default());
    let [high, low] = u16::try_from(icmp.len()).expect("short").to_be_bytes();
    let mut ip = vec![0x60, 0, 0, 0, high, low, 58, hop_limit];
    ip.extend(source.octets());
    ip.extend(destination.octets());
    ip.extend(icmp);
    ip
}

/// Returns a frame in which a station tells the port that it has an address.
pub(crate) fn advertisement(
    mac: MacAddr,
    target: Ipv6Addr,
    flags: NdiscNeighborFlags,
    hop_limit: u8,
) -> Vec<u8> {
    let message = Icmpv6Repr::Ndisc(NdiscRepr::NeighborAdvert {
        flags,
        target_addr: target,
        lladdr: Some(smoltcp::wire::EthernetAddress(mac.0).into()),
    });
    let packet = icmpv6((target, OWN_V6), hop_limit, &message);
    ethernet(PORT_MAC, mac, 0x86dd, &packet)
}

/// Returns a frame in which a station asks for an address of the port.
pub(crate) fn solicitation(
    (from, stated): (MacAddr, Option<MacAddr>),
    source: Ipv6Addr,
    hop_limit: u8,
) -> Vec<u8> {
    let message = Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit {
        target_addr: OWN_V6,
        lladdr: stated.map(|mac| smoltcp::wire::EthernetAddress(mac.0).into()),
    });
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 1);
    let packet = icmpv6((source, group), hop_limit, &message);
    ethernet(MacAddr([0x33, 0x33, 0xff, 0, 0, 1]), from, 0x86dd, &packet)
}
