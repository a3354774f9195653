//! Configuration of acquired sockets: options, offloads, steering.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use socket2::Socket;

use crate::acquire::Acquired;
use crate::control::{UDP_GRO, UDP_SEGMENT};
use crate::error::BindError;
use crate::initials::InitialFilter;
use crate::meta::ListenerId;
use crate::options::SocketOptions;
use crate::steering::Steering;
use crate::{initials, sys};

/// One worker's socket of one listener, ready for a driver.
#[derive(Debug)]
pub(crate) struct Binding {
    listener: ListenerId,
    local: SocketAddr,
    socket: Socket,
    gso: bool,
    gro: bool,
    busy_poll: u32,
}

impl Binding {
    pub(crate) fn listener(&self) -> ListenerId {
        self.listener
    }

    /// Returns another descriptor of the same socket.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { socket: self.socket.try_clone()?, ..*self })
    }

    /// Address it is bound to.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Returns the receive buffer that the kernel granted, bytes (0 where it does not say).
    pub(crate) fn receive_buffer(&self) -> usize {
        // The kernel doubles the value to account for its own overhead.
        self.socket.recv_buffer_size().map_or(0, |bytes| bytes / 2)
    }

    /// Returns the send buffer that the kernel granted, bytes (0 where it does not say).
    pub(crate) fn send_buffer(&self) -> usize {
        self.socket.send_buffer_size().map_or(0, |bytes| bytes / 2)
    }

    /// Returns whether the kernel can send several datagrams at once.
    pub(crate) fn gso(&self) -> bool {
        self.gso
    }

    /// Returns the time for which a wait is to poll the network device's queue, µs; 0 if not at all.
    pub(crate) fn busy_poll(&self) -> u32 {
        self.busy_poll
    }

    /// Returns whether the kernel may deliver several datagrams at once.
    pub(crate) fn gro(&self) -> bool {
        self.gro
    }
}

impl AsFd for Binding {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sets options and offloads of a listener's sockets, and the program in the kernel that steers datagrams to workers. The
/// result is in worker order.
pub(crate) fn configure(
    acquired: Acquired,
    steering: Steering,
    options: &SocketOptions,
) -> Result<Vec<Binding>, BindError> {
    let Acquired { listener, local, sockets, steers, .. } = acquired;
    let os = |what| move |source| BindError::new(local, what, source);
    let workers = u32::try_from(sockets.len()).unwrap_or(u32::MAX);
    let mut bindings = Vec::with_capacity(sockets.len());
    for socket in sockets {
        ask_for_meta(&socket, local).map_err(os("ask for addresses and ECN"))?;
        resize(&socket, options);
        let fd = socket.as_fd();
        // Counted where the kernel can.
        let _ = sys::set_int(fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
        // A process that had the socket earlier may have ended during a flood.
        let _ = sys::detach_filter(fd);
        let gro = options.gro && sys::set_int(fd, libc::SOL_UDP, UDP_GRO, 1).is_ok();
        let gso = options.gso && sys::set_int(fd, libc::SOL_UDP, UDP_SEGMENT, 0).is_ok();
        // No call relies on it, and io_uring would pass on EAGAIN instead of waiting for datagrams.
        socket.set_nonblocking(false).map_err(os("O_NONBLOCK"))?;
        bindings.push(Binding { listener, local, socket, gso, gro, busy_poll: options.busy_poll });
    }
    if let (true, Some(first)) = (steers && workers > 1, bindings.first()) {
        sys::attach_reuseport_cbpf(first.as_fd(), &steering.program(workers))
            .map_err(os("attach the steering program"))?;
    }
    Ok(bindings)
}

/// Has the kernel drop Initial packets in front of all sockets of a driver; see
/// [`Dataplane::filter_initials`](crate::Dataplane::filter_initials).
pub(crate) fn filter_initials<'a>(
    bindings: impl Iterator<Item = &'a Binding> + Clone,
    filter: Option<&InitialFilter>,
) -> io::Result<()> {
    let Some(filter) = filter else {
        // All of them, also if one fails.
        let detached = bindings.map(|binding| sys::detach_filter(binding.as_fd()));
        return detached.fold(Ok(()), io::Result::and);
    };
    let program = initials::program(filter);
    let attach = |binding: &Binding| sys::attach_filter(binding.as_fd(), &program);
    let attached = bindings.clone().try_for_each(attach);
    if attached.is_err() {
        for binding in bindings {
            let _ = sys::detach_filter(binding.as_fd());
        }
    }
    attached
}

/// Requests destination address and ECN with every datagram, and no fragmentation, whose size QUIC probes for itself (RFC 9000 §14).
fn ask_for_meta(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    let fd = socket.as_fd();
    if address.is_ipv4() {
        sys::set_int(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?;
        sys::set_int(fd, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
        sys::set_int(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)
    } else {
        sys::set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
        sys::set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        sys::set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)
    }
}

/// Sets the kernel's buffers as large as asked for, or as the host allows; a smaller one is no reason not to start.
fn resize(socket: &Socket, options: &SocketOptions) {
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
