//! Sockets of TCP, beside those of UDP.

use std::io;
use std::net::{SocketAddr, TcpListener};

use super::until_free::until_free;
use rustix::io::Errno;
use sluicegate_dataplane::ListenerId;
use socket2::{Domain, Protocol, Socket, Type};

use crate::tcp::BACKLOG;

/// Sockets of TCP of an address.
pub(super) struct TcpSockets {
    /// Name of the group whose origin threads accept.
    pub(super) group: String,
    /// The listener.
    pub(super) listener: ListenerId,
    /// At least a socket for each worker; a group takes them when it starts.
    pub(super) sockets: Vec<TcpListener>,
    /// Workers that have not taken theirs.
    pub(super) workers: usize,
}

/// Binds `address` for so many workers, among which the system distributes the connections.
///
/// # Errors
/// The first socket cannot be bound, for instance because somebody else has the port.
pub(super) fn bind(address: SocketAddr, workers: usize) -> Result<Vec<TcpListener>, TcpBindError> {
    try_bind(address, workers).map_err(|source| TcpBindError {
        address,
        remedy: remedy(&source),
        source,
    })
}

/// Binds `address` likewise; a port in use gets a second to become free.
///
/// # Errors
/// As with [`bind`].
pub(super) fn bind_when_free(
    address: SocketAddr,
    workers: usize,
) -> Result<Vec<TcpListener>, TcpBindError> {
    until_free(|| bind(address, workers), TcpBindError::is_in_use)
}

/// Binds an address for connections without TLS likewise.
///
/// # Errors
/// It cannot be bound.
pub(super) fn bind_http(
    address: SocketAddr,
    workers: usize,
) -> Result<Vec<TcpListener>, TcpBindError> {
    bind_when_free(address, workers).map_err(|error| TcpBindError {
        remedy: match error.source.kind() {
            io::ErrorKind::AddrInUse => "stop what uses it, or choose another port",
            io::ErrorKind::PermissionDenied => error.remedy,
            _ => "see the listener's `http_address`",
        },
        ..error
    })
}

/// Binds `address` likewise, beside a port that the server drives itself: none where the kernel does not have the address.
///
/// # Errors
/// The kernel has the address, and it cannot be bound.
pub(super) fn bind_beside_port(
    address: SocketAddr,
    workers: usize,
) -> Result<Vec<TcpListener>, TcpBindError> {
    match bind_when_free(address, workers) {
        Err(error) if error.is_foreign() => {
            tracing::warn!(%address, "no HTTP/1.1 and HTTP/2: the kernel does not have the address");
            Ok(Vec::new())
        }
        result => result,
    }
}

fn try_bind(mut address: SocketAddr, workers: usize) -> io::Result<Vec<TcpListener>> {
    let mut sockets: Vec<Socket> = Vec::new();
    for index in 0..workers {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        // Connections of a previous process that are closing do not keep the port.
        socket.set_reuse_address(true)?;
        // The first one is bound alone, so that it finds others that listen.
        if index > 0 {
            socket.set_reuse_port(true)?;
        }
        socket.bind(&address.into())?;
        if index == 0 {
            socket.set_reuse_port(workers > 1)?;
            // A free port is the same one for all.
            address.set_port(socket.local_addr()?.as_socket().map_or(0, |local| local.port()));
        }
        sockets.push(socket);
    }
    let listen = |socket: Socket| {
        socket.listen(BACKLOG.into())?;
        socket.set_nonblocking(true)?;
        Ok(TcpListener::from(socket))
    };
    sockets.into_iter().map(listen).collect()
}

/// Error of binding an address for TCP.
#[derive(Debug, thiserror::Error)]
#[error("cannot bind {address} for TCP: {source}; {remedy}")]
pub struct TcpBindError {
    address: SocketAddr,
    remedy: &'static str,
    source: io::Error,
}

impl TcpBindError {
    /// Returns whether the kernel does not have the address, or nothing of its family.
    fn is_foreign(&self) -> bool {
        let no_family = Some(Errno::AFNOSUPPORT.raw_os_error());
        self.source.kind() == io::ErrorKind::AddrNotAvailable
            || self.source.raw_os_error() == no_family
    }

    /// Returns whether somebody else has the port.
    pub(super) fn is_in_use(&self) -> bool {
        self.source.kind() == io::ErrorKind::AddrInUse
    }
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "stop what uses it, choose another port, or set `tcp = false` to serve HTTP/3 alone"
        }
        io::ErrorKind::PermissionDenied => {
            "ports below net.ipv4.ip_unprivileged_port_start need CAP_NET_BIND_SERVICE"
        }
        _ => "see the listener's `address`, or set `tcp = false` to serve HTTP/3 alone",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

    #[test]
    fn a_port_goes_without_tcp_where_the_kernel_lacks_the_address_or_its_family() {
        for (code, expected) in
            [(Errno::AFNOSUPPORT, true), (Errno::ADDRNOTAVAIL, true), (Errno::ADDRINUSE, false)]
        {
            let source = io::Error::from(code);
            let (address, remedy) = (ANY, remedy(&source));
            let error = TcpBindError { address, remedy, source };
            assert_eq!(error.is_foreign(), expected, "{code}");
        }
    }

    #[test]
    fn workers_share_a_free_port() {
        let mut shared = bind(ANY, 3).unwrap().into_iter();
        let address = shared.next().unwrap().local_addr().unwrap();
        assert!(shared.all(|one| one.local_addr().unwrap() == address));
    }

    #[test]
    fn workers_share_a_port_that_nobody_else_may_bind() {
        let first = bind(ANY, 1).unwrap();
        let address = first[0].local_addr().unwrap();
        for workers in [1, 2] {
            let refused = bind(address, workers).unwrap_err();
            assert_eq!(refused.source.kind(), io::ErrorKind::AddrInUse);
        }
        drop(first);
        let shared = bind(address, 3).unwrap();
        assert!(shared.iter().all(|one| one.local_addr().unwrap() == address));
        let refused = bind(address, 2).unwrap_err();
        assert_eq!(refused.source.kind(), io::ErrorKind::AddrInUse);
    }
}
