//! UDP sockets, with GSO, GRO and ECN.

use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use rustix::io::Errno;
use socket2::{Domain, Protocol, Type};

use crate::counters::Counters;

/// Size of a receive buffer: no batch that GRO makes is larger.
const RECEIVE: usize = 64 << 10;
/// Receive buffers, of one system call.
const MESSAGES: usize = 8;
/// Largest UDP payload over IPv4; the kernel's bound for a GSO batch as a whole.
const BATCH: usize = 65_507;
/// The kernel's buffers to ask for; it grants what `net.core.rmem_max` and `wmem_max` allow.
const LISTENER_BUFFER: usize = 8 << 20;
const FLOW_BUFFER: usize = 256 << 10;

/// Datagrams of one system call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReceiveOutcome {
    /// Whether more may be there.
    pub(crate) is_full: bool,
    /// Datagrams of others than the peer.
    pub(crate) foreign: u64,
}

/// Room for the messages of one system call.
pub(crate) struct ReceiveRoom(Vec<u8>);

impl ReceiveRoom {
    pub(crate) fn new() -> ReceiveRoom {
        ReceiveRoom(vec![0; MESSAGES * RECEIVE])
    }
}

/// Datagrams of equal size, of which the last may be shorter, and the way they came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceivedBatch<'a> {
    pub(crate) bytes: &'a [u8],
    /// Size of each datagram, 1 at least.
    pub(crate) size: usize,
    pub(crate) ecn: Option<EcnCodepoint>,
    /// Sender.
    pub(crate) peer: SocketAddr,
    /// Destination, if the system says so.
    pub(crate) local: Option<IpAddr>,
}

impl ReceivedBatch<'_> {
    /// Returns the number of datagrams.
    pub(crate) fn datagrams(&self) -> u64 {
        self.bytes.len().div_ceil(self.size) as u64
    }
}

/// Addresses of what is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) to: SocketAddr,
    /// Source address; `None` lets the system choose.
    pub(crate) from: Option<IpAddr>,
}

/// A socket that does not wait.
pub(crate) struct DatagramSocket {
    socket: UdpSocket,
    /// Whom it is connected to.
    peer: Option<SocketAddr>,
    state: UdpSocketState,
}

impl AsFd for DatagramSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl DatagramSocket {
    /// Opens a socket at an address. One of IPv6 is for IPv6 alone.
    ///
    /// # Errors
    /// The address is in use, not of this host, or not allowed.
    pub(crate) fn listen(address: SocketAddr) -> io::Result<DatagramSocket> {
        let socket =
            socket2::Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.bind(&address.into())?;
        DatagramSocket::new(socket.into(), None, LISTENER_BUFFER)
    }

    /// Opens a socket to a server, at a port that the system chooses.
    ///
    /// # Errors
    /// There is no route, no port or no descriptor left.
    pub(crate) fn connect(server: SocketAddr) -> io::Result<DatagramSocket> {
        let socket =
            socket2::Socket::new(Domain::for_address(server), Type::DGRAM, Some(Protocol::UDP))?;
        socket.connect(&server.into())?;
        DatagramSocket::new(socket.into(), Some(server), FLOW_BUFFER)
    }

