//! Control messages (`cmsg(3)`) of a datagram, read and written as bytes.

use std::mem::offset_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use libc::{cmsghdr, in_pktinfo, in6_pktinfo};

use crate::meta::{Ecn, TxMeta};

/// Room for what is asked for in either direction, bytes: packet info, ECN, GRO stride, overflow count.
pub(crate) const CONTROL_LEN: usize = 128;

/// `linux/udp.h`: size of the datagrams in a sent message.
pub(crate) const UDP_SEGMENT: i32 = 103;
/// `linux/udp.h`: size of the datagrams in a received message.
pub(crate) const UDP_GRO: i32 = 104;

const WORD: usize = size_of::<usize>();
const HEADER: usize = size_of::<cmsghdr>();
const LEVEL_AT: usize = offset_of!(cmsghdr, cmsg_level);
const TYPE_AT: usize = offset_of!(cmsghdr, cmsg_type);
/// Source address of an outgoing IPv4 datagram.
const V4_SOURCE_AT: usize = offset_of!(in_pktinfo, ipi_spec_dst);
/// Destination address of a received IPv4 datagram.
const V4_DESTINATION_AT: usize = offset_of!(in_pktinfo, ipi_addr);
const V6_ADDRESS_AT: usize = offset_of!(in6_pktinfo, ipi6_addr);
const V6_INTERFACE_AT: usize = offset_of!(in6_pktinfo, ipi6_ifindex);

/// Control messages to send.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(crate) struct Control {
    bytes: [u8; CONTROL_LEN],
    len: usize,
}

/// Contents of the control messages of a received message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    /// Destination address and, for IPv6, the index of the interface.
    pub(crate) local: Option<(IpAddr, u32)>,
    pub(crate) ecn: Ecn,
    /// Size of each datagram but the last, where GRO merged several.
    pub(crate) stride: Option<usize>,
    /// Datagrams that the socket dropped for want of room since it was opened (SO_RXQ_OVFL).
    pub(crate) overflow: Option<u32>,
}

impl Control {
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; CONTROL_LEN], len: 0 }
    }

    /// Writes source address and ECN of `meta`, and `segment` where the kernel is to cut the message into datagrams.
    pub(crate) fn describe(&mut self, meta: &TxMeta, segment: Option<u16>) {
        self.len = 0;
        match meta.local {
            Some(SocketAddr::V4(local)) if !local.ip().is_unspecified() => {
                let mut info = [0; size_of::<in_pktinfo>()];
                put(&mut info, V4_SOURCE_AT, &local.ip().octets());
                self.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            Some(SocketAddr::V6(local)) if !local.ip().is_unspecified() => {
                let mut info = [0; size_of::<in6_pktinfo>()];
                put(&mut info, V6_ADDRESS_AT, &local.ip().octets());
                put(&mut info, V6_INTERFACE_AT, &local.scope_id().to_ne_bytes());
                self.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
            _ => {}
        }
        if meta.ecn != Ecn::NotCapable {
            let bits = i32::from(meta.ecn.bits()).to_ne_bytes();
            if meta.peer.is_ipv4() {
                self.push(libc::IPPROTO_IP, libc::IP_TOS, &bits);
            } else {
                self.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &bits);
            }
        }
        if let Some(segment) = segment {
            self.push(libc::SOL_UDP, UDP_SEGMENT, &segment.to_ne_bytes());
        }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn push(&mut self, level: i32, kind: i32, data: &[u8]) {
        let whole = HEADER + data.len();
        let end = self.len + whole.next_multiple_of(WORD);
        debug_assert!(end <= CONTROL_LEN);
        let message = &mut self.bytes[self.len..end];
        message[..WORD].copy_from_slice(&whole.to_ne_bytes());
        put(message, LEVEL_AT, &level.to_ne_bytes());
        put(message, TYPE_AT, &kind.to_ne_bytes());
        message[HEADER..whole].copy_from_slice(data);
        message[whole..].fill(0);
        self.len = end;
    }
}

/// Reads the control messages of a received message; unknown or broken ones are skipped.
pub(crate) fn parse(mut rest: &[u8]) -> Received {
    let mut received = Received::default();
    while let Some(header) = rest.first_chunk::<HEADER>() {
        let len = header.first_chunk().map_or(0, |len| usize::from_ne_bytes(*len));
        let Some(data) = rest.get(HEADER..len) else {
            break;
        };
        let id = (int(&header[LEVEL_AT..]), int(&header[TYPE_AT..]));
        match id {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                if let Some(octets) = chunk::<4>(data, V4_DESTINATION_AT) {
                    received.local = Some((Ipv4Addr::from(*octets).into(), 0));
                }
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                if let Some(octets) = chunk::<16>(data, V6_ADDRESS_AT) {
                    let interface = data.get(V6_INTERFACE_AT..).map_or(0, int).cast_unsigned();
                    received.local = Some((Ipv6Addr::from(*octets).into(), interface));
                }
            }
            (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                // One byte, or an `int` whose low byte it is.
                let byte = match *data {
                    [byte] => byte,
                    _ => int(data).to_le_bytes()[0],
                };
                received.ecn = Ecn::from_bits(byte);
            }
            (libc::SOL_UDP, UDP_GRO) => {
                received.stride = usize::try_from(int(data)).ok().filter(|stride| *stride > 0);
            }
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                received.overflow = Some(int(data).cast_unsigned());
            }
            _ => {}
        }
        rest = rest.get(len.next_multiple_of(WORD)..).unwrap_or_default();
    }
    received
}

