//! Sockets of a listener, one per worker.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, Protocol, Socket, Type};

use crate::control::{UDP_GRO, UDP_SEGMENT};
use crate::{BindError, ListenerId, SocketOptions, steering, sys};

/// Bind order is worker order, and the steering byte counts no further.
const MAX_WORKERS: usize = 256;

/// One worker's socket of one listener, ready for a driver.
#[derive(Debug)]
pub struct Binding {
    listener: ListenerId,
    local: SocketAddr,
    socket: Socket,
    gso: bool,
    gro: bool,
}

impl Binding {
    /// As given to [`bind_group`].
    #[must_use]
    pub fn listener(&self) -> ListenerId {
        self.listener
    }

    /// Where it is bound, with the port that the kernel chose if 0 was asked for.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// What the kernel granted of [`SocketOptions::receive_buffer`], bytes (0 where it does not say).
    #[must_use]
    pub fn receive_buffer(&self) -> usize {
        // The kernel doubles the value to account for its own overhead.
        self.socket.recv_buffer_size().map_or(0, |bytes| bytes / 2)
    }

    /// Several datagrams can be sent at once.
    pub(crate) fn gso(&self) -> bool {
        self.gso
    }

    /// Several datagrams may be received at once.
    pub(crate) fn gro(&self) -> bool {
        self.gro
    }

    pub(crate) fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.socket.set_nonblocking(nonblocking)
    }
}

impl AsFd for Binding {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Binds `listener` to `address` for `workers` workers; the answer is in worker order.
///
/// To be called by one thread for a whole group. Several workers share the port by SO_REUSEPORT, and a program in the
/// kernel steers by the worker byte of the QUIC connection ID (byte 0 of the IDs a server hands out); whatever carries
/// none is spread by a hash of addresses and ports. Port 0 lets the kernel choose one for all. IPv6 sockets take no
/// IPv4, so that both wildcards can be listed.
///
/// # Errors
/// The address is taken (even by somebody who would share it), not here or not allowed; a socket option that
/// correctness depends on is missing; `workers` is 0 or above 256.
pub fn bind_group(
    listener: ListenerId,
    address: SocketAddr,
    workers: usize,
    options: &SocketOptions,
) -> Result<Vec<Binding>, BindError> {
    if workers == 0 || workers > MAX_WORKERS {
        return Err(BindError::Workers { address, workers });
    }
    // The first is bound without SO_REUSEPORT: it fails where anybody else has the port, and port 0 gets a free one
    // rather than a shared one. It opens up to the others afterwards.
    let first = bind(listener, address, false, options)?;
    let os = |what| move |source| BindError::new(address, what, source);
    if workers > 1 {
        first
            .socket
            .set_reuse_port(true)
            .map_err(os("SO_REUSEPORT"))?;
    }
    let chosen = first.local;
    let mut group = Vec::with_capacity(workers);
    group.push(first);
    while group.len() < workers {
        group.push(bind(listener, chosen, true, options)?);
    }
    if workers > 1 {
        let count = u32::try_from(workers).unwrap_or(u32::MAX);
        sys::attach_reuseport_cbpf(group[0].as_fd(), &steering::program(count))
            .map_err(os("attach the steering program"))?;
    }
    Ok(group)
}

fn bind(
    listener: ListenerId,
    address: SocketAddr,
    shared: bool,
    options: &SocketOptions,
) -> Result<Binding, BindError> {
    let os = |what| move |source| BindError::new(address, what, source);
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP)).map_err(os("socket"))?;
    if address.is_ipv6() {
        socket.set_only_v6(true).map_err(os("IPV6_V6ONLY"))?;
    }
    if shared {
        socket.set_reuse_port(true).map_err(os("SO_REUSEPORT"))?;
    }
    ask_for_meta(&socket, address).map_err(os("ask for addresses and ECN"))?;
    size(&socket, options);
    let gro = options.gro && sys::set_int(socket.as_fd(), libc::SOL_UDP, UDP_GRO, 1).is_ok();
    let gso = options.gso && sys::set_int(socket.as_fd(), libc::SOL_UDP, UDP_SEGMENT, 0).is_ok();
    socket.set_nonblocking(true).map_err(os("O_NONBLOCK"))?;
    socket.bind(&address.into()).map_err(os("bind"))?;
    let local = socket.local_addr().map_err(os("getsockname"))?;
    Ok(Binding {
        listener,
        local: local.as_socket().unwrap_or(address),
        socket,
        gso,
        gro,
    })
}

/// Destination address and ECN with every datagram; no fragmentation, whose size QUIC probes for itself (RFC 9000 §14).
fn ask_for_meta(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    let fd = socket.as_fd();
    if address.is_ipv4() {
        sys::set_int(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?;
        sys::set_int(fd, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
        sys::set_int(
            fd,
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            libc::IP_PMTUDISC_PROBE,
        )
    } else {
        sys::set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
        sys::set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        sys::set_int(
            fd,
            libc::IPPROTO_IPV6,
            libc::IPV6_MTU_DISCOVER,
            libc::IPV6_PMTUDISC_PROBE,
        )
    }
}

/// As large as asked for, or as the host allows; a smaller buffer is no reason not to start.
fn size(socket: &Socket, options: &SocketOptions) {
    let fd = socket.as_fd();
    let bytes = |value: usize| i32::try_from(value).unwrap_or(i32::MAX);
    let receive = bytes(options.receive_buffer);
    if sys::set_int(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, receive).is_err() {
        let _ = socket.set_recv_buffer_size(options.receive_buffer);
    }
    let send = bytes(options.send_buffer);
    if sys::set_int(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, send).is_err() {
        let _ = socket.set_send_buffer_size(options.send_buffer);
    }
    if options.busy_poll > 0 {
        let _ = socket.set_busy_poll(options.busy_poll);
    }
}