    fn new(
        socket: UdpSocket,
        peer: Option<SocketAddr>,
        buffer: usize,
    ) -> io::Result<DatagramSocket> {
        let state = UdpSocketState::new((&socket).into())?;
        // What the kernel grants is enough to begin with.
        let _ = state.set_recv_buffer_size((&socket).into(), buffer);
        let _ = state.set_send_buffer_size((&socket).into(), buffer);
        Ok(DatagramSocket { socket, peer, state })
    }

    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Passes the messages of one system call to `sink`, of a connected socket those of the peer. The system gives the socket its port
    /// before it connects it, so those of others may arrive in between. An error is one of an earlier send, and reading it clears it.
    pub(crate) fn receive(
        &self,
        buffers: &mut ReceiveRoom,
        mut sink: impl FnMut(ReceivedBatch<'_>),
    ) -> ReceiveOutcome {
        let mut metas = [RecvMeta::default(); MESSAGES];
        let mut rooms = buffers.0.chunks_exact_mut(RECEIVE);
        let mut slices: [IoSliceMut<'_>; MESSAGES] =
            std::array::from_fn(|_| IoSliceMut::new(rooms.next().unwrap_or_default()));
        let Ok(count) = self.state.recv((&self.socket).into(), &mut slices, &mut metas) else {
            return ReceiveOutcome::default();
        };
        let mut received = ReceiveOutcome { is_full: count == MESSAGES, foreign: 0 };
        let rooms = buffers.0.chunks_exact(RECEIVE);
        for (room, meta) in rooms.zip(&metas).take(count) {
            let bytes = &room[..meta.len.min(RECEIVE)];
            let (ecn, peer, local) = (meta.ecn, meta.addr, meta.dst_ip);
            let batch = ReceivedBatch { bytes, size: meta.stride.max(1), ecn, peer, local };
            if self.peer.is_none_or(|known| (known.ip(), known.port()) == (peer.ip(), peer.port()))
            {
                sink(batch);
            } else {
                received.foreign += batch.datagrams();
            }
        }
        received
    }

    /// Sends datagrams as they were received. What the system does not take is dropped and counted, as a router does. Returns whether the
    /// socket is useless, as after its address has left the host.
    pub(crate) fn send(
        &mut self,
        datagrams: &ReceivedBatch<'_>,
        way: Way,
        counters: &mut Counters,
    ) -> bool {
        let (mut useless, mut invalid) = (false, false);
        let mut note = |error: &io::Error, batch: &[u8]| {
            useless |= is_lasting(error);
            invalid |=
                batch.len() <= datagrams.size && Errno::from_io_error(error) == Some(Errno::INVAL);
        };
        let size = datagrams.size;
        let most = self.state.max_gso_segments().min(BATCH / size).max(1);
        // An empty datagram is no piece of anything.
        for batch in datagrams.bytes.chunks(most * size) {
            let sent = self.attempt(batch, datagrams, way);
            let Err(error) = sent else { continue };
            let is_final = error.kind() == ErrorKind::WouldBlock || is_unreachable(&error);
            if batch.len() > size && !is_final {
                // The way may lack GSO, which the state then knows.
                for datagram in batch.chunks(size) {
                    if let Err(error) = self.attempt(datagram, datagrams, way) {
                        note(&error, datagram);
                        count(&error, 1, counters);
                    }
                }
            } else {
                note(&error, batch);
                count(&error, batch.len().div_ceil(size), counters);
            }
        }
        if invalid {
            self.renew();
        }
        useless
    }

    /// Forgets that the system has refused something as invalid. The state would take it for a lack of GSO and ECN from then on, though
    /// it may be the addresses of one datagram.
    fn renew(&mut self) {
        if let Ok(state) = UdpSocketState::new((&self.socket).into()) {
            self.state = state;
        }
    }

    /// Sends once more after an error: the system reports that of an earlier datagram, such as a port that was closed, in place of
    /// sending.
    fn attempt(&self, batch: &[u8], datagrams: &ReceivedBatch<'_>, way: Way) -> io::Result<()> {
        let transmit = Transmit {
            destination: way.to,
            ecn: datagrams.ecn,
            contents: batch,
            segment_size: Some(datagrams.size).filter(|size| *size < batch.len()),
            src_ip: way.from,
        };
        let send = || self.state.try_send((&self.socket).into(), &transmit);
        send().or_else(
            |error| {
                if error.kind() == ErrorKind::WouldBlock { Err(error) } else { send() }
            },
        )
    }
}

fn is_unreachable(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH)
    )
}

/// Returns whether an error that came twice is none of the moment, of the datagram, of the server or of a filter.
fn is_lasting(error: &io::Error) -> bool {
    !matches!(
        Errno::from_io_error(error),
        Some(Errno::AGAIN | Errno::NOBUFS | Errno::MSGSIZE | Errno::CONNREFUSED | Errno::PERM)
    )
}

