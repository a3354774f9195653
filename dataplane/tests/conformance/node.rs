//! A driver, and short ways to send and receive with it.

use std::net::SocketAddr;
use std::time::Duration;

use sluicegate_dataplane::{
    Budget, Dataplane, Driver, Ecn, Event, ListenerId, NoRoom, RxMeta, TxMeta,
};

use crate::rig::{FIRST, Held, Kind};

/// Number of waits, of [`ROUND`] each, after which a test fails.
const ROUNDS: usize = 500;
const ROUND: Duration = Duration::from_millis(20);

/// A driver and where its listeners are.
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) driver: Driver,
    pub(crate) addresses: Vec<SocketAddr>,
    /// After the driver, which uses it.
    _held: Option<Held>,
}

/// One received datagram.
#[derive(Clone, Debug)]
pub(crate) struct Datagram {
    pub(crate) meta: RxMeta,
    pub(crate) bytes: Vec<u8>,
}

impl Node {
    pub(crate) fn new(
        kind: Kind,
        driver: Driver,
        addresses: Vec<SocketAddr>,
        held: Option<Held>,
    ) -> Self {
        Self { kind, driver, addresses, _held: held }
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
        panic!("{} of {count} datagrams arrived; {counters:?}", datagrams.len());
    }

    /// Receives in one call and returns the number of datagrams.
    pub(crate) fn receive_once(&mut self, budget: Budget, into: &mut Vec<Datagram>) -> usize {
        let before = into.len();
        let received = self.driver.receive(budget, |meta, bytes| {
            into.push(Datagram { meta: *meta, bytes: bytes.to_vec() });
        });
        assert_eq!(received.unwrap(), into.len() - before);
        into.len() - before
    }
}

/// Sends `count` numbered datagrams through a socket that is full at times, until all have arrived. Returns how often it was
/// full, and the numbers in the order of arrival.
pub(crate) fn send_through_a_full_socket(
    client: &mut Node,
    server: &mut Node,
    count: usize,
) -> (usize, Vec<usize>) {
    const SIZE: usize = 1000;
    let meta = to(server.address());
    let (mut next, mut blocked, mut received) = (0, 0, Vec::new());
    for _ in 0..20_000 {
        let refused = client.driver.transmit(Budget::UNLIMITED, |out| {
            while next < count {
                out.room(FIRST, SIZE)?.copy_from_slice(&numbered(next, SIZE));
                out.commit(SIZE, &meta);
                next += 1;
            }
            Ok(())
        });
        let full = refused.unwrap() == Err(NoRoom::Blocked);
        blocked += usize::from(full);
        // It returns when there is room again.
        let timeout = (!full).then_some(Duration::ZERO);
        client.driver.wait(timeout).unwrap();
        server.receive_once(Budget::UNLIMITED, &mut received);
        if received.len() >= count {
            break;
        }
        server.driver.wait(Some(Duration::from_millis(1))).unwrap();
    }
    let numbers = received.iter().map(|datagram| number_of(&datagram.bytes));
    (blocked, numbers.collect())
}

/// Checks that datagrams to a peer without a route are counted and reported, and that all others arrive.
pub(crate) fn check_unreachable(client: &mut Node, server: &mut Node) {
    let nowhere: SocketAddr = "192.0.2.1:9".parse().unwrap();
    let (good, bad) = (to(server.address()), to(nowhere));
    let bytes: Vec<_> = (0..60).map(|number| numbered(number, 60)).collect();
    client.send_all(bytes.iter().enumerate().map(|(number, bytes)| {
        let meta = if number % 3 == 0 { bad } else { good };
        (FIRST, meta, &bytes[..])
    }));
    let counters = client.driver.counters();
    assert_eq!((counters.tx_errors, counters.tx_datagrams), (20, 40));
    let expected: Vec<usize> = (0..60).filter(|n| n % 3 != 0).collect();
    let received = server.collect(40);
    let numbers: Vec<usize> = received.iter().map(|d| number_of(&d.bytes)).collect();
    assert_eq!(numbers, expected);
    let unreachable = Event::Unreachable { listener: FIRST, peer: nowhere };
    assert_eq!(client.events(), [unreachable; 20]);
}

/// Returns the plainest metadata for a datagram to `peer`.
pub(crate) fn to(peer: SocketAddr) -> TxMeta {
    TxMeta { peer, local: None, ecn: Ecn::NotCapable, departure: None }
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
