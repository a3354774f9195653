//! Worlds that the cases run in: a kind of driver, and the network between it and its peers.

use std::any::type_name_of_val;
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;

use sluicegate_dataplane::memory::Network;
use sluicegate_dataplane::port::{self, Switch};
use sluicegate_dataplane::requirements::skip;
use sluicegate_dataplane::{
    Acquired, Backend, Driver, DriverOptions, ListenerId, Seed, SocketOptions, Steering, open_group,
};

use crate::device;
use crate::exceptions;
use crate::node::Node;
use crate::veth::{End, Link, Terms};

pub(crate) const FIRST: ListenerId = ListenerId(0);

/// Variable that names the kind of driver to test over a veth pair, in the network namespace that the process is in.
pub(crate) const OVER_A_LINK: &str = "SLUICEGATE_CONFORMANCE_LINK";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Mio,
    IoUring,
    /// `IoUring`, which copies no message.
    ZeroCopy,
    Memory,
    Port,
    AfPacket,
    AfXdp,
    /// `AfXdp`, which leaves the kernel all frames but those for the listeners.
    AfXdpBesideKernel,
}

/// Part that the driver under test plays in a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Server,
    Client,
}

impl Kind {
    /// Those that need no network but loopback.
    const WITHOUT_A_LINK: [Self; 5] =
        [Self::Mio, Self::IoUring, Self::ZeroCopy, Self::Memory, Self::Port];
    const OVER_A_LINK: [Self; 5] =
        [Self::Mio, Self::IoUring, Self::AfPacket, Self::AfXdp, Self::AfXdpBesideKernel];

    /// Returns whether datagrams of one peer travel as one message.
    pub(crate) fn segments(self) -> bool {
        self.backend().is_some()
    }

    /// Returns the backend of sockets.
    pub(crate) fn backend(self) -> Option<Backend> {
        match self {
            Self::Mio => Some(Backend::Mio),
            Self::IoUring | Self::ZeroCopy => Some(Backend::IoUring),
            Self::Memory | Self::Port | Self::AfPacket | Self::AfXdp | Self::AfXdpBesideKernel => {
                None
            }
        }
    }

    /// Returns whether it drives a device of DPDK.
    pub(crate) fn is_dpdk(self) -> bool {
        matches!(self, Self::AfPacket) || self.is_af_xdp()
    }

    /// Returns whether that device is of AF_XDP.
    pub(crate) fn is_af_xdp(self) -> bool {
        matches!(self, Self::AfXdp | Self::AfXdpBesideKernel)
    }
}

/// Runs `test` in a world of every kind that can open here and that the table does not leave out.
pub(crate) fn each(test: impl Fn(&World)) {
    let case = case_of(&test);
    run(&case, Terms::PLAIN, test);
}

/// As [`each`], on these terms where there is a link.
pub(crate) fn each_on(terms: Terms, test: impl Fn(&World)) {
    let case = case_of(&test);
    run(&case, terms, test);
}

/// Returns the name of the case that a closure belongs to.
fn case_of<T>(test: &T) -> String {
    let name = type_name_of_val(test);
    let name = name.strip_prefix("conformance::").unwrap_or(name);
    name.split("::{{closure}}").next().unwrap_or(name).to_owned()
}

fn run(case: &str, terms: Terms, test: impl Fn(&World)) {
    let over_a_link = kind_over_a_link();
    let kinds = over_a_link.map_or(Kind::WITHOUT_A_LINK.to_vec(), |kind| vec![kind]);
    for kind in kinds {
        if kind.backend() == Some(Backend::IoUring)
            && let Err(cause) = io_uring()
        {
            skip("io_uring", &cause);
            continue;
        }
        let roles: &[Role] =
            if kind.is_dpdk() { &[Role::Server, Role::Client] } else { &[Role::Server] };
        for role in roles {
            if let Some(reason) = exceptions::reason(case, kind, *role) {
                println!("left out: {kind:?} as {role:?}: {reason}");
                continue;
            }
            println!("driver: {kind:?} as {role:?}");
            let mut world = World::new(kind, *role);
            world.link = over_a_link.map(|kind| Link::new(terms, kind));
            test(&world);
        }
    }
}

