//! Drivers that reach each other through memory: for tests, in virtual time.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::addr::{self, covers};
use crate::batch::MAX_TRANSMIT;
use crate::contract::Dataplane;
use crate::counters::Counters;
use crate::egress::{Egress, NoRoom};
use crate::event::{Event, Events};
use crate::meta::{Budget, ListenerId, RxMeta, TxMeta};
use crate::waker::Waker;

/// Datagrams that wait for one driver; further ones are dropped, as by a full socket.
const QUEUE: usize = 4096;

/// First port that is chosen for port 0.
const FIRST_PORT: u16 = 49_152;

/// A wire without delay or loss between drivers. Clones are the same wire.
#[derive(Clone, Debug, Default)]
pub struct Network {
    hub: Arc<Mutex<Hub>>,
}

#[derive(Debug, Default)]
struct Hub {
    endpoints: Vec<Endpoint>,
    /// Empty buffers, kept to be filled again.
    spare: Vec<Vec<u8>>,
    ports: u16,
}

#[derive(Debug)]
struct Endpoint {
    listeners: Vec<(ListenerId, SocketAddr)>,
    queue: VecDeque<Packet>,
    /// Datagrams dropped since the owner looked, and the listener of the last.
    overflow: Option<(ListenerId, u32)>,
}

#[derive(Debug)]
struct Packet {
    meta: RxMeta,
    bytes: Vec<u8>,
}

/// One driver on a [`Network`]. Its wait returns at once: a test moves a virtual clock instead.
#[derive(Debug)]
pub struct Memory {
    network: Network,
    index: usize,
    listeners: Vec<(ListenerId, SocketAddr)>,
    /// Room lent for the next datagram.
    room: Vec<u8>,
    /// Largest datagram that it sends, bytes.
    largest: usize,
    waker: Waker,
    events: Events,
    counters: Counters,
}

/// Returns two drivers on a network of their own, each with listener 0 at its address.
#[must_use]
pub fn pair(a: SocketAddr, b: SocketAddr) -> (Memory, Memory) {
    let network = Network::default();
    let listener = ListenerId(0);
    (network.open(&[(listener, a)]), network.open(&[(listener, b)]))
}

