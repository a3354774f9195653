//! Datagrams on the stream between two processes, each with what its receiver knew of it.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use sluicegate_dataplane::Ecn;

/// Length of the part before the datagram's bytes.
const HEAD: usize = 4 + 1 + 2 + 1 + 2 * ADDRESS;
/// Length of an address: family, IP address, port, scope.
const ADDRESS: usize = 1 + 16 + 2 + 4;
/// Largest datagram, bytes.
const LARGEST: usize = 65_535;

/// A datagram with its metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ForwardedDatagram<'a> {
    /// Index of the worker that received it, in its group.
    pub(crate) worker: u8,
    /// Number of the listening address, which both processes know.
    pub(crate) label: u16,
    /// Sender's address.
    pub(crate) peer: SocketAddr,
    /// Destination address.
    pub(crate) local: SocketAddr,
    /// ECN bits.
    pub(crate) ecn: Ecn,
    /// The datagram.
    pub(crate) datagram: &'a [u8],
}

/// The bytes are no frame, so nothing that follows can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoForwardedDatagram;

impl<'a> ForwardedDatagram<'a> {
    /// Appends it to `out`.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let length = u32::try_from(self.datagram.len()).unwrap_or(u32::MAX);
        out.extend_from_slice(&length.to_be_bytes());
        out.push(self.worker);
        out.extend_from_slice(&self.label.to_be_bytes());
        out.push(self.ecn.bits());
        write_address(self.peer, out);
        write_address(self.local, out);
        out.extend_from_slice(self.datagram);
    }

    /// Reads the first frame of `bytes`, and returns its length, too; `None` if it is not whole yet.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn read(
        bytes: &'a [u8],
    ) -> Result<Option<(ForwardedDatagram<'a>, usize)>, NoForwardedDatagram> {
        let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let (length, head) = head.split_first_chunk::<4>().ok_or(NoForwardedDatagram)?;
        let length =
            usize::try_from(u32::from_be_bytes(*length)).map_err(|_| NoForwardedDatagram)?;
        if length > LARGEST {
            return Err(NoForwardedDatagram);
        }
        let Some(datagram) = rest.get(..length) else {
            return Ok(None);
        };
        let [worker, high, low, ecn, addresses @ ..] = head else {
            return Err(NoForwardedDatagram);
        };
        let (peer, local) = addresses.split_at_checked(ADDRESS).ok_or(NoForwardedDatagram)?;
        let frame = ForwardedDatagram {
            worker: *worker,
            label: u16::from_be_bytes([*high, *low]),
            peer: read_address(peer)?,
            local: read_address(local)?,
            ecn: Ecn::from_bits(*ecn),
            datagram,
        };
        Ok(Some((frame, HEAD + length)))
    }
}

fn write_address(address: SocketAddr, out: &mut Vec<u8>) {
    let (family, ip, scope) = match address {
        SocketAddr::V4(address) => (4, address.ip().to_ipv6_mapped(), 0),
        SocketAddr::V6(address) => (6, *address.ip(), address.scope_id()),
    };
    out.push(family);
    out.extend_from_slice(&ip.octets());
    out.extend_from_slice(&address.port().to_be_bytes());
    out.extend_from_slice(&scope.to_be_bytes());
}

fn read_address(bytes: &[u8]) -> Result<SocketAddr, NoForwardedDatagram> {
    let (family, rest) = bytes.split_first().ok_or(NoForwardedDatagram)?;
    let (ip, rest) = rest.split_first_chunk::<16>().ok_or(NoForwardedDatagram)?;
    let (port, scope) = rest.split_first_chunk::<2>().ok_or(NoForwardedDatagram)?;
    let (ip, port) = (Ipv6Addr::from(*ip), u16::from_be_bytes(*port));
    match family {
        4 => Ok(SocketAddr::new(IpAddr::V4(ip.to_ipv4_mapped().ok_or(NoForwardedDatagram)?), port)),
        6 => {
            let scope = u32::from_be_bytes(scope.try_into().map_err(|_| NoForwardedDatagram)?);
            Ok(SocketAddrV6::new(ip, port, 0, scope).into())
        }
        _ => Err(NoForwardedDatagram),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame<'a>(peer: &str, local: &str, datagram: &'a [u8]) -> ForwardedDatagram<'a> {
        let [peer, local] = [peer, local].map(|address| address.parse().unwrap());
        let ecn = Ecn::CongestionExperienced;
        ForwardedDatagram { worker: 255, label: 513, peer, local, ecn, datagram }
    }

    #[test]
    fn frames_are_read_as_they_were_written_one_after_the_other() {
        let long = [7; LARGEST];
        let all = [
            frame("192.0.2.1:1", "198.51.100.1:443", b""),
            frame("[2001:db8::1]:65535", "[fe80::1%9]:443", &long),
            frame("[::ffff:192.0.2.1]:7", "[::1]:443", b"x"),
        ];
        let mut bytes = Vec::new();
        all.iter().for_each(|frame| frame.write(&mut bytes));
        for expected in all {
            let (frame, length) = ForwardedDatagram::read(&bytes).unwrap().unwrap();
            assert_eq!(frame, expected);
            bytes.drain(..length);
        }
        assert_eq!(ForwardedDatagram::read(&bytes), Ok(None));
    }

    #[test]
    fn part_of_a_frame_waits_for_the_rest() {
        let mut bytes = Vec::new();
        frame("192.0.2.1:1", "198.51.100.1:443", b"abc").write(&mut bytes);
        for length in 0..bytes.len() {
            assert_eq!(ForwardedDatagram::read(&bytes[..length]), Ok(None), "{length}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(Some((frame, length))) = ForwardedDatagram::read(&bytes) {
                let mut again = Vec::new();
                frame.write(&mut again);
                prop_assert_eq!(again.len(), length);
            }
        }
    }
}
