//! Control messages (`cmsg(3)`) of a datagram, read and written as bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::{Binding, Ecn, RxMeta, TxMeta};

/// Room for what is asked for in either direction: packet info, ECN, GRO stride and some to spare.
pub(crate) const CONTROL_LEN: usize = 128;

/// `linux/udp.h`: sizes of the datagrams in a buffer, sent and received.
pub(crate) const UDP_SEGMENT: i32 = 103;
/// See [`UDP_SEGMENT`].
pub(crate) const UDP_GRO: i32 = 104;

const WORD: usize = size_of::<usize>();
/// `struct cmsghdr`: a length, a level and a type.
const HEADER: usize = WORD + 8;

/// Control messages to send.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(crate) struct Control {
    bytes: [u8; CONTROL_LEN],
    len: usize,
}

/// What control messages of a received buffer say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    /// The address it was sent to and, for IPv6, the interface.
    pub(crate) local: Option<(IpAddr, u32)>,
    pub(crate) ecn: Ecn,
    /// Size of each datagram, where GRO put several together.
    pub(crate) stride: Option<usize>,
}

impl Control {
    pub(crate) const fn new() -> Self {
        Self {
            bytes: [0; CONTROL_LEN],
            len: 0,
        }
    }

    /// Source address and ECN of `meta`, and `segment` where the kernel shall cut the buffer into datagrams.
    pub(crate) fn describe(&mut self, meta: &TxMeta, segment: Option<u16>) {
        self.len = 0;
        match meta.local {
            Some(SocketAddr::V4(local)) if !local.ip().is_unspecified() => {
                let mut info = [0; 12];
                info[4..8].copy_from_slice(&local.ip().octets());
                self.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            Some(SocketAddr::V6(local)) if !local.ip().is_unspecified() => {
                let mut info = [0; 20];
                info[..16].copy_from_slice(&local.ip().octets());
                info[16..].copy_from_slice(&local.scope_id().to_ne_bytes());
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
        message[WORD..WORD + 4].copy_from_slice(&level.to_ne_bytes());
        message[WORD + 4..HEADER].copy_from_slice(&kind.to_ne_bytes());
        message[HEADER..whole].copy_from_slice(data);
        message[whole..].fill(0);
        self.len = end;
    }
}

/// Reads the control messages of a received buffer; unknown or broken ones are skipped.
pub(crate) fn parse(mut rest: &[u8]) -> Received {
    let mut received = Received::default();
    while let Some(header) = rest.first_chunk::<HEADER>() {
        let (len, kind) = header.split_at(WORD);
        let len = len
            .first_chunk()
            .map_or(0, |len| usize::from_ne_bytes(*len));
        let Some(data) = rest.get(HEADER..len) else {
            break;
        };
        let (level, kind) = kind.split_at(4);
        let id = (int(level), int(kind));
        match id {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                if let Some(octets) = data.get(8..).and_then(<[u8]>::first_chunk::<4>) {
                    received.local = Some((Ipv4Addr::from(*octets).into(), 0));
                }
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                if let Some(octets) = data.first_chunk::<16>() {
                    let interface = data.get(16..).map_or(0, int).cast_unsigned();
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
            _ => {}
        }
        rest = rest.get(len.next_multiple_of(WORD)..).unwrap_or_default();
    }
    received
}

impl Received {
    /// The meta of a buffer of `len` bytes that `peer` sent to `binding`.
    pub(crate) fn meta(&self, binding: &Binding, peer: SocketAddr, len: usize) -> RxMeta {
        RxMeta {
            listener: binding.listener(),
            peer,
            local: self.local(binding.local_addr()),
            ecn: self.ecn,
            stride: self.stride.map_or(len, |stride| stride.min(len)),
        }
    }

    /// The address it was sent to with the port it was bound to; `bound` where the kernel did not say.
    pub(crate) fn local(&self, bound: SocketAddr) -> SocketAddr {
        match self.local {
            None => bound,
            Some((IpAddr::V4(ip), _)) => SocketAddr::new(ip.into(), bound.port()),
            Some((IpAddr::V6(ip), interface)) => {
                let scope = if ip.is_unicast_link_local() {
                    interface
                } else {
                    0
                };
                SocketAddrV6::new(ip, bound.port(), 0, scope).into()
            }
        }
    }
}

/// The first four bytes as a native `int`; 0 where there are fewer.
fn int(bytes: &[u8]) -> i32 {
    bytes
        .first_chunk()
        .map_or(0, |int| i32::from_ne_bytes(*int))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ListenerId;

    fn meta(local: &str, ecn: Ecn) -> TxMeta {
        let local: SocketAddr = local.parse().unwrap();
        TxMeta {
            listener: ListenerId(0),
            peer: local,
            local: Some(local),
            ecn,
            len: 10,
            segment: 10,
        }
    }

    #[test]
    fn what_is_sent_reads_back() {
        for (local, ecn) in [
            ("[2001:db8::5]:7", Ecn::Ect0),
            ("[::1]:9", Ecn::CongestionExperienced),
        ] {
            let mut control = Control::new();
            control.describe(&meta(local, ecn), Some(1200));
            let received = parse(control.as_slice());
            assert_eq!(received.ecn, ecn);
            let bound = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 443);
            let sent: SocketAddr = local.parse().unwrap();
            assert_eq!(received.local(bound), SocketAddr::new(sent.ip(), 443));
        }
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
