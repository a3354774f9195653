//! A trial of what an interface can send, for tools that advise operators.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd as _;

use socket2::{Domain, Protocol, Socket, Type};

use crate::control::UDP_SEGMENT;
use crate::{interface, sys};

/// Payload of each of the two datagrams, bytes: every network of QUIC carries it.
const SEGMENT: i32 = 1200;
/// The discard port (RFC 863).
const DISCARD: u16 = 9;

/// Sends a GSO batch of two datagrams by the interface that has the address `local`, and lets none leave the host: the kernel discards
/// multicast datagrams with a hop limit of 0, or of the scope of an interface, behind the point where it refuses a batch.
///
/// # Errors
/// EIO: the interface does not compute checksums, so that a driver sends datagram by datagram. Others: the kernel has no GSO, the
/// interface is down, or its MTU is too small.
pub fn send_batch(name: &str, local: IpAddr) -> io::Result<()> {
    let any = SocketAddr::new(local, 0);
    let socket = Socket::new(Domain::for_address(any), Type::DGRAM, Some(Protocol::UDP))?;
    let group: IpAddr = match local {
        IpAddr::V4(local) => {
            socket.set_multicast_if_v4(&local)?;
            socket.set_multicast_ttl_v4(0)?;
            socket.set_multicast_loop_v4(false)?;
            // Every interface is a member of this group alone, and only for a member the hop limit counts.
            Ipv4Addr::new(224, 0, 0, 1).into()
        }
        IpAddr::V6(_) => {
            let index = interface::index_of(name).ok_or(io::ErrorKind::NotFound)?;
            socket.set_multicast_if_v6(index)?;
            socket.set_multicast_hops_v6(0)?;
            socket.set_multicast_loop_v6(false)?;
            Ipv6Addr::new(0xff01, 0, 0, 0, 0, 0, 0, 1).into()
        }
    };
    sys::set_int(socket.as_fd(), libc::SOL_UDP, UDP_SEGMENT, SEGMENT)?;
    let batch = [0; 2 * SEGMENT as usize];
    socket.send_to(&batch, &SocketAddr::new(group, DISCARD).into()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_that_are_up_take_a_batch_or_say_why_not() {
        for (name, local) in interface::addresses() {
            if let Err(error) = send_batch(&name, local) {
                println!("{name} {local}: {error}");
                assert!(error.raw_os_error().is_some(), "{name}: {error}");
            }
        }
        assert!(send_batch("nowhere0", Ipv6Addr::LOCALHOST.into()).is_err());
        assert!(send_batch("nowhere0", Ipv4Addr::new(192, 0, 2, 77).into()).is_err());
    }
}
