//! Sockets that a service manager passed (LISTEN_FDS, sd_listen_fds(3)), or the process that this one takes over from.

#![expect(unsafe_code, reason = "descriptors come as numbers")]

use std::fmt::{self, Display};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::fcntl_dupfd_cloexec;
use sluicegate_config::{Backend, Config, Listener};
use socket2::{Protocol, SockAddr, SockRef, Socket, Type};
use thiserror::Error;

use crate::handover::SocketKind;

/// Sockets that a service manager passed. They stay open as long as the process, because the manager keeps them open, too: a reload may
/// remove their listener, and a later one add it again.
#[derive(Debug, Default)]
pub(super) struct Passed {
    sockets: Vec<PassedSocket>,
    /// Those of the process before.
    handed_over: Vec<HandedSocket>,
}

/// A socket of the process before.
#[derive(Debug)]
pub(super) struct HandedSocket {
    pub(super) kind: SocketKind,
    /// Name of its listener.
    pub(super) listener: String,
    /// Address in the configuration of that process.
    pub(super) configured: SocketAddr,
    pub(super) socket: OwnedFd,
}

impl HandedSocket {
    fn is_of(&self, kind: SocketKind, listener: &str, address: SocketAddr) -> bool {
        let socket = SockRef::from(&self.socket);
        let local = || socket.local_addr().ok()?.as_socket();
        self.kind == kind
            && self.listener == listener
            && (self.configured == address || local() == Some(address))
    }
}

/// A passed socket, with its address.
#[derive(Debug)]
pub(super) struct PassedSocket {
    kind: Kind,
    address: SockAddr,
    socket: Socket,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Udp,
    /// TCP, listening.
    Tcp,
    /// A connection of TCP.
    Connection,
    Other,
}

impl Kind {
    fn of(socket: &Socket) -> io::Result<Kind> {
        let (kind, protocol) = (socket.r#type()?, socket.protocol()?);
        Ok(match (kind, protocol) {
            (Type::DGRAM, Some(Protocol::UDP)) => Kind::Udp,
            (Type::STREAM, Some(Protocol::TCP | Protocol::MPTCP)) if socket.is_listener()? => {
                Kind::Tcp
            }
            (Type::STREAM, Some(Protocol::TCP | Protocol::MPTCP)) => Kind::Connection,
            _ => Kind::Other,
        })
    }
}

/// Says which keys could name the socket.
impl Display for PassedSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (protocol, keys) = match self.kind {
            Kind::Udp => ("UDP", "`address` of a [[listener]], unless its group is on a DPDK port"),
            Kind::Tcp => (
                "TCP",
                "`address` of a [[listener]] with `tcp`, `http_address` of one, or `admin.address`",
            ),
            Kind::Connection => ("TCP", "none, because it does not listen: set `Accept=no`"),
            Kind::Other => ("another protocol", "none"),
        };
        match (self.address.as_socket(), self.address.as_pathname()) {
            (Some(address), _) => write!(f, "{address} of {protocol} (keys: {keys})"),
            (None, Some(path)) => write!(f, "{} of {protocol} (keys: {keys})", path.display()),
            (None, None) => write!(f, "one of {protocol} (keys: {keys})"),
        }
    }
}

