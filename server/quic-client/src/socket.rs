//! A UDP socket for one connection, with GSO, GRO and ECN, for programs that drive a client.

use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use quiche::Ecn;
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use rustix::io::Errno;

/// Size of a receive buffer: no batch that GRO makes is larger.
const RECEIVE: usize = 64 << 10;
/// Receive buffers, of one system call.
const MESSAGES: usize = 8;
/// Largest UDP payload over IPv4; the kernel's bound for a GSO batch as a whole.
pub const BATCH: usize = 65_507;
/// Receive buffer of the kernel to ask for; it grants what `net.core.rmem_max` allows.
const KERNEL_BUFFER: usize = 1 << 20;

/// Buffers that the sockets of a thread share.
#[derive(Debug)]
pub struct Buffers {
    /// Room for the messages of one system call.
    pub receive: Vec<u8>,
    /// Room for the batch that a connection writes.
    pub send: Vec<u8>,
    /// Room for a piece of a body.
    pub body: Vec<u8>,
}

impl Default for Buffers {
    fn default() -> Self {
        Buffers {
            receive: vec![0; MESSAGES * RECEIVE],
            send: vec![0; BATCH],
            body: vec![0; RECEIVE],
        }
    }
}

/// Fate of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It left, or was lost as a network loses it.
    Yes,
    /// The kernel has no room now. The socket keeps the batch for [`BatchSocket::send_again`].
    Blocked,
    /// Datagrams of this size are larger than what the way out takes, and are lost.
    TooBig(usize),
}

/// A socket that is connected to the server, so that it learns of a closed port.
#[derive(Debug)]
pub struct BatchSocket<S = UdpSocket> {
    socket: S,
    state: UdpSocketState,
    /// Own address.
    pub local: SocketAddr,
    /// Address of the server.
    pub peer: SocketAddr,
    /// Batch that found no room, with the size and the mark of its datagrams.
    unsent: Option<(Vec<u8>, usize, Ecn)>,
}

impl<S: AsFd> AsFd for BatchSocket<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl BatchSocket {
    /// Opens a socket to `peer`, from the address `local` if there is one.
    ///
    /// # Errors
    /// There is no route to it, no such address here, or no port or descriptor left.
    pub fn connect(peer: SocketAddr, local: Option<IpAddr>) -> io::Result<BatchSocket> {
        let any: IpAddr = if peer.is_ipv4() {
            Ipv4Addr::UNSPECIFIED.into()
        } else {
            Ipv6Addr::UNSPECIFIED.into()
        };
        let socket = UdpSocket::bind((local.unwrap_or(any), 0))?;
        socket.connect(peer)?;
        let state = UdpSocketState::new((&socket).into())?;
        // What the kernel grants is enough to begin with.
        let _ = state.set_recv_buffer_size((&socket).into(), KERNEL_BUFFER);
        Ok(BatchSocket { local: socket.local_addr()?, state, socket, peer, unsent: None })
    }

    /// Turns the socket into that of a runtime. It does not block.
    ///
    /// # Errors
    /// Those of `turn`.
    pub fn with_runtime<S>(
        self,
        turn: impl FnOnce(UdpSocket) -> io::Result<S>,
    ) -> io::Result<BatchSocket<S>> {
        let BatchSocket { socket, state, local, peer, unsent } = self;
        Ok(BatchSocket { socket: turn(socket)?, state, local, peer, unsent })
    }
}

impl<S: AsFd> BatchSocket<S> {
    /// Returns the socket itself.
    pub fn socket(&self) -> &S {
        &self.socket
    }

