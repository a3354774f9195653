//! The ends of an emulated link: what the emulator reads packets from and writes them to.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

/// One end of a link. Nothing of it blocks.
pub trait Port: AsFd + Send {
    /// Reads a packet that goes onto the link, and returns its length; `None` if there is none.
    ///
    /// # Errors
    ///
    /// The device or socket is broken.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>>;

    /// Writes a packet that comes off the link. Returns whether this end took it.
    fn send(&mut self, packet: &[u8]) -> bool;

    /// Returns whether its packets begin with the header of IP.
    fn has_headers(&self) -> bool;
}

/// A TUN device: carries IP packets of a network namespace.
#[derive(Debug)]
pub struct Tun(pub(super) File);

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Port for Tun {
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        present(self.0.read(buffer))
    }

    fn send(&mut self, packet: &[u8]) -> bool {
        self.0.write(packet).is_ok()
    }

    fn has_headers(&self) -> bool {
        true
    }
}

/// The clients' end of a UDP relay. It serves one client: datagrams from the server go to the address from which the last one
/// came.
#[derive(Debug)]
pub struct RelayListener {
    socket: UdpSocket,
    client: Option<SocketAddr>,
}

/// The server's end of a UDP relay.
#[derive(Debug)]
pub struct RelayUpstream(UdpSocket);

/// Opens a UDP relay: it listens at an address and passes datagrams on to a server, by one socket. It needs no rights and carries
/// UDP only, without ECN.
///
/// # Errors
///
/// The address cannot be bound, or the server not be reached.
pub fn relay(listen: SocketAddr, server: SocketAddr) -> io::Result<(RelayListener, RelayUpstream)> {
    let listener = UdpSocket::bind(listen)?;
    let any = SocketAddr::new(
        match server {
            SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        },
        0,
    );
    let upstream = UdpSocket::bind(any)?;
    upstream.connect(server)?;
    listener.set_nonblocking(true)?;
    upstream.set_nonblocking(true)?;
    let listener = RelayListener { socket: listener, client: None };
    Ok((listener, RelayUpstream(upstream)))
}

impl RelayListener {
    /// Returns the address at which clients reach it.
    ///
    /// # Errors
    ///
    /// The system does not tell.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

impl AsFd for RelayListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsFd for RelayUpstream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Port for RelayListener {
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let received = self.socket.recv_from(buffer);
        let received = received.map(|(length, client)| {
            self.client = Some(client);
            length
        });
        present(received)
    }

    fn send(&mut self, packet: &[u8]) -> bool {
        let Some(client) = self.client else {
            return false;
        };
        self.socket.send_to(packet, client).is_ok()
    }

    fn has_headers(&self) -> bool {
        false
    }
}

impl Port for RelayUpstream {
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        present(self.0.recv(buffer))
    }

    fn send(&mut self, packet: &[u8]) -> bool {
        self.0.send(packet).is_ok()
    }

    fn has_headers(&self) -> bool {
        false
    }
}

/// Returns what was read. A peer that does not listen yet is no error of a socket.
fn present(read: io::Result<usize>) -> io::Result<Option<usize>> {
    match read {
        Ok(length) => Ok(Some(length)),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock
            | io::ErrorKind::Interrupted
            | io::ErrorKind::ConnectionRefused => Ok(None),
            _ => Err(error),
        },
    }
}