impl Passed {
    /// Returns the sockets that were passed to this process; `None` if there are none, or one of them is not open.
    ///
    /// # Errors
    /// There is no descriptor for them.
    pub(super) fn find() -> Result<Option<Passed>, PassedError> {
        let Some(fds) = sd_notify::listen_fds().ok().filter(|fds| fds.len() > 0) else {
            return Ok(None);
        };
        // SAFETY: `listen_fds` has just set FD_CLOEXEC on each, so each is open, and nothing else in this process uses its number.
        Passed::duplicate(fds.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) })).map(Some)
    }

    /// Duplicates the descriptors that are sockets.
    fn duplicate<'a>(fds: impl IntoIterator<Item = BorrowedFd<'a>>) -> Result<Passed, PassedError> {
        let mut sockets = Vec::new();
        for fd in fds {
            let owned = fcntl_dupfd_cloexec(fd, 0);
            let socket = Socket::from(owned.map_err(|error| PassedError::Duplicate(error.into()))?);
            // A file or a pipe has no kind.
            if let (Ok(kind), Ok(address)) = (Kind::of(&socket), socket.local_addr()) {
                sockets.push(PassedSocket { kind, address, socket });
            }
        }
        Ok(Passed { sockets, handed_over: Vec::new() })
    }

    /// Takes the sockets of the process before.
    pub(super) fn handed_over(sockets: Vec<HandedSocket>) -> Passed {
        Passed { sockets: Vec::new(), handed_over: sockets }
    }

    /// Returns whether they are those of the process before, which serves until this one does.
    pub(super) fn is_of_the_process_before(&self) -> bool {
        !self.handed_over.is_empty()
    }

    /// Returns other descriptors of those that the process before has handed over, in their order; none if it has not.
    fn of_the_process_before(
        &self,
        kind: SocketKind,
        listener: &str,
        address: SocketAddr,
    ) -> Result<Vec<OwnedFd>, PassedError> {
        let fits = |one: &&HandedSocket| one.is_of(kind, listener, address);
        let sockets = self.handed_over.iter().filter(fits);
        let sockets = sockets.map(|one| one.socket.try_clone().map_err(PassedError::Duplicate));
        sockets.collect()
    }

    /// Returns the UDP sockets of a listener that are bound to an address.
    ///
    /// # Errors
    /// There is no descriptor for them.
    pub(super) fn udp(
        &self,
        listener: &str,
        address: SocketAddr,
    ) -> Result<Vec<OwnedFd>, PassedError> {
        let before = self.of_the_process_before(SocketKind::Udp, listener, address)?;
        if !before.is_empty() {
            return Ok(before);
        }
        let sockets = self.at(Kind::Udp, address);
        sockets.map(|socket| Ok(duplicate(socket)?.into())).collect()
    }

    /// Returns a TCP socket for each worker; none if no socket listens at the address. Where there are fewer than workers, some
    /// accept from the same queue: a further socket of SO_REUSEPORT would need the user of the service manager, and when a worker
    /// closed it, the connections in its queue would be reset.
    ///
    /// # Errors
    /// A service manager passed more than workers, so nobody would accept from one, or there is no descriptor for them.
    pub(super) fn tcp(
        &self,
        listener: &str,
        address: SocketAddr,
        workers: usize,
    ) -> Result<Vec<TcpListener>, PassedError> {
        let mut before = self.of_the_process_before(SocketKind::Tcp, listener, address)?;
        if !before.is_empty() {
            for index in 0..workers.saturating_sub(before.len()) {
                before.push(before[index].try_clone().map_err(PassedError::Duplicate)?);
            }
            return Ok(before.into_iter().map(TcpListener::from).collect());
        }
        let sockets: Vec<&Socket> = self.at(Kind::Tcp, address).collect();
        if sockets.len() > workers {
            return Err(PassedError::Surplus { address, passed: sockets.len(), most: workers });
        }
        let sockets = sockets.into_iter().cycle().take(workers);
        sockets.map(|socket| Ok(duplicate(socket)?.into())).collect()
    }

    /// Returns the socket of the admin address.
    ///
    /// # Errors
    /// There is no descriptor for it.
    pub(super) fn admin(&self, address: SocketAddr) -> Result<Option<TcpListener>, PassedError> {
        let before = self.of_the_process_before(SocketKind::Admin, "", address)?;
        match before.into_iter().next() {
            Some(socket) => Ok(Some(socket.into())),
            None => Ok(self.tcp("", address, 1)?.pop()),
        }
    }

    /// Checks that a configuration uses every socket, and each for one address family.
    ///
    /// # Errors
    /// It does not use one, so clients would wait there for ever; or one takes IPv4 besides IPv6.
    pub(super) fn check(&self, config: &Config) -> Result<(), PassedError> {
        let dual = self.sockets.iter().find(|one| {
            one.address.is_ipv6()
                && one.kind != Kind::Other
                && matches!(one.socket.only_v6(), Ok(false))
        });
        if let Some(address) = dual.and_then(|one| one.address.as_socket()) {
            return Err(PassedError::BothFamilies { address });
        }
        let mut before = self.handed_over.iter();
        if let Some(one) = before.find(|one| !is_kept(one, config)) {
            let (listener, address) = (one.listener.clone(), one.configured);
            return Err(PassedError::Removed { listener, address });
        }
        let unused: Vec<String> = self.unused(config).map(ToString::to_string).collect();
        if unused.is_empty() {
            return Ok(());
        }
        Err(PassedError::Unused { sockets: unused.join(", ") })
    }

    /// Returns the sockets that a configuration does not use.
    pub(super) fn unused(&self, config: &Config) -> impl Iterator<Item = &PassedSocket> {
        self.sockets.iter().filter(|socket| !is_used(socket, config))
    }

    fn at(&self, kind: Kind, address: SocketAddr) -> impl Iterator<Item = &Socket> {
        let fits =
            move |one: &&PassedSocket| one.kind == kind && one.address.as_socket() == Some(address);
        self.sockets.iter().filter(fits).map(|one| &one.socket)
    }
}

