//! Sockets of the kernel beside a port of AF_XDP whose addresses are the kernel's.
//!
//! They hold the listeners' addresses, so that no other process takes them and the kernel refuses no client while the port
//! opens. And they send where a worker does not know the next hop: the kernel has the routes, and resolves neighbours.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;

use socket2::{Domain, Protocol, Socket, Type};

use crate::device_port::PortError;
use crate::sys;

/// One socket for each address and port that the listeners have.
#[derive(Debug)]
pub(super) struct KernelSockets(Vec<(SocketAddr, UdpSocket)>);

impl KernelSockets {
    /// Binds the sockets. Link-local addresses are those of the interface `scope_id`.
    pub(super) fn bind(addresses: &[SocketAddr], scope_id: u32) -> Result<Self, PortError> {
        let mut sockets: Vec<(SocketAddr, UdpSocket)> = Vec::new();
        for address in addresses {
            if sockets.iter().any(|(bound, _)| bound == address) {
                continue;
            }
            let socket = bind(*address, scope_id).map_err(|source| PortError::Bind {
                address: *address,
                cause: source.to_string(),
                remedy: match source.kind() {
                    io::ErrorKind::PermissionDenied => {
                        "ports below 1024 need CAP_NET_BIND_SERVICE, see deploy/dpdk.md"
                    }
                    _ => "`ss -ulnp` says which process has it; stop that, or use another port",
                },
            })?;
            sockets.push((*address, socket));
        }
        Ok(Self(sockets))
    }

    /// Sends a datagram from an address of a listener.
    ///
    /// # Errors
    /// The kernel did not take it, or no listener has the address.
    pub(super) fn send(
        &self,
        source: SocketAddr,
        peer: SocketAddr,
        payload: &[u8],
    ) -> io::Result<()> {
        let bound = self.0.iter().find(|(bound, _)| *bound == source);
        let (_, socket) = bound.ok_or(io::ErrorKind::AddrNotAvailable)?;
        socket.send_to(payload, peer).map(drop)
    }
}

fn bind(mut address: SocketAddr, scope_id: u32) -> io::Result<UdpSocket> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    // Only fragments arrive here, after the kernel has put them together, and nobody reads them.
    socket.set_recv_buffer_size(0)?;
    let fd = socket.as_fd();
    // QUIC probes the size of datagrams for itself (RFC 9000 §14).
    if let SocketAddr::V6(v6) = &mut address {
        if v6.ip().is_unicast_link_local() {
            v6.set_scope_id(scope_id);
        }
        socket.set_only_v6(true)?;
        // An address may still be tentative.
        socket.set_freebind_v6(true)?;
        let (option, value) = (libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE);
        sys::set_int(fd, libc::IPPROTO_IPV6, option, value)?;
    } else {
        socket.set_freebind_v4(true)?;
        let (option, value) = (libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE);
        sys::set_int(fd, libc::IPPROTO_IP, option, value)?;
    }
    socket.bind(&address.into())?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_held_and_datagrams_leave_from_it() {
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let own = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let sockets = KernelSockets::bind(&[own, own], 1).unwrap();
        let other = KernelSockets::bind(&[own], 1).unwrap_err().to_string();
        assert!(other.contains(&format!("{own}")), "{other}");
        let target = peer.local_addr().unwrap();
        sockets.send(own, target, b"reply").unwrap();
        let mut buffer = [0; 16];
        assert_eq!(peer.recv_from(&mut buffer).unwrap(), (5, own));
        sockets.send(target, own, b"from elsewhere").unwrap_err();
    }
}
