//! Socket addresses as the kernel writes them, without raw pointers.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Room for the longest address, bytes: `sockaddr_in6` has 28.
pub(crate) const NAME_LEN: usize = 32;

/// [`NAME_LEN`] as message headers count it.
#[expect(clippy::cast_possible_truncation, reason = "32")]
pub(crate) const NAME_SOCKLEN: libc::socklen_t = NAME_LEN as libc::socklen_t;

const V4_LEN: usize = 16;
const V6_LEN: usize = 28;

#[expect(clippy::cast_possible_truncation, reason = "AF_INET is 2, AF_INET6 is 10")]
const FAMILIES: [u16; 2] = [libc::AF_INET as u16, libc::AF_INET6 as u16];

/// Writes `address` as `sockaddr_in` or `sockaddr_in6` and returns its length.
pub(crate) fn encode(address: &SocketAddr, name: &mut [u8; NAME_LEN]) -> usize {
    name[2..4].copy_from_slice(&address.port().to_be_bytes());
    match address {
        SocketAddr::V4(v4) => {
            name[..2].copy_from_slice(&FAMILIES[0].to_ne_bytes());
            name[4..8].copy_from_slice(&v4.ip().octets());
            name[8..V4_LEN].fill(0);
            V4_LEN
        }
        SocketAddr::V6(v6) => {
            name[..2].copy_from_slice(&FAMILIES[1].to_ne_bytes());
            name[4..8].copy_from_slice(&v6.flowinfo().to_be_bytes());
            name[8..24].copy_from_slice(&v6.ip().octets());
            name[24..V6_LEN].copy_from_slice(&v6.scope_id().to_ne_bytes());
            V6_LEN
        }
    }
}

/// Reads `sockaddr_in` or `sockaddr_in6`; `None` for anything else.
pub(crate) fn decode(name: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(*name.first_chunk()?);
    let port = u16::from_be_bytes(*name.get(2..)?.first_chunk()?);
    if family == FAMILIES[0] {
        let octets: [u8; 4] = *name.get(4..)?.first_chunk()?;
        Some(SocketAddrV4::new(Ipv4Addr::from(octets), port).into())
    } else if family == FAMILIES[1] {
        let flowinfo = u32::from_be_bytes(*name.get(4..)?.first_chunk()?);
        let octets: [u8; 16] = *name.get(8..)?.first_chunk()?;
        let scope = u32::from_ne_bytes(*name.get(24..)?.first_chunk()?);
        Some(SocketAddrV6::new(Ipv6Addr::from(octets), port, flowinfo, scope).into())
    } else {
        None
    }
}

/// Returns whether a listener bound to `bound` receives what is sent to `destination`: what a kernel decides for sockets.
#[cfg(any(feature = "test-backends", feature = "dpdk"))]
pub(crate) fn covers(bound: &SocketAddr, destination: &SocketAddr) -> bool {
    bound.port() == destination.port()
        && bound.is_ipv4() == destination.is_ipv4()
        && (bound.ip() == destination.ip() || bound.ip().is_unspecified())
}

/// Returns the source address of a datagram from `bound` to `peer`, where `local` was asked for; `None` where the families
/// differ. What a kernel decides for sockets on loopback.
#[cfg(feature = "test-backends")]
pub(crate) fn source(
    bound: SocketAddr,
    peer: SocketAddr,
    local: Option<SocketAddr>,
) -> Option<SocketAddr> {
    if bound.is_ipv4() != peer.is_ipv4() {
        return None;
    }
    let asked = local.filter(|local| !local.ip().is_unspecified());
    let ip = match asked {
        Some(local) => local.ip(),
        None if !bound.ip().is_unspecified() => bound.ip(),
        None if bound.is_ipv4() => Ipv4Addr::LOCALHOST.into(),
        None => Ipv6Addr::LOCALHOST.into(),
    };
    Some(SocketAddr::new(ip, bound.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_both_ways() {
        for address in ["192.0.2.1:443", "[2001:db8::1]:8443", "[fe80::1%7]:1"] {
            let address: SocketAddr = address.parse().unwrap();
            let mut name = [0xff; NAME_LEN];
            let len = encode(&address, &mut name);
            assert_eq!(decode(&name[..len]), Some(address));
            assert_eq!(socket2::SockAddr::from(address).len() as usize, len);
        }
    }

    #[test]
    fn what_is_no_address_is_none() {
        assert_eq!(decode(&[]), None);
        assert_eq!(decode(&[1, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(decode(&FAMILIES[1].to_ne_bytes()), None);
    }
}