/// Returns whether a configuration has the listener of a socket that was handed over, at the same address. The admin address may change.
fn is_kept(one: &HandedSocket, config: &Config) -> bool {
    one.kind == SocketKind::Admin
        || config.listeners.iter().any(|listener| {
            let addresses = listener.addresses.iter().chain(&listener.http_addresses);
            addresses.into_iter().any(|address| one.is_of(one.kind, &listener.name, *address))
        })
}

fn duplicate(socket: &Socket) -> Result<Socket, PassedError> {
    let duplicated = socket.try_clone().map_err(PassedError::Duplicate)?;
    duplicated.set_nonblocking(true).map_err(PassedError::Duplicate)?;
    Ok(duplicated)
}

fn is_used(socket: &PassedSocket, config: &Config) -> bool {
    let Some(address) = socket.address.as_socket() else {
        return false;
    };
    let on_port = |listener: &Listener| {
        let mut groups = config.groups.iter();
        groups.any(|group| group.name == listener.group && group.backend == Backend::Dpdk)
    };
    let mut listeners = config.listeners.iter();
    match socket.kind {
        Kind::Udp => listeners.any(|l| l.addresses.contains(&address) && !on_port(l)),
        Kind::Tcp => {
            config.admin.address == Some(address)
                || listeners.any(|l| {
                    l.http_addresses.contains(&address) || l.tcp && l.addresses.contains(&address)
                })
        }
        Kind::Connection | Kind::Other => false,
    }
}

/// Error of taking over the sockets that a service manager passed.
#[derive(Debug, Error)]
pub enum PassedError {
    /// The configuration does not use some sockets.
    #[error(
        "the configuration does not use all sockets that the service manager passed: {sockets}; name the address in the configuration, \
         or remove it from the socket unit"
    )]
    Unused {
        /// Addresses, with the keys that could name them.
        sockets: String,
    },
    /// An address has more sockets than workers.
    #[error(
        "the service manager passed {passed} TCP sockets for {address}, and at most {most} would be used; remove the others from the \
         socket unit"
    )]
    Surplus {
        /// Address of the sockets.
        address: SocketAddr,
        /// Number of the sockets.
        passed: usize,
        /// Number of the threads that accept there.
        most: usize,
    },
    /// A socket of IPv6 takes IPv4, too, so the address of IPv4 beside it cannot be bound.
    #[error(
        "the service manager passed {address} for IPv4 and IPv6 together; set `BindIPv6Only=ipv6-only` in the socket unit, and name each \
         address"
    )]
    BothFamilies {
        /// Address of the socket.
        address: SocketAddr,
    },
    /// The configuration lacks a listener of the process before.
    #[error(
        "the running server has a listener `{listener}` at {address}, and this configuration has not: have it reload the configuration \
         first, then upgrade"
    )]
    Removed {
        /// Name of the listener.
        listener: String,
        /// Its address.
        address: SocketAddr,
    },
    /// A socket cannot be duplicated.
    #[error("cannot duplicate a socket that was passed: {0}")]
    Duplicate(#[source] io::Error),
}

#[cfg(test)]
mod tests {
    use std::net::{TcpStream, UdpSocket};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixListener;

    use super::*;

    const LOCAL: &str = "127.0.0.1:0";

    /// Returns a configuration with a listener of these keys, and further tables.
    fn config(keys: &str, tables: &str) -> Config {
        let registry = sluicegate_cc::Registry::builtin();
        let listener = "[[listener]]\nname = \"a\"\ntls = \"self-signed\"\n";
        Config::from_toml("test.toml", &format!("{listener}{keys}\n{tables}"), &registry).unwrap()
    }

