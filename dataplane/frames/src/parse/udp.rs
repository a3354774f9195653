//! UDP datagrams.

use super::ChecksumState;
use crate::checksum::Sum;
use crate::drop_reason::DropReason;
use crate::layout::{UDP, protocol};

/// Length of the header, bytes.
pub(super) const HEADER: usize = UDP;

/// Length of the two addresses of IPv4, bytes.
const V4_ADDRESSES: usize = 8;

/// The header of a datagram.
pub(super) struct Datagram {
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
    /// Length of the payload right behind the header, bytes.
    pub(super) payload_len: usize,
}

/// Parses the datagram in the payload of an IP packet. Bytes behind the length that the header states are skipped: they
/// are UDP options (RFC 9868) or meaningless.
///
/// `addresses` are source and destination of IP, one behind the other.
pub(super) fn parse(
    packet: &[u8],
    addresses: &[u8],
    checksum: ChecksumState,
) -> Result<Datagram, DropReason> {
    let header: &[u8; UDP] = packet.first_chunk().ok_or(DropReason::Truncated)?;
    let [s0, s1, d0, d1, l0, l1, c0, c1] = *header;
    let len = u16::from_be_bytes([l0, l1]);
    let datagram = packet.get(..usize::from(len)).ok_or(DropReason::Length)?;
    let payload_len = datagram.len().checked_sub(UDP).ok_or(DropReason::Length)?;
    let is_right = || {
        let pseudo = Sum::default().add(addresses).add_word(u16::from(protocol::UDP)).add_word(len);
        pseudo.add(datagram).is_right()
    };
    let intact = match (checksum, [c0, c1]) {
        (ChecksumState::Wrong, _) => false,
        // No checksum: allowed over IPv4 (RFC 768), forbidden over IPv6 (RFC 8200 §8.1) whatever the port says.
        (_, [0, 0]) => addresses.len() == V4_ADDRESSES,
        (ChecksumState::Intact, _) => true,
        (ChecksumState::Unknown, _) => is_right(),
    };
    if !intact {
        return Err(DropReason::Checksum);
    }
    let datagram = Datagram {
        source_port: u16::from_be_bytes([s0, s1]),
        destination_port: u16::from_be_bytes([d0, d1]),
        payload_len,
    };
    if datagram.source_port == 0 {
        return Err(DropReason::SourcePort);
    }
    if datagram.destination_port == 0 {
        return Err(DropReason::Destination);
    }
    Ok(datagram)
}
