//! Acquiring the sockets of a listener, new or inherited. `binding.rs` sets their options and steering afterwards.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use socket2::{Domain, Protocol, Socket, Type};

use crate::error::BindError;
use crate::meta::ListenerId;
use crate::steering::Steering;
use crate::sys;

/// Bind order is worker order, and one byte of a connection ID counts the workers.
const MAX_WORKERS: usize = 256;

/// Bound sockets of one listener, in worker order, at least one per worker, not yet configured.
#[derive(Debug)]
pub struct Acquired {
    pub(crate) listener: ListenerId,
    pub(crate) local: SocketAddr,
    pub(crate) sockets: Vec<Socket>,
    /// Index of the first of them in the group of SO_REUSEPORT.
    pub(crate) first: usize,
    /// Whether the kernel is to steer to them from the start: else another process reads, or has the same program in the kernel.
    pub(crate) steers: bool,
}

/// The sockets that a process takes over for a listener, with those that it has bound behind them, before it reads them.
#[derive(Debug)]
pub struct TakenSockets {
    listener: ListenerId,
    one: OwnedFd,
    all: u32,
    steering: Steering,
    added: Vec<OwnedFd>,
}

impl TakenSockets {
    /// Returns the listener that they belong to.
    #[must_use]
    pub fn listener(&self) -> ListenerId {
        self.listener
    }

    /// Returns the number of all sockets.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.all
    }

    /// Returns other descriptors of those that were bound behind those of before.
    #[must_use]
    pub fn added(&self) -> &[OwnedFd] {
        &self.added
    }

    /// Has the kernel steer to all of them, from the next datagram on.
    ///
    /// # Errors
    /// The kernel takes no program.
    pub fn steer(&self) -> io::Result<()> {
        if self.all == 1 {
            return Ok(());
        }
        sys::attach_reuseport_cbpf(self.one.as_fd(), &self.steering.program(self.all))
    }
}

impl Acquired {
    /// Binds new sockets to `address` for `workers` workers.
    ///
    /// Several share the port by SO_REUSEPORT. Port 0 lets the kernel choose one for all. IPv6 sockets take no IPv4, so
    /// that both wildcards can be listed.
    ///
    /// # Errors
    /// The address is taken (even by a process that would share it), not here or not allowed; `workers` is 0 or above 256.
    pub fn bind(
        listener: ListenerId,
        address: SocketAddr,
        workers: usize,
    ) -> Result<Self, BindError> {
        check(address, workers)?;
        // The first is bound without SO_REUSEPORT: it fails where another process has the port, and port 0 gets a free one
        // rather than a shared one. It opens up to the others afterwards.
        let first = bind(address, false)?;
        let local = local_addr(&first, address)?;
        Self::steered(listener, local, vec![first]).complete(workers)
    }

    /// Takes over bound sockets of a service manager (LISTEN_FDS) or an earlier process. Where they are
    /// fewer than `workers`, further ones are bound to the same port.
    ///
    /// # Errors
    /// One is no UDP socket, they are bound to different addresses, there are none or more than workers, or the port can't
    /// be shared with further ones.
    pub fn inherit(
        listener: ListenerId,
        fds: Vec<OwnedFd>,
        workers: usize,
    ) -> Result<Self, BindError> {
        let inherited = Self::of(listener, fds)?;
        check(inherited.local, workers)?;
        let passed = inherited.sockets.len();
        if passed > workers {
            return Err(BindError::Inherited {
                reason: "there are more than workers: remove the others from the socket unit",
            });
        }
        inherited.complete(workers).map_err(|error| match error {
            BindError::InUse { .. } if passed < workers => BindError::Inherited {
                reason: "there are fewer than workers, and the system refuses more: pass one for each (`ListenDatagram=` as often, with \
                         `ReusePort=true`)",
            },
            error => error,
        })
    }

    /// Takes over all sockets of an earlier process, in their order. They may be more than workers: some of these read several then.
    /// Where they are fewer, further ones are bound behind them. The kernel does not steer to these before [`TakenSockets::steer`], as
    /// the earlier process does not read them; a single socket has no program of its own, so the first that is bound behind it may get
    /// what arrives in the microseconds until it has one.
    ///
    /// # Errors
    /// As with [`Acquired::inherit`].
    pub fn take_over(
        listener: ListenerId,
        fds: Vec<OwnedFd>,
        workers: usize,
        steering: Steering,
    ) -> Result<(Self, TakenSockets), BindError> {
        let inherited = Self::of(listener, fds)?;
        let (local, before) = (inherited.local, inherited.sockets.len());
        let all = before.max(workers);
        check(local, all)?;
        let os = |what| move |source| BindError::new(local, what, source);
        let refused = |error| match error {
            BindError::InUse { .. } => BindError::Inherited {
                reason: "there are fewer than workers, and the system refuses more: those that a service manager passed may be another \
                         user's; restart, with a socket for each worker",
            },
            error => error,
        };
        let mut taken = inherited;
        if all > before {
            if steering == Steering::Hash {
                let reason = "there are fewer than workers, and the kernel does not read the worker in a connection ID";
                return Err(BindError::Inherited { reason });
            }
            taken = taken.complete(before + 1).map_err(refused)?;
            if before == 1 {
                let attached =
                    sys::attach_reuseport_cbpf(taken.sockets[0].as_fd(), &steering.program(1));
                attached.map_err(os("attach the steering program"))?;
            }
            taken = taken.complete(all).map_err(refused)?;
        }
        let duplicate = |socket: &Socket| socket.as_fd().try_clone_to_owned();
        let added = taken.sockets.iter().skip(before).map(duplicate).collect::<io::Result<_>>();
        let ways = TakenSockets {
            listener,
            one: duplicate(&taken.sockets[0]).map_err(os("dup"))?,
            all: u32::try_from(all).unwrap_or(u32::MAX),
            steering,
            added: added.map_err(os("dup"))?,
        };
        Ok((Self { steers: false, ..taken }, ways))
    }