impl Network {
    /// Returns a driver with these listeners; wildcards and port 0 mean what they mean for sockets.
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
            overflow: None,
        });
        Memory {
            network: self.clone(),
            index: hub.endpoints.len() - 1,
            listeners,
            room: Vec::new(),
            largest: MAX_TRANSMIT,
            waker: Waker::idle(),
            events: Events::new(),
            counters: Counters::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Hub> {
        self.hub.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hub {
    /// Puts a datagram into the queue of whoever listens at the destination. Returns its bytes if nobody listens
    /// there; if the queue is full, drops them and counts an overflow.
    fn deliver(&mut self, source: SocketAddr, meta: &TxMeta, bytes: Vec<u8>) -> Option<Vec<u8>> {
        for endpoint in &mut self.endpoints {
            let mut listeners = endpoint.listeners.iter();
            let Some((listener, _)) = listeners.find(|(_, bound)| covers(bound, &meta.peer)) else {
                continue;
            };
            if endpoint.queue.len() >= QUEUE {
                endpoint.overflow = Some((*listener, endpoint.overflow.map_or(1, |(_, n)| n + 1)));
                return Some(bytes);
            }
            endpoint.queue.push_back(Packet {
                meta: RxMeta { listener: *listener, peer: source, local: meta.peer, ecn: meta.ecn },
                bytes,
            });
            return None;
        }
        Some(bytes)
    }
}

impl Memory {
    /// Refuses datagrams of more than `largest` bytes from now on, like the host of an interface with a small MTU.
    pub fn limit_datagrams(&mut self, largest: usize) {
        self.largest = largest;
    }

    /// Returns the address that `listener` is bound to, with the port that was chosen for 0.
    #[must_use]
    pub fn local_addr(&self, listener: ListenerId) -> Option<SocketAddr> {
        let found = self.listeners.iter().find(|(id, _)| *id == listener);
        found.map(|(_, address)| *address)
    }

    /// Returns the source address of a datagram, as a kernel would choose it.
    fn source(&self, listener: ListenerId, meta: &TxMeta) -> Option<SocketAddr> {
        addr::source(self.local_addr(listener)?, meta.peer, meta.local)
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
    fn backend(&self) -> &'static str {
        "memory"
    }

    fn receive(
        &mut self,
        mut budget: Budget,
        mut sink: impl FnMut(&RxMeta, &mut [u8]),
    ) -> io::Result<usize> {
        let before = budget.datagrams;
        while !budget.is_spent() {
            let mut hub = self.network.lock();
            let endpoint = &mut hub.endpoints[self.index];
            if let Some((listener, dropped)) = endpoint.overflow.take() {
                self.counters.rx_overflows += u64::from(dropped);
                let event = Event::ReceiveOverflow { listener, dropped };
                self.events.push(event, &mut self.counters);
            }
            let packet = endpoint.queue.pop_front();
            drop(hub);
            let Some(Packet { meta, mut bytes }) = packet else {
                break;
            };
            budget.spend(bytes.len());
            self.counters.rx_messages += 1;
            self.counters.rx_datagrams += 1;
            self.counters.rx_bytes += bytes.len() as u64;
            sink(&meta, &mut bytes);
            self.network.lock().spare.push(bytes);
        }
        Ok(before - budget.datagrams)
    }

    fn transmit<R>(
        &mut self,
        budget: Budget,
        emit: impl FnOnce(&mut dyn Egress) -> R,
    ) -> io::Result<R> {
        Ok(emit(&mut Emission { driver: self, budget, listener: None }))
    }

    fn wait(&mut self, _timeout: Option<Duration>) -> io::Result<()> {
        self.waker.take();
        Ok(())
    }

    fn take_event(&mut self) -> Option<Event> {
        self.events.take()
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

/// One transmission.
struct Emission<'a> {
    driver: &'a mut Memory,
    budget: Budget,
    /// Listener that the lent room is for.
    listener: Option<ListenerId>,
}

impl Egress for Emission<'_> {
    fn room(&mut self, listener: ListenerId, size: usize) -> Result<&mut [u8], NoRoom> {
        if self.budget.is_spent() {
            return Err(NoRoom::Budget);
        }
        self.driver.local_addr(listener).ok_or(NoRoom::Unknown)?;
        self.listener = Some(listener);
        let room = &mut self.driver.room;
        room.resize(size.min(MAX_TRANSMIT), 0);
        Ok(room)
    }

    fn commit(&mut self, len: usize, meta: &TxMeta) {
        self.budget.spend(len);
        let Memory { room, network, .. } = &mut *self.driver;
        let listener = self.listener.take().filter(|_| len <= room.len());
        debug_assert!(listener.is_some(), "{len} bytes were committed without room");
        let mut hub = network.lock();
        let spare = hub.spare.pop().unwrap_or_default();
        let mut bytes = std::mem::replace(room, spare);
        drop(hub);
        bytes.truncate(len);
        let source = listener.and_then(|listener| self.driver.source(listener, meta));
        let Some(source) = source else {
            self.driver.counters.tx_errors += 1;
            return;
        };
        if let Some(listener) = listener.filter(|_| len > self.driver.largest) {
            let Memory { events, counters, .. } = &mut *self.driver;
            counters.tx_errors += 1;
            let too_big = Event::TooBig { listener, peer: meta.peer, size: len };
            events.push(too_big, counters);
            return;
        }
        let mut hub = self.driver.network.lock();
        if let Some(bytes) = hub.deliver(source, meta, bytes) {
            hub.spare.push(bytes);
        }
        drop(hub);
        let counters = &mut self.driver.counters;
        counters.tx_messages += 1;
        counters.tx_datagrams += 1;
        counters.tx_bytes += len as u64;
    }
}

/// An egress that keeps the datagrams that are committed, for tests of code that sends.
#[derive(Debug)]
pub struct SentDatagrams {
    /// Committed datagrams, the oldest first.
    pub datagrams: Vec<(ListenerId, TxMeta, Vec<u8>)>,
    /// Remaining budget.
    pub budget: Budget,
    room: Vec<u8>,
    lent: Option<ListenerId>,
}

impl SentDatagrams {
    /// Makes an empty one that takes as much as `budget` allows.
    #[must_use]
    pub fn new(budget: Budget) -> Self {
        Self { datagrams: Vec::new(), budget, room: Vec::new(), lent: None }
    }
}

impl Egress for SentDatagrams {
    fn room(&mut self, listener: ListenerId, size: usize) -> Result<&mut [u8], NoRoom> {
        if self.budget.is_spent() {
            return Err(NoRoom::Budget);
        }
        self.lent = Some(listener);
        self.room.resize(size.min(MAX_TRANSMIT), 0);
        Ok(&mut self.room)
    }

    fn commit(&mut self, len: usize, meta: &TxMeta) {
        self.budget.spend(len);
        let lent = self.lent.take();
        debug_assert!(lent.is_some(), "{len} bytes were committed without room");
        if let Some(listener) = lent {
            let bytes = self.room[..len].to_vec();
            self.datagrams.push((listener, *meta, bytes));
        }
    }
}
