//! Frames that the stack sends.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, Icmpv4Packet, Icmpv4Repr, Icmpv6Packet,
    Icmpv6Repr, IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr, NdiscRepr,
};

use crate::address::MacAddr;
use crate::config::PortConfig;
use crate::layout::{ETHERNET, IPV4, IPV6, TAG, ethertype};

/// Shortest Ethernet frame without its checksum, bytes.
const SHORTEST: usize = 60;

/// Hop limit of replies.
const HOP_LIMIT: u8 = 64;

/// Hop limit of neighbour discovery, which proves that no router forwarded it (RFC 4861 §7.1).
pub(super) const NDP_HOP_LIMIT: u8 = 255;

/// Writes frames into a buffer of its own, one at a time.
#[derive(Debug)]
pub(super) struct FrameWriter {
    mac: MacAddr,
    vlan: Option<u16>,
    /// Room for the longest frame of the port.
    frame: Box<[u8]>,
}

impl FrameWriter {
    pub(super) fn new(config: &PortConfig) -> Self {
        Self {
            mac: config.mac,
            vlan: config.vlan,
            frame: vec![0; ETHERNET + TAG + config.mtu.max(SHORTEST)].into(),
        }
    }

    /// Sends a packet of `len` bytes, which `write` fills in. Packets beyond the MTU are not sent.
    pub(super) fn send(
        &mut self,
        destination: MacAddr,
        ethertype: u16,
        len: usize,
        send: &mut dyn FnMut(&[u8]),
        write: impl FnOnce(&mut [u8]),
    ) {
        let tag = if self.vlan.is_some() { TAG } else { 0 };
        let (header, rest) = self.frame.split_at_mut(ETHERNET + tag);
        let Some(packet) = rest.get_mut(..len) else {
            return;
        };
        packet.fill(0);
        write(packet);
        header[..6].copy_from_slice(&destination.0);
        header[6..12].copy_from_slice(&self.mac.0);
        if let Some(vlan) = self.vlan {
            header[12..14].copy_from_slice(&ethertype::VLAN.to_be_bytes());
            header[14..16].copy_from_slice(&vlan.to_be_bytes());
        }
        header[12 + tag..].copy_from_slice(&ethertype.to_be_bytes());
        let end = ETHERNET + tag + len;
        let padded = end.max(SHORTEST + tag);
        self.frame[end..padded].fill(0);
        send(&self.frame[..padded]);
    }

    /// Sends an ARP packet.
    pub(super) fn send_arp(
        &mut self,
        destination: MacAddr,
        operation: ArpOperation,
        source: Ipv4Addr,
        target_mac: MacAddr,
        target: Ipv4Addr,
        send: &mut dyn FnMut(&[u8]),
    ) {
        let repr = ArpRepr::EthernetIpv4 {
            operation,
            source_hardware_addr: EthernetAddress(self.mac.0),
            source_protocol_addr: source,
            target_hardware_addr: EthernetAddress(target_mac.0),
            target_protocol_addr: target,
        };
        self.send(destination, ethertype::ARP, repr.buffer_len(), send, |packet| {
            repr.emit(&mut ArpPacket::new_unchecked(packet));
        });
    }

    /// Sends an ICMP message for IPv4.
    pub(super) fn send_icmpv4(
        &mut self,
        destination: MacAddr,
        source: Ipv4Addr,
        target: Ipv4Addr,
        message: &Icmpv4Repr<'_>,
        send: &mut dyn FnMut(&[u8]),
    ) {
        let ip = Ipv4Repr {
            src_addr: source,
            dst_addr: target,
            next_header: IpProtocol::Icmp,
            payload_len: message.buffer_len(),
            hop_limit: HOP_LIMIT,
        };
        let len = IPV4 + message.buffer_len();
        let checksums = ChecksumCapabilities::default();
        self.send(destination, ethertype::IPV4, len, send, |packet| {
            ip.emit(&mut Ipv4Packet::new_unchecked(&mut *packet), &checksums);
            let mut icmp = Icmpv4Packet::new_unchecked(&mut packet[IPV4..]);
            message.emit(&mut icmp, &checksums);
        });
    }

    /// Sends an ICMP message for IPv6.
    pub(super) fn send_icmpv6(
        &mut self,
        destination: MacAddr,
        source: Ipv6Addr,
        target: Ipv6Addr,
        message: &Icmpv6Repr<'_>,
        send: &mut dyn FnMut(&[u8]),
    ) {
        let hop_limit =
            if matches!(message, Icmpv6Repr::Ndisc(_)) { NDP_HOP_LIMIT } else { HOP_LIMIT };
        let ip = Ipv6Repr {
            src_addr: source,
            dst_addr: target,
            next_header: IpProtocol::Icmpv6,
            payload_len: message.buffer_len(),
            hop_limit,
        };
        let len = IPV6 + message.buffer_len();
        let checksums = ChecksumCapabilities::default();
        self.send(destination, ethertype::IPV6, len, send, |packet| {
            ip.emit(&mut Ipv6Packet::new_unchecked(&mut *packet));
            let mut icmp = Icmpv6Packet::new_unchecked(&mut packet[IPV6..]);
            message.emit(&source, &target, &mut icmp, &checksums);
        });
    }

    /// Asks for the Ethernet address of an IPv4 neighbour: all stations, or one whether the address is still its own.
    pub(super) fn ask_v4(
        &mut self,
        config: &PortConfig,
        target: Ipv4Addr,
        mac: Option<MacAddr>,
        send: &mut dyn FnMut(&[u8]),
    ) {
        let Some(IpAddr::V4(source)) = config.source_for(IpAddr::V4(target)) else {
            return;
        };
        let to = mac.unwrap_or(MacAddr::BROADCAST);
        let unknown = MacAddr([0; 6]);
        self.send_arp(to, ArpOperation::Request, source, unknown, target, send);
    }

    /// Asks for the Ethernet address of an IPv6 neighbour: whoever has it, or one whether it is still its own.
    pub(super) fn ask_v6(
        &mut self,
        config: &PortConfig,
        target: Ipv6Addr,
        mac: Option<MacAddr>,
        send: &mut dyn FnMut(&[u8]),
    ) {
        let Some(IpAddr::V6(source)) = config.source_for(IpAddr::V6(target)) else {
            return;
        };
        let message = Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit {
            target_addr: target,
            lladdr: Some(EthernetAddress(self.mac.0).into()),
        });
        let (to, destination) = match mac {
            Some(mac) => (mac, target),
            None => {
                let group = solicited_node(target);
                (group_mac(group), group)
            }
        };
        self.send_icmpv6(to, source, destination, &message, send);
    }
}

/// Returns the multicast group of whoever asks for an address (RFC 4291 §2.7.1).
pub(super) fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let low = address.to_bits() & 0xff_ffff;
    Ipv6Addr::from_bits(0xff02_0000_0000_0000_0000_0001_ff00_0000 | low)
}

/// Returns the Ethernet address of an IPv6 multicast group (RFC 2464 §7).
pub(super) fn group_mac(group: Ipv6Addr) -> MacAddr {
    let [.., a, b, c, d] = group.octets();
    MacAddr([0x33, 0x33, a, b, c, d])
}