impl Received {
    /// Returns the address that the message was sent to, with the port it was `bound` to; `None` where the kernel did not
    /// say and the socket is bound to a wildcard.
    pub(crate) fn local(&self, bound: SocketAddr) -> Option<SocketAddr> {
        match self.local {
            None => Some(bound).filter(|bound| !bound.ip().is_unspecified()),
            Some((IpAddr::V4(ip), _)) => Some(SocketAddr::new(ip.into(), bound.port())),
            Some((IpAddr::V6(ip), interface)) => {
                let scope = if ip.is_unicast_link_local() { interface } else { 0 };
                Some(SocketAddrV6::new(ip, bound.port(), 0, scope).into())
            }
        }
    }
}

fn put(bytes: &mut [u8], at: usize, part: &[u8]) {
    bytes[at..at + part.len()].copy_from_slice(part);
}

fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
    bytes.get(at..)?.first_chunk()
}

/// Returns the first four bytes as a native `int`; 0 where there are fewer.
fn int(bytes: &[u8]) -> i32 {
    bytes.first_chunk().map_or(0, |int| i32::from_ne_bytes(*int))
}

#[cfg(test)]
mod tests {
    use super::*;
    fn meta(local: &str, ecn: Ecn) -> TxMeta {
        let local: SocketAddr = local.parse().unwrap();
        TxMeta { peer: local, local: Some(local), ecn, departure: None }
    }

    #[test]
    fn what_is_sent_reads_back() {
        for (local, ecn) in
            [("[2001:db8::5]:7", Ecn::Ect0), ("[::1]:9", Ecn::CongestionExperienced)]
        {
            let mut control = Control::new();
            control.describe(&meta(local, ecn), Some(1200));
            let received = parse(control.as_slice());
            assert_eq!(received.ecn, ecn);
            let bound = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 443);
            let sent: SocketAddr = local.parse().unwrap();
            let expected = SocketAddr::new(sent.ip(), 443);
            assert_eq!(received.local(bound), Some(expected));
        }
    }

    #[test]
    fn offsets_are_those_of_the_kernel() {
        assert_eq!((HEADER, LEVEL_AT, TYPE_AT), (WORD + 8, WORD, WORD + 4));
        assert_eq!((V4_SOURCE_AT, V4_DESTINATION_AT), (4, 8));
        assert_eq!((V6_ADDRESS_AT, V6_INTERFACE_AT), (0, 16));
    }

    #[test]
    fn a_wildcard_is_no_destination() {
        let received = Received::default();
        assert_eq!(received.local("0.0.0.0:1".parse().unwrap()), None);
        let bound = "192.0.2.1:1".parse().unwrap();
        assert_eq!(received.local(bound), Some(bound));
    }

    #[test]
    fn the_overflow_count_is_read() {
        let mut control = Control::new();
        control.push(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &7u32.to_ne_bytes());
        assert_eq!(parse(control.as_slice()).overflow, Some(7));
    }

    #[test]
    fn nothing_to_say_takes_no_room() {
        let mut control = Control::new();
        control.describe(&meta("[::1]:1", Ecn::Ect1), Some(9));
        control.describe(&meta("0.0.0.0:1", Ecn::NotCapable), None);
        assert!(control.as_slice().is_empty());
    }

    #[test]
    fn broken_messages_end_the_reading() {
        let mut control = Control::new();
        control.describe(&meta("[::1]:1", Ecn::Ect0), None);
        let whole = control.as_slice();
        for cut in 0..whole.len() {
            let _ = parse(&whole[..cut]);
        }
        let mut bytes = whole.to_vec();
        for len in [0usize, 1, HEADER - 1, HEADER, usize::MAX] {
            bytes[..WORD].copy_from_slice(&len.to_ne_bytes());
            assert_eq!(parse(&bytes).local, None);
        }
    }
}