fn count(error: &io::Error, datagrams: usize, counters: &mut Counters) {
    if error.kind() == ErrorKind::WouldBlock || Errno::from_io_error(error) == Some(Errno::NOBUFS) {
        counters.blocked += datagrams as u64;
    } else {
        counters.refused += datagrams as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const ANY: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

    fn received(bytes: &[u8], size: usize, to: SocketAddr) -> ReceivedBatch<'_> {
        ReceivedBatch { bytes, size, ecn: Some(EcnCodepoint::Ect1), peer: to, local: None }
    }

    #[test]
    fn batches_arrive_as_datagrams_with_their_marks() {
        let server = DatagramSocket::listen(ANY.into()).unwrap();
        let to = server.local_address().unwrap();
        let mut client = DatagramSocket::connect(to).unwrap();
        let bytes: Vec<u8> = (0..65_432u16).map(|number| number.to_le_bytes()[0]).collect();
        let mut counters = Counters::default();
        client.send(&received(&bytes, 1000, to), Way { to, from: None }, &mut counters);
        let (mut found, mut buffers) = (Vec::new(), ReceiveRoom::new());
        while found.len() < bytes.len() {
            server.receive(&mut buffers, |message| {
                assert_eq!(message.ecn, Some(EcnCodepoint::Ect1));
                assert_eq!(message.local, Some(Ipv4Addr::LOCALHOST.into()));
                assert_eq!(message.peer, client.local_address().unwrap());
                found.extend_from_slice(message.bytes);
            });
        }
        assert!(found == bytes);
        assert_eq!(counters, Counters::default());
    }

    #[test]
    fn what_came_before_the_socket_was_connected_is_not_of_the_server() {
        let server = UdpSocket::bind(ANY).unwrap();
        let peer = server.local_addr().unwrap();
        let socket = UdpSocket::bind(ANY).unwrap();
        let at = socket.local_addr().unwrap();
        UdpSocket::bind(ANY).unwrap().send_to(b"other", at).unwrap();
        socket.connect(peer).unwrap();
        server.send_to(b"server", at).unwrap();
        let socket = DatagramSocket::new(socket, Some(peer), FLOW_BUFFER).unwrap();
        let (mut found, mut buffers) = (Vec::new(), ReceiveRoom::new());
        let received = socket.receive(&mut buffers, |batch| found.push(batch.bytes.to_vec()));
        assert_eq!(received, ReceiveOutcome { is_full: false, foreign: 1 });
        assert_eq!(found, [b"server"]);
    }

    #[test]
    fn a_closed_port_costs_no_later_datagram() {
        let server = UdpSocket::bind(ANY).unwrap();
        let to = server.local_addr().unwrap();
        let mut client = DatagramSocket::connect(to).unwrap();
        drop(server);
        let mut counters = Counters::default();
        let mut send =
            || client.send(&received(b"x", 1, to), Way { to, from: None }, &mut counters);
        assert!(!send());
        let server = UdpSocket::bind(to).unwrap();
        assert!(!send());
        let mut room = [0; 8];
        assert_eq!(server.recv(&mut room).unwrap(), 1);
    }

    #[test]
    fn what_is_too_large_is_refused_and_counted() {
        let server = UdpSocket::bind(ANY).unwrap();
        let to = server.local_addr().unwrap();
        let mut client = DatagramSocket::connect(to).unwrap();
        let mut counters = Counters::default();
        let bytes = vec![0; BATCH + 1];
        let way = Way { to, from: None };
        assert!(!client.send(&received(&bytes, BATCH + 1, to), way, &mut counters));
        assert_eq!((counters.refused, counters.blocked), (1, 0));
    }

    #[test]
    fn an_address_that_cannot_be_sent_from_costs_later_batches_nothing() {
        let mut listener = DatagramSocket::listen(ANY.into()).unwrap();
        let to = UdpSocket::bind(ANY).unwrap().local_addr().unwrap();
        let before = listener.state.max_gso_segments();
        let way = Way { to, from: Some(Ipv4Addr::new(224, 0, 0, 1).into()) };
        let mut counters = Counters::default();
        listener.send(&received(b"xy", 1, to), way, &mut counters);
        assert_eq!(counters.refused, 2);
        assert_eq!(listener.state.max_gso_segments(), before);
    }

    #[test]
    fn a_socket_that_cannot_send_any_more_is_useless() {
        let server = UdpSocket::bind(ANY).unwrap();
        let to = server.local_addr().unwrap();
        let mut client = DatagramSocket::connect(to).unwrap();
        socket2::SockRef::from(&client.socket).shutdown(std::net::Shutdown::Write).unwrap();
        let way = Way { to, from: None };
        assert!(client.send(&received(b"x", 1, to), way, &mut Counters::default()));
        assert!([Errno::INVAL, Errno::NETUNREACH].iter().all(|errno| is_lasting(&(*errno).into())));
    }
}
