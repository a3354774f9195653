//! What the emulator reads and changes in an IP packet: its flow and its ECN field.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use sluicegate_sim::Ecn;

/// Protocol numbers of IANA.
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Bits of the ECN field (RFC 3168 §5).
const ECN: u8 = 0b11;

/// A flow of one direction: protocol, addresses and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flow {
    /// Protocol number of IANA.
    pub protocol: u8,
    /// The sender.
    pub source: SocketAddr,
    /// The receiver.
    pub destination: SocketAddr,
}

impl Flow {
    /// Returns the flow of a TCP segment or a UDP datagram in a whole IP packet; `None` for anything else.
    pub fn of(packet: &[u8]) -> Option<Self> {
        let (protocol, payload, addresses) = match packet.first()? >> 4 {
            4 => (
                *packet.get(9)?,
                usize::from(packet[0] & 0xf) * 4,
                addresses::<4>(packet.get(12..20)?)?,
            ),
            6 => (*packet.get(6)?, 40, addresses::<16>(packet.get(8..40)?)?),
            _ => return None,
        };
        let ports = packet.get(payload..payload + 4)?;
        let port = |at| u16::from_be_bytes([ports[at], ports[at + 1]]);
        let [source, destination] = addresses;
        matches!(protocol, TCP | UDP).then(|| Self {
            protocol,
            source: SocketAddr::new(source, port(0)),
            destination: SocketAddr::new(destination, port(2)),
        })
    }

    /// Returns whether this is a flow of UDP.
    pub const fn is_udp(&self) -> bool {
        self.protocol == UDP
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = if self.is_udp() { "udp" } else { "tcp" };
        write!(f, "{protocol} {} → {}", self.source, self.destination)
    }
}

/// Returns the addresses of the sender and of the receiver, of `N` bytes each.
fn addresses<const N: usize>(bytes: &[u8]) -> Option<[IpAddr; 2]>
where
    IpAddr: From<[u8; N]>,
{
    let (source, destination) = bytes.split_first_chunk::<N>()?;
    let destination = destination.first_chunk::<N>()?;
    Some([(*source).into(), (*destination).into()])
}

/// Returns the ECN field of an IP packet. A packet that is marked already counts as one of L4S, as in RFC 9331 §5.1; what is no
/// IP packet is not capable of ECN.
pub(super) fn ecn(packet: &[u8]) -> Ecn {
    let field = match packet {
        [first, second, ..] if first >> 4 == 4 => second & ECN,
        [first, second, ..] if first >> 4 == 6 => second >> 4 & ECN,
        _ => 0,
    };
    match field {
        0b00 => Ecn::NotEct,
        0b10 => Ecn::Ect0,
        _ => Ecn::Ect1,
    }
}

/// Marks an IP packet Congestion Experienced. Returns whether it was possible: a packet that is not ECN-capable stays as it is.
pub(super) fn mark_ce(packet: &mut [u8]) -> bool {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) if packet.len() >= 20 && packet[1] & ECN != 0 => {
            let before = u16::from_be_bytes([packet[0], packet[1]]);
            packet[1] |= ECN;
            let after = u16::from_be_bytes([packet[0], packet[1]]);
            let sum = u16::from_be_bytes([packet[10], packet[11]]);
            packet[10..12].copy_from_slice(&updated(sum, before, after).to_be_bytes());
            true
        }
        Some(6) if packet.len() >= 40 && packet[1] >> 4 & ECN != 0 => {
            packet[1] |= ECN << 4;
            true
        }
        _ => false,
    }
}

/// Returns the checksum after a change of one word (RFC 1624 §3).
fn updated(sum: u16, before: u16, after: u16) -> u16 {
    let total = u32::from(!sum) + u32::from(!before) + u32::from(after);
    let folded = (total & 0xffff) + (total >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    !u16::try_from(folded).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checksum(header: &[u8]) -> u16 {
        let words = header.chunks(2);
        let words = words.map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
        let sum: u32 = words.sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        !u16::try_from((folded & 0xffff) + (folded >> 16)).unwrap()
    }

    /// Returns an IPv4 packet with that ECN field: UDP from port 258 to port 772.
    fn version4(ecn: u8) -> Vec<u8> {
        let mut packet = vec![0x45, ecn, 0, 28, 1, 2, 0x40, 0, 64, UDP, 0, 0];
        packet.extend([198, 18, 0, 1, 198, 18, 0, 2, 1, 2, 3, 4, 0, 8, 0, 0]);
        let sum = checksum(&packet[..20]).to_be_bytes();
        packet[10..12].copy_from_slice(&sum);
        packet
    }

    fn version6(class: u8) -> Vec<u8> {
        let mut packet = vec![0; 48];
        packet[..2].copy_from_slice(&[0x60 | class >> 4, class << 4]);
        packet[6] = TCP;
        packet[40..44].copy_from_slice(&[0, 80, 1, 0]);
        packet
    }

    #[test]
    fn mark_keeps_the_checksum_right_and_spares_packets_that_cannot_carry_it() {
        for ecn in [1, 2, 3] {
            let mut packet = version4(ecn);
            assert!(mark_ce(&mut packet));
            assert_eq!((packet[1], checksum(&packet[..20])), (3, 0));
        }
        let mut packet = version4(0);
        assert!(!mark_ce(&mut packet));
        assert_eq!(packet, version4(0));
        let mut packet = version6(2);
        assert!(mark_ce(&mut packet));
        assert_eq!(packet, version6(3));
        assert!(!mark_ce(&mut version6(0)));
    }

    #[test]
    fn flow_has_protocol_addresses_and_ports() {
        let flow = Flow::of(&version4(0)).expect("UDP");
        assert_eq!(flow.to_string(), "udp 198.18.0.1:258 → 198.18.0.2:772");
        let mut packet = version6(0);
        (packet[8], packet[39]) = (0x20, 1);
        let flow = Flow::of(&packet).expect("TCP");
        assert_eq!(flow.to_string(), "tcp [2000::]:80 → [::1]:256");
        let mut ping = version4(0);
        ping[9] = 1;
        assert_eq!(Flow::of(&ping), None);
    }

    #[test]
    fn ecn_field_is_read_in_both_versions() {
        for (field, expected) in
            [(0b00, Ecn::NotEct), (0b01, Ecn::Ect1), (0b10, Ecn::Ect0), (0b11, Ecn::Ect1)]
        {
            // The other bits of the byte are those of the class.
            assert_eq!(ecn(&version4(0b1010_1000 | field)), expected);
            assert_eq!(ecn(&version6(0b1010_1000 | field)), expected);
        }
        assert_eq!(ecn(&[0x80, 0xff]), Ecn::NotEct);
    }

    #[test]
    fn cut_packets_are_no_flow_and_take_no_mark() {
        for whole in [version4(2), version6(2)] {
            for length in 0..whole.len() {
                let mut packet = whole[..length].to_vec();
                let _ = (Flow::of(&packet), ecn(&packet), mark_ce(&mut packet));
            }
        }
    }
}