    /// Returns the most datagrams that one batch may have.
    pub fn max_datagrams(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Passes the messages of one system call to `sink`, each with the size and the mark of its datagrams. Returns their number.
    ///
    /// # Errors
    /// The host reports that nothing listens at the server's port, or the socket is broken.
    pub fn receive(
        &self,
        buffers: &mut [u8],
        mut sink: impl FnMut(&mut [u8], usize, Ecn),
    ) -> io::Result<usize> {
        let mut metas = [RecvMeta::default(); MESSAGES];
        let mut rooms = buffers.chunks_exact_mut(RECEIVE);
        let mut slices: [IoSliceMut<'_>; MESSAGES] =
            std::array::from_fn(|_| IoSliceMut::new(rooms.next().unwrap_or_default()));
        let count = match self.state.recv((&self.socket).into(), &mut slices, &mut metas) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            Err(error) => return Err(error),
        };
        let rooms = buffers.chunks_exact_mut(RECEIVE);
        for (room, meta) in rooms.zip(&metas).take(count) {
            let len = meta.len.min(RECEIVE);
            sink(&mut room[..len], meta.stride.max(1), mark_of(meta.ecn));
        }
        Ok(count)
    }

    /// Sends the bytes as datagrams of `size` with this mark, of which the last may be shorter.
    ///
    /// # Errors
    /// The server's port is closed or out of reach, as the host reports.
    pub fn send(&mut self, bytes: &[u8], size: usize, mark: Ecn) -> io::Result<Sent> {
        let result = self.attempt(bytes, Some(size).filter(|size| *size < bytes.len()), mark);
        match result {
            Err(error) if bytes.len() > size && !is_final(&error) => {
                // The way out may lack GSO; the state knows from now on.
                let mut sent = Sent::Yes;
                for (index, datagram) in bytes.chunks(size).enumerate() {
                    match self.attempt(datagram, None, mark) {
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {
                            self.unsent = Some((bytes[index * size..].to_vec(), size, mark));
                            return Ok(Sent::Blocked);
                        }
                        Err(error) if is_final(&error) => return Err(error),
                        Err(error) if is_too_big(&error) => sent = Sent::TooBig(datagram.len()),
                        _ => {}
                    }
                }
                Ok(sent)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.unsent = Some((bytes.to_vec(), size, mark));
                Ok(Sent::Blocked)
            }
            Err(error) if is_final(&error) => Err(error),
            Err(error) if is_too_big(&error) => Ok(Sent::TooBig(bytes.len())),
            // The transport sends the content again.
            Err(_) | Ok(()) => Ok(Sent::Yes),
        }
    }

    /// Sends the batch that found no room before, if there is one.
    ///
    /// # Errors
    /// As of [`BatchSocket::send`].
    pub fn send_again(&mut self) -> io::Result<Sent> {
        match self.unsent.take() {
            Some((bytes, size, mark)) => self.send(&bytes, size, mark),
            None => Ok(Sent::Yes),
        }
    }

    fn attempt(&self, bytes: &[u8], segment: Option<usize>, mark: Ecn) -> io::Result<()> {
        let transmit = Transmit {
            destination: self.peer,
            ecn: EcnCodepoint::from_bits(mark as u8),
            contents: bytes,
            segment_size: segment,
            src_ip: None,
        };
        self.state.try_send((&self.socket).into(), &transmit)
    }
}

/// Returns the mark that the kernel has read from the header of a datagram.
fn mark_of(codepoint: Option<EcnCodepoint>) -> Ecn {
    codepoint.map_or(Ecn::NotCapable, |codepoint| Ecn::from_bits(codepoint as u8))
}

/// Returns whether an error says that the server cannot be reached.
fn is_final(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused
            | ErrorKind::NetworkUnreachable
            | ErrorKind::HostUnreachable
            | ErrorKind::PermissionDenied
            | ErrorKind::NetworkDown
    )
}

fn is_too_big(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::MSGSIZE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (BatchSocket, UdpSocket) {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = BatchSocket::connect(server.local_addr().unwrap(), None).unwrap();
        (socket, server)
    }

    #[test]
    fn a_batch_arrives_as_datagrams_with_and_without_gso() {
        let (mut socket, server) = pair();
        let bytes: Vec<u8> = (0..3100u16).map(|i| i.to_le_bytes()[0]).collect();
        let mut datagram = [0; 4096];
        for size in [1200, 4000] {
            assert_eq!(socket.send(&bytes, size, Ecn::NotCapable).unwrap(), Sent::Yes);
            for expected in bytes.chunks(size) {
                let len = server.recv(&mut datagram).unwrap();
                assert_eq!(&datagram[..len], expected);
            }
        }
    }

    #[test]
    fn datagrams_that_are_too_big_are_reported() {
        let (mut socket, _server) = pair();
        // One byte more than IPv4 carries.
        let sent = socket.send(&[0; BATCH + 1], BATCH + 1, Ecn::NotCapable).unwrap();
        assert_eq!(sent, Sent::TooBig(BATCH + 1));
    }

    #[test]
    fn datagrams_are_received_in_order_also_empty_ones() {
        let (socket, server) = pair();
        let sent: [&[u8]; 4] = [b"one", b"", b"two", b"three"];
        for datagram in sent {
            server.send_to(datagram, socket.local).unwrap();
        }
        let mut buffers = Buffers::default();
        let mut received = Vec::new();
        while received.len() < sent.len() {
            let sink = |bytes: &mut [u8], size: usize, _| {
                if bytes.is_empty() {
                    received.push(Vec::new());
                }
                received.extend(bytes.chunks(size).map(<[u8]>::to_vec));
            };
            socket.receive(&mut buffers.receive, sink).unwrap();
        }
        assert_eq!(received, sent);
        let none = |_: &mut [u8], _, _| panic!("there is nothing more");
        assert_eq!(socket.receive(&mut buffers.receive, none).unwrap(), 0);
    }

    #[test]
    fn a_closed_port_is_reported() {
        let (mut socket, server) = pair();
        drop(server);
        let refused = (0..1000).any(|_| {
            let sent = socket.send(b"x", 1, Ecn::NotCapable).err();
            let received = socket.receive(&mut Buffers::default().receive, |_, _, _| ()).err();
            sent.or(received).is_some_and(|error| error.kind() == ErrorKind::ConnectionRefused)
        });
        assert!(refused);
    }
}