/// Returns the kind of driver that this process tests over a link.
fn kind_over_a_link() -> Option<Kind> {
    let name = std::env::var(OVER_A_LINK).ok()?;
    let found = Kind::OVER_A_LINK.into_iter().find(|kind| format!("{kind:?}") == name);
    Some(found.unwrap_or_else(|| panic!("{OVER_A_LINK} holds `{name}`")))
}

/// Checks that this host allows `io_uring`.
pub(crate) fn io_uring() -> Result<(), String> {
    let world = World::new(Kind::IoUring, Role::Server);
    let (mut seeds, ..) = world.seeds(Role::Server, &[], &Shape::default())?;
    let opened = seeds.remove(0).open();
    opened.map(drop).map_err(|error| error.to_string())
}

/// The worker's index is the first byte of the server's connection IDs.
pub(crate) const STEERING: Steering = Steering::ConnectionId { worker_at: 0, shortest: 8 };

/// Options that a group of workers is opened with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) workers: usize,
    /// Ignored by drivers without sockets.
    pub(crate) steering: Steering,
    /// Ignored likewise.
    pub(crate) socket: SocketOptions,
    pub(crate) driver: DriverOptions,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            workers: 1,
            steering: STEERING,
            socket: SocketOptions::default(),
            driver: DriverOptions::default(),
        }
    }
}

impl From<SocketOptions> for Shape {
    fn from(socket: SocketOptions) -> Self {
        Self { socket, ..Self::default() }
    }
}

impl From<DriverOptions> for Shape {
    fn from(driver: DriverOptions) -> Self {
        Self { driver, ..Self::default() }
    }
}

/// A device that stays open as long as this.
pub(crate) type Held = Rc<device::Closing>;

/// Seeds of a group of workers, where its listeners are, and what is to be dropped after its drivers.
pub(crate) type Opened = (Vec<Seed>, Vec<SocketAddr>, Option<Held>);

/// A kind of driver in its part, and the network that it shares with its peers.
///
/// Cases write addresses of loopback. On a link, `127.0.0.1` and `::1` stand for the first address of the end, and other
/// addresses of loopback for the second.
pub(crate) struct World {
    pub(crate) kind: Kind,
    pub(crate) role: Role,
    pub(crate) link: Option<Link>,
    /// Whether a device was opened on the link.
    used: Cell<bool>,
    network: Network,
    pub(crate) switch: Switch,
}

impl World {
    fn new(kind: Kind, role: Role) -> Self {
        Self {
            kind,
            role,
            link: None,
            used: Cell::new(false),
            network: Network::default(),
            switch: Switch::default(),
        }
    }

    /// Returns a server with listeners 0, 1, … at these addresses.
    pub(crate) fn server(&self, addresses: &[&str]) -> Node {
        self.server_with(addresses, Shape::default())
    }

    pub(crate) fn server_with(&self, addresses: &[&str], shape: impl Into<Shape>) -> Node {
        self.open(Role::Server, addresses, shape).unwrap().remove(0)
    }

    /// Returns a client of the servers, likewise.
    pub(crate) fn client(&self, addresses: &[&str]) -> Node {
        self.client_with(addresses, Shape::default())
    }

    pub(crate) fn client_with(&self, addresses: &[&str], shape: impl Into<Shape>) -> Node {
        self.open(Role::Client, addresses, shape).unwrap().remove(0)
    }

    /// Returns a server and a client with one listener each on `address`.
    pub(crate) fn pair(&self, address: &str) -> (Node, Node) {
        (self.server(&[address]), self.client(&[address]))
    }

