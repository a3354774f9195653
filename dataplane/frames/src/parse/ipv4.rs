//! IPv4 packets.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use super::icmp;
use super::udp::{self, Datagram};
use super::{Addresses, ChecksumState, Ethernet, FrameParser, Icmp, Packet, RxChecksums, UdpFrame};
use crate::checksum::Sum;
use crate::config::is_host_v4;
use crate::drop_reason::DropReason;
use crate::layout::{IPV4, protocol};

/// Bits of flags and offset that only fragments have: "more fragments", and the offset.
const FRAGMENT: u16 = 0x3fff;

impl FrameParser {
    /// Parses the IPv4 packet of a frame. Options are skipped: a host that is the destination acts on none, and
    /// replies go to the source address whatever a source route says.
    pub(super) fn ipv4<'a>(
        &self,
        frame: &'a [u8],
        ethernet: Ethernet,
        checksums: RxChecksums,
    ) -> Result<Packet<'a>, DropReason> {
        let rest = frame.get(ethernet.at..).ok_or(DropReason::Truncated)?;
        let header: &[u8; IPV4] = rest.first_chunk().ok_or(DropReason::Truncated)?;
        let header_len = usize::from(header[0] & 0xf) * 4;
        if header[0] >> 4 != 4 || header_len < IPV4 {
            return Err(DropReason::Header);
        }
        let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if total_len < header_len {
            return Err(DropReason::Length);
        }
        if total_len > self.mtu {
            return Err(DropReason::Oversize);
        }
        let packet = rest.get(..total_len).ok_or(DropReason::Truncated)?;
        let (with_options, payload) =
            packet.split_at_checked(header_len).ok_or(DropReason::Truncated)?;
        match checksums.ip {
            ChecksumState::Wrong => return Err(DropReason::Checksum),
            ChecksumState::Unknown if !Sum::default().add(with_options).is_right() => {
                return Err(DropReason::Checksum);
            }
            ChecksumState::Unknown | ChecksumState::Intact => {}
        }
        let [.., s0, s1, s2, s3, d0, d1, d2, d3] = *header;
        let source = Ipv4Addr::new(s0, s1, s2, s3);
        let destination = Ipv4Addr::new(d0, d1, d2, d3);
        if ethernet.to_group || !self.v4.contains(&destination) {
            return Err(DropReason::Destination);
        }
        if !is_host_v4(source) || self.broadcasts.contains(&source) || self.v4.contains(&source) {
            return Err(DropReason::SourceAddress);
        }
        if u16::from_be_bytes([header[6], header[7]]) & FRAGMENT != 0 {
            return Err(DropReason::Fragment);
        }
        match header[9] {
            protocol::UDP => {}
            protocol::ICMP => {
                return Ok(Packet::Icmp(Icmp {
                    kind: icmp::kind_v4(payload)?,
                    source_mac: ethernet.source,
                    addresses: Addresses::V4(source, destination),
                    hop_limit: header[8],
                    message: payload,
                }));
            }
            _ => return Err(DropReason::Protocol),
        }
        let Datagram { source_port, destination_port, payload_len } =
            udp::parse(payload, &header[12..], checksums.udp)?;
        let start = ethernet.at + header_len + udp::HEADER;
        Ok(Packet::Udp(UdpFrame {
            source_mac: ethernet.source,
            peer: SocketAddr::V4(SocketAddrV4::new(source, source_port)),
            local: SocketAddr::V4(SocketAddrV4::new(destination, destination_port)),
            ecn: header[1] & 3,
            payload: start..start + payload_len,
        }))
    }
}
