//! Headers of frames to send.

use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::ops::Range;

use crate::address::MacAddr;
use crate::checksum::Sum;
use crate::layout::{ETHERNET, IPV4, IPV6, TAG, UDP, ethertype, protocol};

/// Most bytes that [`write_headers`] writes: Ethernet with a VLAN tag, IPv6 and UDP.
pub const MAX_HEADERS: usize = ETHERNET + TAG + IPV6 + UDP;

/// Most bytes that the length fields of UDP and IPv4 count.
const MAX_LENGTH: usize = 65535;

/// Fields of the headers of a datagram to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxHeader {
    /// Ethernet address of the port.
    pub source_mac: MacAddr,
    /// Ethernet address of the next hop.
    pub destination_mac: MacAddr,
    /// VLAN of the frame; `None` for a frame without a tag.
    pub vlan: Option<u16>,
    /// Address and port of the listener.
    pub source: SocketAddr,
    /// Address and port of the peer. Scope ID and flow information are ignored.
    pub destination: SocketAddr,
    /// The two ECN bits; the upper six bits are ignored.
    pub ecn: u8,
    /// IPv4 TTL or IPv6 hop limit: [`TxHeader::HOP_LIMIT`] for all that a host has no reason to limit.
    pub hop_limit: u8,
}

impl TxHeader {
    /// Usual hop limit: the recommended default of IPv4's TTL (RFC 1700), and what Linux sends.
    pub const HOP_LIMIT: u8 = 64;
}

/// Computation of the checksum of an IPv4 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpChecksum {
    /// It is computed here.
    Software,
    /// The port computes it: the field is 0, as `RTE_MBUF_F_TX_IP_CKSUM` of DPDK expects it.
    Port,
}

/// Computation of the checksum of a UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpChecksum {
    /// It is computed here, over headers and payload.
    Software,
    /// The port computes it: the field has the sum of the pseudo-header, as `RTE_MBUF_F_TX_UDP_CKSUM` expects it.
    Port,
    /// The port cuts the payload into datagrams and computes their checksums: the field has the sum of the pseudo-header
    /// without the length, as `RTE_MBUF_F_TX_UDP_SEG` expects it.
    PortSegments,
}

/// Computation of both checksums of a frame to send: by this crate or by the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxChecksums {
    /// Checksum of the IPv4 header; IPv6 has none.
    pub ip: IpChecksum,
    /// Checksum of UDP.
    pub udp: UdpChecksum,
}

impl TxChecksums {
    /// All checksums are computed here.
    pub const SOFTWARE: Self = Self { ip: IpChecksum::Software, udp: UdpChecksum::Software };
}

/// Reason for which no headers were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The payload is not inside the buffer, or there are too few bytes in front of it.
    #[error("the buffer has no room for the headers")]
    Room,
    /// Source and destination are of different families.
    #[error("source and destination are of different families")]
    Families,
    /// The datagram is longer than UDP or IPv4 can say.
    #[error("the payload is too long for a datagram")]
    TooLong,
}

