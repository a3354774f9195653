//! Ports for servers that must have the same one again, or be told theirs.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

/// First port, and number of ports, below those that the system gives to connections: such a one would take a port away.
const PORTS: (u16, u16) = (20_000, 12_000);

/// Returns a socket of UDP at 127.0.0.1 whose port is free over TCP, too. No two calls return the same port.
pub(crate) fn free() -> UdpSocket {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let (first, count) = PORTS;
    let ports = std::iter::repeat_with(|| first + TAKEN.fetch_add(1, Ordering::Relaxed) % count);
    let at = |port| (Ipv4Addr::LOCALHOST, port);
    let mut free = { ports.take(count.into()) }
        .filter(|port| TcpListener::bind(at(*port)).is_ok())
        .filter_map(|port| UdpSocket::bind(at(port)).ok());
    free.next().unwrap()
}