    /// Takes sockets of the same listener that another process has bound behind `first` of this one, in their order.
    ///
    /// # Errors
    /// As with [`Acquired::inherit`].
    pub fn behind(
        first: usize,
        listener: ListenerId,
        fds: Vec<OwnedFd>,
    ) -> Result<Self, BindError> {
        Ok(Self { first, steers: false, ..Self::of(listener, fds)? })
    }

    fn steered(listener: ListenerId, local: SocketAddr, sockets: Vec<Socket>) -> Self {
        Self { listener, local, sockets, first: 0, steers: true }
    }

    /// Checks that sockets are bound for UDP to one address.
    fn of(listener: ListenerId, fds: Vec<OwnedFd>) -> Result<Self, BindError> {
        let sockets: Vec<Socket> = fds.into_iter().map(Socket::from).collect();
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        let Some(first) = sockets.first() else {
            return Err(BindError::Inherited { reason: "there are none" });
        };
        let local = local_addr(first, unknown)?;
        for socket in &sockets {
            if !matches!(socket.r#type(), Ok(Type::DGRAM))
                || !matches!(socket.protocol(), Ok(Some(Protocol::UDP)))
            {
                return Err(BindError::Inherited { reason: "one is no UDP socket" });
            }
            if local_addr(socket, unknown)? != local || local.port() == 0 {
                return Err(BindError::Inherited { reason: "they are not bound to one address" });
            }
        }
        Ok(Self::steered(listener, local, sockets))
    }

    /// Returns the listener that the sockets belong to.
    #[must_use]
    pub fn listener(&self) -> ListenerId {
        self.listener
    }

    /// Returns the address that they are bound to, with the port that the kernel chose for 0.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Returns the number of sockets, which is the number of workers or, of an earlier process, larger.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.sockets.len()
    }

    /// Binds further sockets until there is one per worker.
    fn complete(mut self, workers: usize) -> Result<Self, BindError> {
        let os = |what| move |source| BindError::new(self.local, what, source);
        if workers > 1 {
            for socket in &self.sockets {
                socket.set_reuse_port(true).map_err(os("SO_REUSEPORT"))?;
            }
        }
        while self.sockets.len() < workers {
            self.sockets.push(bind(self.local, true)?);
        }
        Ok(self)
    }
}

fn check(address: SocketAddr, workers: usize) -> Result<(), BindError> {
    if workers == 0 || workers > MAX_WORKERS {
        return Err(BindError::Workers { address, workers });
    }
    Ok(())
}

fn bind(address: SocketAddr, shared: bool) -> Result<Socket, BindError> {
    let os = |what| move |source| BindError::new(address, what, source);
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP)).map_err(os("socket"))?;
    if address.is_ipv6() {
        socket.set_only_v6(true).map_err(os("IPV6_V6ONLY"))?;
    }
    if shared {
        socket.set_reuse_port(true).map_err(os("SO_REUSEPORT"))?;
    }
    socket.bind(&address.into()).map_err(os("bind"))?;
    Ok(socket)
}

fn local_addr(socket: &Socket, address: SocketAddr) -> Result<SocketAddr, BindError> {
    let os = |source| BindError::new(address, "getsockname", source);
    let local = socket.local_addr().map_err(os)?;
    local.as_socket().ok_or(BindError::Inherited { reason: "one has no IP address" })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    #[test]
    fn workers_share_the_port_of_an_inherited_socket() {
        let passed = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = passed.local_addr().unwrap();
        let id = ListenerId(7);
        let acquired = Acquired::inherit(id, vec![passed.into()], 3).unwrap();
        assert_eq!((acquired.listener(), acquired.workers()), (id, 3));
        assert_eq!(acquired.local_addr(), address);
    }

    #[test]
    fn no_socket_joins_others_whose_program_cannot_leave_it_out() {
        let passed = || vec![UdpSocket::bind("127.0.0.1:0").unwrap().into()];
        let refused = Acquired::take_over(ListenerId(0), passed(), 2, Steering::Hash).unwrap_err();
        assert!(refused.to_string().contains("does not read the worker"), "{refused}");
        let (same, taken) =
            Acquired::take_over(ListenerId(0), passed(), 1, Steering::Hash).unwrap();
        assert_eq!((same.workers(), taken.count(), taken.added().len()), (1, 1, 0));
        taken.steer().unwrap();
    }

    #[test]
    fn an_inherited_socket_of_another_kind_is_refused() {
        let passed = TcpListener::bind("127.0.0.1:0").unwrap();
        let refused = Acquired::inherit(ListenerId(0), vec![passed.into()], 1).unwrap_err();
        assert!(refused.to_string().contains("no UDP socket"), "{refused}");
    }
}