/// Writes the headers of a UDP datagram right in front of its payload and returns the range of the frame in `buffer`.
///
/// `payload` is the range of `buffer` that holds the payload. There must be up to [`MAX_HEADERS`] bytes in front of it:
/// with those it never fails for lack of room. Everything outside the returned range stays as it is.
///
/// Packets are never fragmented: IPv4 has the bit DF, and so the identification 0 (RFC 6864 §4.1). The IPv6 flow label is
/// a hash of addresses and ports. That is constant for a flow and spreads flows over parallel links of routers that look
/// no further than the IPv6 header (RFC 6437 §3, RFC 6438), and it tells an observer nothing that the same packet does
/// not show.
///
/// # Errors
/// Nothing is written if the room does not suffice, the families differ or the payload is too long.
pub fn write_headers(
    buffer: &mut [u8],
    payload: Range<usize>,
    header: &TxHeader,
    checksums: TxChecksums,
) -> Result<Range<usize>, WriteError> {
    let tag = if header.vlan.is_some() { TAG } else { 0 };
    let ip = if header.source.is_ipv4() { IPV4 } else { IPV6 };
    let before = ETHERNET + tag + ip + UDP;
    let start = payload.start.checked_sub(before).ok_or(WriteError::Room)?;
    let frame = start..payload.end;
    let whole = buffer.get_mut(frame.clone()).ok_or(WriteError::Room)?;
    let (headers, payload) = whole.split_at_mut_checked(before).ok_or(WriteError::Room)?;
    let udp_len = UDP + payload.len();
    let counted = if ip == IPV4 { ip + udp_len } else { udp_len };
    if counted > MAX_LENGTH {
        return Err(WriteError::TooLong);
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked above")]
    let (counted, udp_len) = (counted as u16, udp_len as u16);
    let (ethernet, rest) = headers.split_at_mut(ETHERNET + tag);
    let (ip, udp) = rest.split_at_mut(ip);
    let (addresses, ethertype) = match (header.source, header.destination) {
        (SocketAddr::V4(source), SocketAddr::V4(destination)) => {
            write_ipv4(ip, counted, header, source, destination, checksums.ip);
            (&ip[12..], ethertype::IPV4)
        }
        (SocketAddr::V6(source), SocketAddr::V6(destination)) => {
            write_ipv6(ip, counted, header, source, destination);
            (&ip[8..], ethertype::IPV6)
        }
        _ => return Err(WriteError::Families),
    };
    write_udp(udp, udp_len, header, addresses, payload, checksums.udp);
    write_ethernet(ethernet, header, ethertype);
    Ok(frame)
}

fn write_ethernet(ethernet: &mut [u8], header: &TxHeader, ethertype: u16) {
    ethernet[..6].copy_from_slice(&header.destination_mac.0);
    ethernet[6..12].copy_from_slice(&header.source_mac.0);
    let mut at = 12;
    if let Some(vlan) = header.vlan {
        ethernet[12..14].copy_from_slice(&ethertype::VLAN.to_be_bytes());
        ethernet[14..16].copy_from_slice(&(vlan & 0xfff).to_be_bytes());
        at += TAG;
    }
    ethernet[at..].copy_from_slice(&ethertype.to_be_bytes());
}

fn write_ipv4(
    ip: &mut [u8],
    total_len: u16,
    header: &TxHeader,
    source: SocketAddrV4,
    destination: SocketAddrV4,
    checksum: IpChecksum,
) {
    ip[0] = 0x45;
    ip[1] = header.ecn & 3;
    ip[2..4].copy_from_slice(&total_len.to_be_bytes());
    // Identification 0; DF.
    ip[4..8].copy_from_slice(&[0, 0, 0x40, 0]);
    ip[8] = header.hop_limit;
    ip[9] = protocol::UDP;
    ip[10..12].fill(0);
    ip[12..16].copy_from_slice(&source.ip().octets());
    ip[16..20].copy_from_slice(&destination.ip().octets());
    if checksum == IpChecksum::Software {
        let sum = Sum::default().add(ip).checksum();
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

fn write_ipv6(
    ip: &mut [u8],
    payload_len: u16,
    header: &TxHeader,
    source: SocketAddrV6,
    destination: SocketAddrV6,
) {
    let label = flow_label(source, destination);
    let first = 6 << 28 | u32::from(header.ecn & 3) << 20 | label;
    ip[..4].copy_from_slice(&first.to_be_bytes());
    ip[4..6].copy_from_slice(&payload_len.to_be_bytes());
    ip[6] = protocol::UDP;
    ip[7] = header.hop_limit;
    ip[8..24].copy_from_slice(&source.ip().octets());
    ip[24..40].copy_from_slice(&destination.ip().octets());
}

/// Returns 20 bits that depend on each bit of addresses and ports; never 0, which means "no label".
#[expect(clippy::cast_possible_truncation, reason = "the upper 20 bits of 64")]
fn flow_label(source: SocketAddrV6, destination: SocketAddrV6) -> u32 {
    // The fractional part of the golden ratio, odd: multiplication moves each bit upwards.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let ports = u64::from(source.port()) << 16 | u64::from(destination.port());
    let mut hash = ports;
    for address in [source.ip().to_bits(), destination.ip().to_bits()] {
        for half in [address as u64, (address >> 64) as u64] {
            hash = (hash ^ half).wrapping_mul(SPREAD);
            hash ^= hash >> 32;
        }
    }
    let label = (hash.wrapping_mul(SPREAD) >> 44) as u32;
    label.max(1)
}

/// Writes the UDP header. `addresses` are source and destination of IP, one behind the other.
fn write_udp(
    udp: &mut [u8],
    len: u16,
    header: &TxHeader,
    addresses: &[u8],
    payload: &[u8],
    checksum: UdpChecksum,
) {
    udp[..2].copy_from_slice(&header.source.port().to_be_bytes());
    udp[2..4].copy_from_slice(&header.destination.port().to_be_bytes());
    udp[4..6].copy_from_slice(&len.to_be_bytes());
    udp[6..8].fill(0);
    let pseudo = Sum::default().add(addresses).add_word(u16::from(protocol::UDP));
    let sum = match checksum {
        UdpChecksum::PortSegments => pseudo.fold(),
        UdpChecksum::Port => pseudo.add_word(len).fold(),
        // 0 means "no checksum", so a computed 0 is sent as its equal, all ones (RFC 768).
        UdpChecksum::Software => match pseudo.add_word(len).add(udp).add(payload).checksum() {
            0 => 0xffff,
            sum => sum,
        },
    };
    udp[6..8].copy_from_slice(&sum.to_be_bytes());
}
