//! Drivers that reach each other through memory: for tests, in virtual time.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::egress::MAX_TRANSMIT;
use crate::{Caps, Counters, Dataplane, ListenerId, RxMeta, Transmitted, TxMeta, Waker};

/// Buffers that wait for one driver; further ones are dropped, as by a full socket.
const QUEUE: usize = 4096;

/// Where port 0 begins to choose.
const FIRST_PORT: u16 = 49_152;

/// A wire without delay or loss between drivers. Clones are the same wire.
#[derive(Clone, Debug, Default)]
pub struct Network {
    hub: Arc<Mutex<Hub>>,
}

#[derive(Debug, Default)]
struct Hub {
    endpoints: Vec<Endpoint>,
    /// Emptied buffers, to be filled again.
    spare: Vec<Vec<u8>>,
    ports: u16,
}

#[derive(Debug)]
struct Endpoint {
    listeners: Vec<(ListenerId, SocketAddr)>,
    queue: VecDeque<Packet>,
}

#[derive(Debug)]
struct Packet {
    meta: RxMeta,
    bytes: Vec<u8>,
}

/// One driver on a [`Network`]. Its wait returns at once: who uses it moves a virtual clock instead.
#[derive(Debug)]
pub struct Memory {
    network: Network,
    index: usize,
    listeners: Vec<(ListenerId, SocketAddr)>,
    buffer: Box<[u8]>,
    waker: Waker,
    counters: Counters,
}

/// Two drivers on a network of their own, each with listener 0 at its address.
#[must_use]
pub fn pair(a: SocketAddr, b: SocketAddr) -> (Memory, Memory) {
    let network = Network::default();
    let listener = ListenerId(0);
    (
        network.open(&[(listener, a)]),
        network.open(&[(listener, b)]),
    )
}

impl Network {
    /// A driver with these listeners; wildcards and port 0 mean what they mean for sockets.
    #[must_use]
    pub fn open(&self, listeners: &[(ListenerId, SocketAddr)]) -> Memory {
        let mut hub = self.lock();
        let mut listeners = listeners.to_vec();
        for (_, address) in &mut listeners {
            if address.port() == 0 {
                address.set_port(FIRST_PORT + hub.ports);
                hub.ports += 1;
            }
        }
        hub.endpoints.push(Endpoint {
            listeners: listeners.clone(),
            queue: VecDeque::new(),
        });
        Memory {
            network: self.clone(),
            index: hub.endpoints.len() - 1,
            listeners,
            buffer: vec![0; MAX_TRANSMIT].into_boxed_slice(),
            waker: Waker::idle(),
            counters: Counters::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Hub> {
        self.hub.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hub {
    /// Puts a copy of `bytes` into the queue of who listens at the destination, if anybody does and has room.
    fn deliver(&mut self, source: SocketAddr, meta: &TxMeta, bytes: &[u8]) {
        let mut found = None;
        for endpoint in &mut self.endpoints {
            let mut listeners = endpoint.listeners.iter();
            if let Some((listener, _)) = listeners.find(|(_, bound)| hears(bound, &meta.peer)) {
                found = Some((*listener, &mut endpoint.queue));
                break;
            }
        }
        let Some((listener, queue)) = found.filter(|(_, queue)| queue.len() < QUEUE) else {
            return;
        };
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.extend_from_slice(bytes);
        let stride = if meta.segment == 0 {
            meta.len
        } else {
            meta.segment.min(meta.len)
        };
        queue.push_back(Packet {
            meta: RxMeta {
                listener,
                peer: source,
                local: meta.peer,
                ecn: meta.ecn,
                stride,
            },
            bytes: copy,
        });
    }
}

fn hears(bound: &SocketAddr, destination: &SocketAddr) -> bool {
    bound.port() == destination.port()
        && bound.is_ipv4() == destination.is_ipv4()
        && (bound.ip() == destination.ip() || bound.ip().is_unspecified())
}

impl Memory {
    /// Where `listener` is bound, with the port that was chosen for 0.
    #[must_use]
    pub fn local_addr(&self, listener: ListenerId) -> Option<SocketAddr> {
        let found = self.listeners.iter().find(|(id, _)| *id == listener);
        found.map(|(_, address)| *address)
    }

    /// The source address of a buffer, as a kernel would choose it.
    fn source(&self, meta: &TxMeta) -> Option<SocketAddr> {
        let bound = self.local_addr(meta.listener)?;
        if bound.is_ipv4() != meta.peer.is_ipv4() {
            return None;
        }
        let asked = meta.local.filter(|local| !local.ip().is_unspecified());
        let ip = match asked {
            Some(local) => local.ip(),
            None if !bound.ip().is_unspecified() => bound.ip(),
            None if bound.is_ipv4() => Ipv4Addr::LOCALHOST.into(),
            None => Ipv6Addr::LOCALHOST.into(),
        };
        Some(SocketAddr::new(ip, bound.port()))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let mut hub = self.network.lock();
        let endpoint = &mut hub.endpoints[self.index];
        endpoint.listeners.clear();
        endpoint.queue.clear();
    }
}

impl Dataplane for Memory {
    fn caps(&self) -> Caps {
        Caps {
            backend: "memory",
            gso: true,
            gro: true,
            ecn: true,
            max_transmit: MAX_TRANSMIT,
            polls: false,
        }
    }

    fn receive(
        &mut self,
        budget: usize,
        mut sink: impl FnMut(&RxMeta, &mut [u8]),
    ) -> io::Result<usize> {
        for count in 0..budget {
            let packet = self.network.lock().endpoints[self.index].queue.pop_front();
            let Some(Packet { meta, mut bytes }) = packet else {
                return Ok(count);
            };
            self.counters.on_received(&meta, bytes.len());
            sink(&meta, &mut bytes);
            bytes.clear();
            self.network.lock().spare.push(bytes);
        }
        Ok(budget)
    }

    fn transmit(
        &mut self,
        budget: usize,
        mut fill: impl FnMut(&mut [u8]) -> Option<TxMeta>,
    ) -> io::Result<Transmitted> {
        let mut transmitted = Transmitted::default();
        while transmitted.buffers < budget {
            let Some(meta) = fill(&mut self.buffer) else {
                break;
            };
            transmitted.buffers += 1;
            let bytes = self.buffer.get(..meta.len);
            let (Some(source), Some(bytes)) = (self.source(&meta), bytes) else {
                self.counters.tx_errors += 1;
                continue;
            };
            self.network.lock().deliver(source, &meta, bytes);
            self.counters.tx_buffers += 1;
            self.counters.tx_datagrams += meta.datagrams();
            self.counters.tx_bytes += meta.len as u64;
        }
        Ok(transmitted)
    }

    fn wait(&mut self, _timeout: Option<Duration>) -> io::Result<()> {
        self.waker.take();
        Ok(())
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
