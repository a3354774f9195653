//! IPv6 packets.

use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};

use super::extension;
use super::icmp;
use super::udp::{self, Datagram};
use super::{Addresses, Ethernet, FrameParser, Icmp, Packet, RxChecksums, UdpFrame};
use crate::config::is_host_v6;
use crate::drop_reason::DropReason;
use crate::layout::{IPV6, protocol};

impl FrameParser {
    /// Parses the IPv6 packet of a frame.
    pub(super) fn ipv6<'a>(
        &self,
        frame: &'a [u8],
        ethernet: Ethernet,
        checksums: RxChecksums,
    ) -> Result<Packet<'a>, DropReason> {
        let rest = frame.get(ethernet.at..).ok_or(DropReason::Truncated)?;
        let (header, rest) = rest.split_first_chunk::<IPV6>().ok_or(DropReason::Truncated)?;
        let [first, second, _, _, l0, l1, next, hop_limit, addresses @ ..] = header;
        if first >> 4 != 6 {
            return Err(DropReason::Header);
        }
        let payload_len = usize::from(u16::from_be_bytes([*l0, *l1]));
        // A length of 0 before options is that of a jumbogram (RFC 2675 §3).
        if IPV6 + payload_len > self.mtu || (payload_len == 0 && *next == protocol::HOP_BY_HOP) {
            return Err(DropReason::Oversize);
        }
        let payload = rest.get(..payload_len).ok_or(DropReason::Truncated)?;
        let (source, destination) = address_pair(addresses);
        let is_own = self.v6.contains(&destination);
        let concerns_port =
            if is_own { !ethernet.to_group } else { self.is_solicited_node(destination) };
        if !concerns_port {
            return Err(DropReason::Destination);
        }
        // Unspecified is who asks whether an address is in use (RFC 4862 §5.4).
        let asks = source.is_unspecified() && !is_own;
        if !(asks || is_host_v6(source) && !self.v6.contains(&source)) {
            return Err(DropReason::SourceAddress);
        }
        let (protocol, skipped) = extension::skip(payload, *next)?;
        let packet = payload.get(skipped..).ok_or(DropReason::Truncated)?;
        if protocol == protocol::ICMPV6 {
            return Ok(Packet::Icmp(Icmp {
                kind: icmp::kind_v6(packet, is_own)?,
                source_mac: ethernet.source,
                addresses: Addresses::V6(source, destination),
                hop_limit: *hop_limit,
                message: packet,
            }));
        }
        if !is_own {
            return Err(DropReason::Destination);
        }
        let Datagram { source_port, destination_port, payload_len } =
            udp::parse(packet, addresses, checksums.udp)?;
        let start = ethernet.at + IPV6 + skipped + udp::HEADER;
        Ok(Packet::Udp(UdpFrame {
            source_mac: ethernet.source,
            peer: self.socket_v6(source, source_port),
            local: self.socket_v6(destination, destination_port),
            ecn: second >> 4 & 3,
            payload: start..start + payload_len,
        }))
    }

    /// Returns whether the address is the multicast group of whoever asks for an address of the port (RFC 4291 §2.7.1).
    fn is_solicited_node(&self, group: Ipv6Addr) -> bool {
        const GROUP: u128 = 0xff02_0000_0000_0000_0000_0001_ff00_0000;
        const LOW: u128 = 0xff_ffff;
        let group = group.to_bits();
        let mut own = self.v6.iter();
        group & !LOW == GROUP && own.any(|own| own.to_bits() & LOW == group & LOW)
    }

    fn socket_v6(&self, address: Ipv6Addr, port: u16) -> SocketAddr {
        let link_local = address.is_unicast_link_local();
        let scope_id = if link_local { self.scope_id } else { 0 };
        SocketAddr::V6(SocketAddrV6::new(address, port, 0, scope_id))
    }
}

fn address_pair(bytes: &[u8; 32]) -> (Ipv6Addr, Ipv6Addr) {
    let (source, destination) = bytes.split_at(16);
    let address = |half: &[u8]| {
        let mut octets = [0; 16];
        octets.copy_from_slice(half);
        Ipv6Addr::from(octets)
    };
    (address(source), address(destination))
}
