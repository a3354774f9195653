//! Drivers of every kind, and short ways to send and receive with them.

use std::net::SocketAddr;
use std::time::Duration;

use sluicegate_dataplane::memory::Network;
use sluicegate_dataplane::port::{self, Switch};
use sluicegate_dataplane::requirements::skip;
use sluicegate_dataplane::{
    Acquired, Backend, BindError, Budget, Dataplane, Driver, DriverOptions, Ecn, Event, ListenerId,
    NoRoom, RxMeta, Seed, SocketOptions, TxMeta, open_group,
};

/// Number of waits, of [`ROUND`] each, after which a test fails.
const ROUNDS: usize = 500;
const ROUND: Duration = Duration::from_millis(20);

pub(crate) const FIRST: ListenerId = ListenerId(0);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Mio,
    IoUring,
    /// `IoUring`, which copies no message.
    ZeroCopy,
    Memory,
    Port,
}

impl Kind {
    const ALL: [Self; 5] = [
        Self::Mio,
        Self::IoUring,
        Self::ZeroCopy,
        Self::Memory,
        Self::Port,
    ];

    /// Returns whether datagrams of one peer travel as one message.
    pub(crate) fn segments(self) -> bool {
        self.backend().is_some()
    }

    /// Largest datagram, bytes.
    pub(crate) fn largest(self) -> usize {
        match self {
            Self::Port => port::LARGEST_PAYLOAD,
            Self::Mio | Self::IoUring | Self::ZeroCopy | Self::Memory => 65_507,
        }
    }

    pub(crate) fn backend(self) -> Option<Backend> {
        match self {
            Self::Mio => Some(Backend::Mio),
            Self::IoUring | Self::ZeroCopy => Some(Backend::IoUring),
            Self::Memory | Self::Port => None,
        }
    }
}

/// Runs `test` on a world of every kind that can open here, and says which one it is at.
pub(crate) fn each(test: impl Fn(&World)) {
    for kind in Kind::ALL {
        if let Some(backend) = kind.backend()
            && let Err(error) = seed(backend, &[]).open()
        {
            assert_eq!(backend, Backend::IoUring, "{error}");
            skip("io_uring", &error);
            continue;
        }
        println!("driver: {kind:?}");
        test(&World {
            kind,
            network: Network::default(),
            switch: Switch::default(),
        });
    }
}

/// Runs `test` as [`each`] does, for the drivers of sockets.
pub(crate) fn each_of_sockets(test: impl Fn(Backend)) {
    each(|world| {
        if let Some(backend) = world.kind.backend()
            && world.kind != Kind::ZeroCopy
        {
            test(backend);
        }
    });
}

/// Returns the seed of a group of one worker with default options.
pub(crate) fn seed(backend: Backend, addresses: &[&str]) -> Seed {
    let (mut seeds, _) = seeds(
        backend,
        addresses,
        1,
        &SocketOptions::default(),
        DriverOptions::default(),
    )
    .unwrap();
    seeds.remove(0)
}

/// Binds listeners 0, 1, … to these addresses and opens a group. Returns its seeds and where the listeners are.
pub(crate) fn seeds(
    backend: Backend,
    addresses: &[&str],
    workers: usize,
    socket: &SocketOptions,
    driver: DriverOptions,
) -> Result<(Vec<Seed>, Vec<SocketAddr>), BindError> {
    let listeners = listeners(addresses).into_iter();
    let acquired: Result<Vec<_>, _> = listeners
        .map(|(id, address)| Acquired::bind(id, address, workers))
        .collect();
    let group = open_group(backend, acquired?, workers, socket, driver)?;
    let addresses = group.listeners.iter().map(|facts| facts.address).collect();
    Ok((group.seeds, addresses))
}

fn listeners(addresses: &[&str]) -> Vec<(ListenerId, SocketAddr)> {
    let listeners = addresses.iter().enumerate().map(|(index, address)| {
        let id = ListenerId(u16::try_from(index).unwrap());
        (id, address.parse().unwrap())
    });
    listeners.collect()
}

/// A network that drivers of one kind share.
pub(crate) struct World {
    pub(crate) kind: Kind,
    network: Network,
    pub(crate) switch: Switch,
}

/// A driver and where its listeners are.
pub(crate) struct Node {
    pub(crate) driver: Driver,
    pub(crate) addresses: Vec<SocketAddr>,
}

/// One received datagram.
#[derive(Clone, Debug)]
pub(crate) struct Datagram {
    pub(crate) meta: RxMeta,
    pub(crate) bytes: Vec<u8>,
}

impl World {
    /// Returns a driver with listeners 0, 1, … at these addresses.
    pub(crate) fn node(&self, addresses: &[&str]) -> Node {
        self.node_with(addresses, &DriverOptions::default())
    }

    pub(crate) fn node_with(&self, addresses: &[&str], options: &DriverOptions) -> Node {
        self.try_node(addresses, options).unwrap()
    }

    pub(crate) fn try_node(
        &self,
        addresses: &[&str],
        options: &DriverOptions,
    ) -> Result<Node, BindError> {
        if self.kind == Kind::Memory {
            let listeners = listeners(addresses);
            let memory = self.network.open(&listeners);
            let at = |(id, _): &(ListenerId, SocketAddr)| memory.local_addr(*id).unwrap();
            return Ok(Node {
                addresses: listeners.iter().map(at).collect(),
                driver: Driver::Memory(memory),
            });
        }
        let (mut seeds, addresses) = self.seeds(addresses, 1, options)?;
        Ok(Node::of(seeds.remove(0), &addresses))
    }