    #[test]
    fn sockets_go_to_their_protocol_and_address() {
        let udp = UdpSocket::bind(LOCAL).unwrap();
        let at = udp.local_addr().unwrap();
        let tcp = TcpListener::bind(LOCAL).unwrap();
        let tcp_at = tcp.local_addr().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        let passed = Passed::duplicate([udp.as_fd(), tcp.as_fd(), file.as_fd()]).unwrap();
        drop((udp, tcp));
        assert_eq!(passed.udp("a", at).unwrap().len(), 1);
        assert_eq!(passed.udp("a", at).unwrap().len(), 1, "a later reload takes it again");
        let elsewhere = "127.0.0.1:1".parse().unwrap();
        assert!(passed.udp("a", elsewhere).unwrap().is_empty());
        assert!(passed.tcp("a", elsewhere, 1).unwrap().is_empty());
        let shared = passed.tcp("a", tcp_at, 3).unwrap();
        assert_eq!(shared.len(), 3);
        assert!(shared.iter().all(|socket| socket.local_addr().unwrap() == tcp_at));
        // Each accepts what waits in the queue, also once another is closed.
        let mut shared = shared.into_iter();
        for _ in 0..3 {
            let client = TcpStream::connect(tcp_at).unwrap();
            let socket = shared.next().unwrap();
            socket.set_nonblocking(false).unwrap();
            let (_, peer) = socket.accept().unwrap();
            assert_eq!(peer, client.local_addr().unwrap());
        }
    }

    #[test]
    fn a_tcp_socket_that_no_worker_would_accept_from_is_refused() {
        let tcp = TcpListener::bind(LOCAL).unwrap();
        let passed = Passed::duplicate([tcp.as_fd(), tcp.as_fd()]).unwrap();
        let at = tcp.local_addr().unwrap();
        assert_eq!(passed.tcp("a", at, 2).unwrap().len(), 2);
        let error = passed.tcp("a", at, 1).unwrap_err().to_string();
        assert!(error.contains("passed 2 TCP sockets") && error.contains("at most 1"), "{error}");
    }

    #[test]
    fn a_socket_for_both_address_families_is_refused() {
        let socket = Socket::new(socket2::Domain::IPV6, Type::DGRAM, Some(Protocol::UDP)).unwrap();
        let bound = |only| {
            socket.set_only_v6(only).unwrap();
            Passed::duplicate([socket.as_fd()]).unwrap()
        };
        let (both, one) = (bound(false), config("address = \"[::1]:1\"", ""));
        let error = both.check(&one).unwrap_err().to_string();
        assert!(error.contains("BindIPv6Only=ipv6-only"), "{error}");
        let error = bound(true).check(&one).unwrap_err().to_string();
        assert!(error.contains("does not use"), "{error}");
    }

    #[test]
    fn a_socket_is_used_if_a_key_names_its_address() {
        let (udp, tcp) = (UdpSocket::bind(LOCAL).unwrap(), TcpListener::bind(LOCAL).unwrap());
        let (udp_at, tcp_at) = (udp.local_addr().unwrap(), tcp.local_addr().unwrap());
        let passed = Passed::duplicate([udp.as_fd(), tcp.as_fd()]).unwrap();
        let address = format!("address = [\"{udp_at}\", \"{tcp_at}\"]");
        passed.check(&config(&address, "")).unwrap();
        let port = format!("address = \"{udp_at}\"");
        passed.check(&config(&format!("{port}\nhttp_address = \"{tcp_at}\""), "")).unwrap();
        passed.check(&config(&port, &format!("[admin]\naddress = \"{tcp_at}\""))).unwrap();
        let error = passed.check(&config(&format!("{address}\ntcp = false"), "")).unwrap_err();
        let error = error.to_string();
        assert!(!error.contains(&udp_at.to_string()), "{error}");
        for part in [&*format!("{tcp_at} of TCP"), "`address`", "`http_address`", "`admin.address`"]
        {
            assert!(error.contains(part), "{error}");
        }
        let error = passed.check(&config("address = \"127.0.0.1:0\"", "")).unwrap_err().to_string();
        assert!(error.contains(&format!("{udp_at} of UDP (keys: `address`")), "{error}");
        assert!(error.contains(&format!("{tcp_at} of TCP")), "{error}");
    }

    #[test]
    fn sockets_that_no_key_can_name_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let unix = UnixListener::bind(&path).unwrap();
        let tcp = TcpListener::bind(LOCAL).unwrap();
        let _client = TcpStream::connect(tcp.local_addr().unwrap()).unwrap();
        let (connection, _) = tcp.accept().unwrap();
        let passed = Passed::duplicate([unix.as_fd(), connection.as_fd()]).unwrap();
        let at = connection.local_addr().unwrap();
        let error = passed.check(&config(&format!("address = \"{at}\""), "")).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
        assert!(error.contains(&at.to_string()) && error.contains("`Accept=no`"), "{error}");
    }
}
