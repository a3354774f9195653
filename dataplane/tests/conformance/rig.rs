//! Drivers of every kind, and short ways to send and receive with them.

use std::net::SocketAddr;
use std::time::Duration;

use sluicegate_dataplane::memory::Network;
use sluicegate_dataplane::{
    Backend, BindError, Binding, Dataplane, Driver, DriverOptions, Ecn, ListenerId, RxMeta,
    SocketOptions, TxMeta, bind_group, open,
};

/// Rounds of waiting before a test gives up, of [`ROUND`] each.
const ROUNDS: usize = 500;
const ROUND: Duration = Duration::from_millis(20);

pub(crate) const FIRST: ListenerId = ListenerId(0);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Mio,
    IoUring,
    Memory,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Mio, Self::IoUring, Self::Memory];

    pub(crate) fn backend(self) -> Option<Backend> {
        match self {
            Self::Mio => Some(Backend::Mio),
            Self::IoUring => Some(Backend::IoUring),
            Self::Memory => None,
        }
    }
}

/// Runs `test` on a world of every kind that can open here, and says which one it is at.
pub(crate) fn each(test: impl Fn(&World)) {
    for kind in Kind::ALL {
        if let Some(backend) = kind.backend()
            && let Err(error) = open(backend, &DriverOptions::default(), Vec::new())
        {
            assert_eq!(backend, Backend::IoUring, "{error}");
            println!("left out: {error}");
            continue;
        }
        println!("driver: {kind:?}");
        test(&World {
            kind,
            network: Network::default(),
        });
    }
}

/// As [`each`], for the drivers of sockets.
pub(crate) fn each_of_sockets(test: impl Fn(Backend)) {
    each(|world| {
        if let Some(backend) = world.kind.backend() {
            test(backend);
        }
    });
}

/// Where drivers of one kind meet.
pub(crate) struct World {
    pub(crate) kind: Kind,
    network: Network,
}

/// A driver and where its listeners are.
pub(crate) struct Node {
    pub(crate) driver: Driver,
    pub(crate) addresses: Vec<SocketAddr>,
}

/// One datagram, cut out of its buffer.
#[derive(Clone, Debug)]
pub(crate) struct Datagram {
    pub(crate) meta: RxMeta,
    pub(crate) bytes: Vec<u8>,
}

impl World {
    /// A driver with listeners 0, 1, … at these addresses.
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
        let listeners = addresses.iter().enumerate().map(|(index, address)| {
            let id = ListenerId(u16::try_from(index).unwrap());
            (id, address.parse().unwrap())
        });
        let listeners: Vec<(ListenerId, SocketAddr)> = listeners.collect();
        match self.kind.backend() {
            None => {
                let memory = self.network.open(&listeners);
                let at = |(id, _): &(ListenerId, SocketAddr)| memory.local_addr(*id).unwrap();
                Ok(Node {
                    addresses: listeners.iter().map(at).collect(),
                    driver: Driver::Memory(memory),
                })
            }
            Some(backend) => {
                let mut bound = Vec::new();
                for (id, address) in &listeners {
                    bound.extend(bind_group(*id, *address, 1, &SocketOptions::default())?);
                }
                Ok(Node::over(backend, options, bound))
            }
        }
    }

    /// Two drivers with one listener each on `address`.
    pub(crate) fn pair(&self, address: &str) -> (Node, Node) {
        (self.node(&[address]), self.node(&[address]))
    }
}

impl Node {
    pub(crate) fn over(backend: Backend, options: &DriverOptions, bound: Vec<Binding>) -> Self {
        let addresses = bound.iter().map(Binding::local_addr).collect();
        let opened = open(backend, options, bound).unwrap();
        assert_eq!(opened.driver.caps().backend, backend.name());
        Self {
            driver: opened.driver,
            addresses,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Transmits one buffer from listener 0, waiting for room.
    pub(crate) fn send(&mut self, peer: SocketAddr, bytes: &[u8], segment: usize) {
        self.send_with(&to(peer, bytes.len(), segment), bytes);
    }

    pub(crate) fn send_with(&mut self, meta: &TxMeta, bytes: &[u8]) {
        let mut left = Some(*meta);
        for _ in 0..ROUNDS {
            let transmitted = self.driver.transmit(1, |buffer| {
                buffer[..bytes.len()].copy_from_slice(bytes);
                left.take()
            });
            let transmitted = transmitted.unwrap();
            if left.is_none() && !transmitted.blocked {
                return;
            }
            self.driver.wait(Some(ROUND)).unwrap();
        }
        panic!("never got rid of {meta:?}");
    }

    /// Receives until there are `count` datagrams, and those that came with the last of them.
    pub(crate) fn collect(&mut self, count: usize) -> Vec<Datagram> {
        let mut datagrams = Vec::new();
        for _ in 0..ROUNDS {
            self.receive_once(usize::MAX, &mut datagrams);
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

    /// One call, cut into datagrams; returns the number of buffers.
    pub(crate) fn receive_once(&mut self, budget: usize, into: &mut Vec<Datagram>) -> usize {
        let received = self.driver.receive(budget, |meta, buffer| {
            assert!(meta.stride <= buffer.len());
            if buffer.is_empty() {
                into.push(Datagram {
                    meta: *meta,
                    bytes: Vec::new(),
                });
            }
            for bytes in buffer.chunks(meta.stride.max(1)) {
                into.push(Datagram {
                    meta: *meta,
                    bytes: bytes.to_vec(),
                });
            }
        });
        received.unwrap()
    }
}

/// From listener 0, with nothing special.
pub(crate) fn to(peer: SocketAddr, len: usize, segment: usize) -> TxMeta {
    TxMeta {
        listener: FIRST,
        peer,
        local: None,
        ecn: Ecn::NotCapable,
        len,
        segment,
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