    /// Opens a group of workers with listeners 0, 1, … at these addresses. Returns its seeds and where the listeners are.
    pub(crate) fn seeds(
        &self,
        addresses: &[&str],
        workers: usize,
        options: &DriverOptions,
    ) -> Result<(Vec<Seed>, Vec<SocketAddr>), BindError> {
        if let Some(backend) = self.kind.backend() {
            let options = DriverOptions {
                zero_copy: usize::from(self.kind == Kind::ZeroCopy),
                ..*options
            };
            return seeds(
                backend,
                addresses,
                workers,
                &SocketOptions::default(),
                options,
            );
        }
        assert_eq!(self.kind, Kind::Port, "drivers in memory have no group");
        let group = port::open_group(&self.switch, &listeners(addresses), workers)?;
        let seeds = group.seeds.into_iter().map(Seed::from);
        Ok((seeds.collect(), group.addresses))
    }

    /// Two drivers with one listener each on `address`.
    pub(crate) fn pair(&self, address: &str) -> (Node, Node) {
        (self.node(&[address]), self.node(&[address]))
    }
}

impl Node {
    /// Opens a driver of sockets per worker, all on this thread.
    pub(crate) fn group(
        backend: Backend,
        addresses: &[&str],
        workers: usize,
        socket: &SocketOptions,
        driver: DriverOptions,
    ) -> Result<Vec<Self>, BindError> {
        let (seeds, addresses) = seeds(backend, addresses, workers, socket, driver)?;
        let nodes = seeds.into_iter().map(|seed| Self::of(seed, &addresses));
        Ok(nodes.collect())
    }

    /// Opens a driver of sockets with one listener on `address`.
    pub(crate) fn with(backend: Backend, address: &str, socket: &SocketOptions) -> Self {
        let driver = DriverOptions::default();
        Self::group(backend, &[address], 1, socket, driver)
            .unwrap()
            .remove(0)
    }

    pub(crate) fn of(seed: Seed, addresses: &[SocketAddr]) -> Self {
        Self {
            driver: seed.open().unwrap().driver,
            addresses: addresses.to_vec(),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Transmits `bytes` from listener 0 as datagrams of `segment` bytes, of which the last may be shorter, waiting for
    /// room.
    pub(crate) fn send(&mut self, peer: SocketAddr, bytes: &[u8], segment: usize) {
        self.send_with(FIRST, &to(peer), bytes, segment);
    }

    pub(crate) fn send_with(
        &mut self,
        listener: ListenerId,
        meta: &TxMeta,
        bytes: &[u8],
        segment: usize,
    ) {
        let datagrams: Vec<&[u8]> = match bytes {
            [] => vec![bytes],
            _ => bytes.chunks(segment).collect(),
        };
        self.send_all(datagrams.into_iter().map(|bytes| (listener, *meta, bytes)));
    }

    /// Transmits datagrams in one call if there is room, else in several.
    pub(crate) fn send_all<'a>(
        &mut self,
        datagrams: impl Iterator<Item = (ListenerId, TxMeta, &'a [u8])>,
    ) {
        let mut datagrams = datagrams.peekable();
        for _ in 0..ROUNDS {
            let refused = self.driver.transmit(Budget::UNLIMITED, |out| {
                while let Some((listener, meta, bytes)) = datagrams.peek() {
                    match out.room(*listener, bytes.len()) {
                        Ok(room) => {
                            room.copy_from_slice(bytes);
                            out.commit(bytes.len(), meta);
                            datagrams.next();
                        }
                        Err(reason) => return Some(reason),
                    }
                }
                None
            });
            match refused.unwrap() {
                // What was committed leaves with the next wait at the latest.
                None => return self.driver.wait(Some(Duration::ZERO)).unwrap(),
                Some(NoRoom::Blocked) => self.driver.wait(Some(ROUND)).unwrap(),
                Some(reason) => panic!("{reason:?}"),
            }
        }
        panic!("never got rid of {:?}", datagrams.peek());
    }

    /// Takes all events that there are.
    pub(crate) fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.driver.take_event()).collect()
    }

    /// Receives until there are `count` datagrams, and those that came with the last of them.
    pub(crate) fn collect(&mut self, count: usize) -> Vec<Datagram> {
        let mut datagrams = Vec::new();
        for _ in 0..ROUNDS {
            self.receive_once(Budget::UNLIMITED, &mut datagrams);
            if datagrams.len() >= count {
                return datagrams;
            }
            self.driver.wait(Some(ROUND)).unwrap();
        }
        let counters = self.driver.counters();
        panic!(
            "{} of {count} datagrams arrived; {counters:?}",
            datagrams.len()
        );
    }

    /// Receives in one call and returns the number of datagrams.
    pub(crate) fn receive_once(&mut self, budget: Budget, into: &mut Vec<Datagram>) -> usize {
        let before = into.len();
        let received = self.driver.receive(budget, |meta, bytes| {
            into.push(Datagram {
                meta: *meta,
                bytes: bytes.to_vec(),
            });
        });
        assert_eq!(received.unwrap(), into.len() - before);
        into.len() - before
    }
}

/// Returns the plainest metadata for a datagram to `peer`.
pub(crate) fn to(peer: SocketAddr) -> TxMeta {
    TxMeta {
        peer,
        local: None,
        ecn: Ecn::NotCapable,
        departure: None,
    }
}

/// `len` bytes that begin with `number`.
pub(crate) fn numbered(number: usize, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|at| (at ^ number).to_le_bytes()[0]).collect();
    let mark = u32::try_from(number).unwrap().to_le_bytes();
    bytes[..4].copy_from_slice(&mark);
    bytes
}

pub(crate) fn number_of(bytes: &[u8]) -> usize {
    u32::from_le_bytes(*bytes.first_chunk().unwrap()) as usize
}
