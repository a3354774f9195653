//! Questions to the host that only system calls answer, each asked as the server itself would.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Access, access};
use sluicegate_dataplane::{
    Acquired, Backend, BindError, Budget, Dataplane as _, DevicePortOptions, DriverOptions, Ecn,
    ListenerFacts, ListenerId, OpenError, PortError, Ports, SocketOptions, Steering, TxMeta,
};

use super::needs::ServedGroup;

/// Datagrams of an exchange with oneself.
const DATAGRAMS: usize = 8;
/// Payload of each, bytes.
const PAYLOAD: usize = 1200;
/// Waits for all of them, and the limit of each.
const WAITS: usize = 20;
const WAIT: Duration = Duration::from_millis(50);
const LISTENER: ListenerId = ListenerId(0);
/// Any free port of this host.
const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Counts of an exchange of datagrams with oneself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoopbackExchange {
    pub(super) sent: u64,
    /// Writes for them.
    pub(super) writes: u64,
    pub(super) received: u64,
    /// Reads for them.
    pub(super) reads: u64,
}

/// System calls that ask the host.
pub(crate) trait HostProbe {
    /// Opens the sockets of a group, on a free port of loopback.
    fn sockets(&self, options: &SocketOptions, workers: usize) -> Result<ListenerFacts, BindError>;
    /// Opens the `io_uring` of every worker of a group at the same time.
    fn rings(&self, group: &ServedGroup<'_>) -> Result<(), OpenError>;
    /// Sends some datagrams of one size to oneself, and receives them.
    fn exchange(&self) -> io::Result<LoopbackExchange>;
    /// Sends a batch by an interface, without a datagram leaving the host.
    fn batch(&self, interface: &str, address: IpAddr) -> io::Result<()>;
    /// Returns whether the card of an interface selects a queue by UDP ports, too.
    fn hashes_udp_ports(&self, interface: &str, is_ipv6: bool) -> io::Result<bool>;
    /// Returns the addresses of all interfaces that are up.
    fn addresses(&self) -> Vec<(String, IpAddr)>;
    /// Looks for what DPDK lacks.
    fn ports(&self, all: &[(&DevicePortOptions, usize)]) -> Result<(), PortError>;
    /// Returns the version of DPDK.
    fn port_library(&self) -> Option<String>;
    /// Looks for the rights that a device takes.
    fn port_rights(&self, options: &DevicePortOptions, workers: usize) -> Result<(), PortError>;
    /// Returns whether this process may write to a file.
    fn may_write(&self, path: &Path) -> bool;
}

/// The running kernel.
pub(crate) struct SystemProbe;

impl HostProbe for SystemProbe {
    fn sockets(&self, options: &SocketOptions, workers: usize) -> Result<ListenerFacts, BindError> {
        let opened = open(Backend::Mio, options, DriverOptions::default(), 1, workers)?;
        let facts = opened.listeners.into_iter().next();
        facts.ok_or(BindError::Inherited { reason: "there are none" })
    }

    fn rings(&self, group: &ServedGroup<'_>) -> Result<(), OpenError> {
        let (socket, driver) = (&group.group.socket, group.group.driver);
        let (listeners, workers) = (group.addresses.len(), group.cores.len());
        // Where sockets cannot be opened, another check says so.
        let Ok(opened) = open(Backend::IoUring, socket, driver, listeners, workers) else {
            return Ok(());
        };
        // All at a time, because limits are the process's.
        let drivers: Result<Vec<_>, OpenError> =
            opened.seeds.into_iter().map(|seed| seed.open()).collect();
        drivers.map(drop)
    }

    fn exchange(&self) -> io::Result<LoopbackExchange> {
        let (socket, driver) = (SocketOptions::default(), DriverOptions::default());
        let opened = open(Backend::Mio, &socket, driver, 1, 1).map_err(io::Error::other)?;
        let seed = opened.seeds.into_iter().next().ok_or(io::ErrorKind::NotFound)?;
        let own = opened.listeners.first().map(|facts| facts.address);
        let peer = own.ok_or(io::ErrorKind::NotFound)?;
        let mut driver = seed.open().map_err(io::Error::other)?.driver;
        let meta = TxMeta { peer, local: None, ecn: Ecn::NotCapable, departure: None };
        driver.transmit(Budget::UNLIMITED, |egress| {
            for _ in 0..DATAGRAMS {
                if let Ok(room) = egress.room(LISTENER, PAYLOAD) {
                    room.fill(0);
                    egress.commit(PAYLOAD, &meta);
                }
            }
        })?;
        let mut received = 0;
        for _ in 0..WAITS {
            driver.wait(Some(WAIT))?;
            received += driver.receive(Budget::UNLIMITED, |_, _| {})?;
            if received >= DATAGRAMS {
                break;
            }
        }
        let counted = driver.counters();
        Ok(LoopbackExchange {
            sent: counted.tx_datagrams,
            writes: counted.tx_messages,
            received: counted.rx_datagrams,
            reads: counted.rx_messages,
        })
    }

    fn batch(&self, interface: &str, address: IpAddr) -> io::Result<()> {
        sluicegate_dataplane::send_batch(interface, address)
    }

    fn hashes_udp_ports(&self, interface: &str, is_ipv6: bool) -> io::Result<bool> {
        sluicegate_dataplane::hashes_udp_ports(interface, is_ipv6)
    }

    fn addresses(&self) -> Vec<(String, IpAddr)> {
        sluicegate_dataplane::addresses()
    }

    fn ports(&self, all: &[(&DevicePortOptions, usize)]) -> Result<(), PortError> {
        Ports::examine(all)
    }

    fn port_library(&self) -> Option<String> {
        Ports::version()
    }

    fn port_rights(&self, options: &DevicePortOptions, workers: usize) -> Result<(), PortError> {
        Ports::rights(options, workers)
    }

    fn may_write(&self, path: &Path) -> bool {
        access(path, Access::WRITE_OK).is_ok()
    }
}

/// Opens a group with listeners on free ports of loopback.
fn open(
    backend: Backend,
    socket: &SocketOptions,
    driver: DriverOptions,
    listeners: usize,
    workers: usize,
) -> Result<sluicegate_dataplane::Group, BindError> {
    // As good as the server's own: the kernel is asked whether it takes such programs.
    let steering = Steering::ConnectionId { worker_at: 0, shortest: 8 };
    let ids = (0..u16::MAX).map(ListenerId).take(listeners);
    let acquired: Result<Vec<Acquired>, BindError> =
        ids.map(|id| Acquired::bind(id, LOOPBACK, workers)).collect();
    sluicegate_dataplane::open_group(backend, acquired?, workers, steering, socket, driver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_the_tests_is_asked() {
        let facts = SystemProbe.sockets(&SocketOptions::default(), 2).unwrap();
        assert!(facts.receive_buffer > 0 && facts.send_buffer > 0);
        let exchange = SystemProbe.exchange().unwrap();
        assert_eq!((exchange.sent, exchange.received), (8, 8));
        assert!(exchange.writes <= 8 && exchange.reads <= 8, "{exchange:?}");
        assert!(!SystemProbe.may_write(Path::new("/nowhere")));
    }
}
