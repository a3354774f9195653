//! Sockets that a service manager (LISTEN_FDS, sd_listen_fds(3)) or an earlier process passed to this one.

use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::fcntl_dupfd_cloexec;
use socket2::Socket;

use crate::acquire::Acquired;
use crate::error::BindError;
use crate::meta::ListenerId;

/// Sockets that no listener has taken yet.
#[derive(Debug, Default)]
pub struct Inherited {
    sockets: Vec<(SocketAddr, Socket)>,
}

impl Inherited {
    /// Duplicates the descriptors, which stay as they are, and keeps those that are sockets of IP addresses.
    pub fn duplicate<'a>(fds: impl IntoIterator<Item = BorrowedFd<'a>>) -> Self {
        let socket = |fd| {
            let socket = Socket::from(fcntl_dupfd_cloexec(fd, 0).ok()?);
            Some((socket.local_addr().ok()?.as_socket()?, socket))
        };
        Self { sockets: fds.into_iter().filter_map(socket).collect() }
    }

    /// Takes the sockets that are bound to `address` for a listener; `None` where there are none. See
    /// [`Acquired::inherit`].
    ///
    /// # Errors
    /// As with [`Acquired::inherit`].
    pub fn acquire(
        &mut self,
        listener: ListenerId,
        address: SocketAddr,
        workers: usize,
    ) -> Result<Option<Acquired>, BindError> {
        let taken = self.sockets.extract_if(.., |(bound, _)| *bound == address);
        let fds: Vec<OwnedFd> = taken.map(|(_, socket)| socket.into()).collect();
        if fds.is_empty() {
            return Ok(None);
        }
        Acquired::inherit(listener, fds, workers).map(Some)
    }

    /// Returns the addresses of the sockets that no listener took.
    pub fn left(&self) -> impl Iterator<Item = SocketAddr> {
        self.sockets.iter().map(|(address, _)| *address)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn sockets_go_to_the_listener_of_their_address() {
        let passed = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
        let file = std::fs::File::open("/dev/null").unwrap();
        let fds = passed.iter().map(AsFd::as_fd);
        let mut inherited = Inherited::duplicate(fds.chain([file.as_fd()]));
        let [first, second] = passed.map(|socket| socket.local_addr().unwrap());
        let elsewhere = "127.0.0.1:1".parse().unwrap();
        let id = ListenerId(7);
        assert!(inherited.acquire(id, elsewhere, 1).unwrap().is_none());
        // The originals are closed by now; one duplicate is shared by three workers.
        let acquired = inherited.acquire(id, first, 3).unwrap().unwrap();
        assert_eq!((acquired.listener(), acquired.workers()), (id, 3));
        assert_eq!(acquired.local_addr(), first);
        assert!(inherited.acquire(id, first, 1).unwrap().is_none());
        assert_eq!(Vec::from_iter(inherited.left()), [second]);
    }

    #[test]
    fn a_socket_of_another_kind_is_refused() {
        let passed = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = passed.local_addr().unwrap();
        let mut inherited = Inherited::duplicate([passed.as_fd()]);
        let refused = inherited.acquire(ListenerId(0), address, 1).unwrap_err();
        assert!(refused.to_string().contains("no UDP socket"), "{refused}");
    }
}