    /// Opens a driver per worker, all on this thread.
    pub(crate) fn open(
        &self,
        role: Role,
        addresses: &[&str],
        shape: impl Into<Shape>,
    ) -> Result<Vec<Node>, String> {
        let kind = self.kind_of(role);
        if kind == Kind::Memory {
            let listeners = self.listeners(role, addresses);
            let memory = self.network.open(&listeners);
            let at = |(id, _): &(ListenerId, SocketAddr)| memory.local_addr(*id).unwrap();
            let addresses: Vec<_> = listeners.iter().map(at).collect();
            let driver = Driver::Memory(memory);
            return Ok(vec![Node::new(kind, driver, addresses, None)]);
        }
        let (seeds, addresses, held) = self.seeds(role, addresses, &shape.into())?;
        let nodes = seeds.into_iter().map(|seed| {
            let driver = seed.open().unwrap().driver;
            Node::new(kind, driver, addresses.clone(), held.clone())
        });
        Ok(nodes.collect())
    }

    /// Opens a group of workers.
    pub(crate) fn seeds(
        &self,
        role: Role,
        addresses: &[&str],
        shape: &Shape,
    ) -> Result<Opened, String> {
        let listeners = self.listeners(role, addresses);
        let kind = self.kind_of(role);
        if kind == Kind::Port {
            let group = port::open_group(&self.switch, &listeners, shape.workers);
            let group = group.map_err(|error| error.to_string())?;
            let seeds = group.seeds.into_iter().map(Seed::from);
            return Ok((seeds.collect(), group.addresses, None));
        }
        let Some(backend) = kind.backend() else {
            assert!(kind.is_dpdk(), "drivers in memory have no group");
            let link = self.link.as_ref().expect("a link");
            if self.used.replace(true) && kind.is_af_xdp() {
                // The library keeps the socket of such a device until the process ends.
                link.renew();
            }
            let (seeds, addresses, closing) =
                device::open(kind, &link.terms, &listeners, shape.workers)?;
            return Ok((seeds, addresses, Some(closing.into())));
        };
        let mut driver = shape.driver;
        if kind == Kind::ZeroCopy {
            driver.zero_copy = 1;
        }
        self.within(role, || {
            let acquired = listeners.into_iter();
            let acquired = acquired.map(|(id, at)| Acquired::bind(id, at, shape.workers));
            let acquired: Result<Vec<_>, _> = acquired.collect();
            let group = acquired.and_then(|acquired| {
                open_group(backend, acquired, shape.workers, shape.steering, &shape.socket, driver)
            });
            let group = group.map_err(|error| error.to_string())?;
            let addresses = group.listeners.iter().map(|facts| facts.address);
            Ok((group.seeds, addresses.collect(), None))
        })
    }

    /// Calls `work` in the network namespace of an end.
    pub(crate) fn within<R>(&self, role: Role, work: impl FnOnce() -> R) -> R {
        match &self.link {
            Some(link) => link.within(self.end(role), work),
            None => work(),
        }
    }

    /// Returns an address of an end, by that of loopback that stands for it.
    pub(crate) fn at(&self, role: Role, address: &str) -> SocketAddr {
        let mut address: SocketAddr = address.parse().unwrap();
        if self.link.is_some() {
            address.set_ip(self.end(role).address(address.ip()));
        }
        address
    }

    /// Returns the largest datagram, bytes.
    pub(crate) fn largest(&self, headers: usize) -> usize {
        match &self.link {
            Some(link) => usize::from(link.terms.mtu) - headers,
            None if self.kind == Kind::Port => port::LARGEST_PAYLOAD,
            None => 65_535 - headers,
        }
    }

    /// Returns the kind of driver at an end: the peers of a device are sockets.
    pub(crate) fn kind_of(&self, role: Role) -> Kind {
        if self.kind.is_dpdk() && role != self.role { Kind::Mio } else { self.kind }
    }

    fn end(&self, role: Role) -> End {
        if role == self.role { End::Home } else { End::Far }
    }

    fn listeners(&self, role: Role, addresses: &[&str]) -> Vec<(ListenerId, SocketAddr)> {
        let listeners = addresses.iter().enumerate().map(|(index, address)| {
            let id = ListenerId(u16::try_from(index).unwrap());
            (id, self.at(role, address))
        });
        listeners.collect()
    }
}
