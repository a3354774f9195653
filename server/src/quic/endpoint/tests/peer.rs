//! Clients that break rules, beside one that keeps them. Time is the test's own; nothing is lost.

mod acks;
mod floods;
mod handshake;
mod paths;
mod violations;

use sluicegate_dataplane::{Egress, NoRoom, TxMeta};
use sluicegate_raw_client::{Client, Frame, Kind, Setup, http3};
use tikv_jemalloc_ctl::thread;

use super::fixture::{Bench, settings};
use super::*;
use crate::http::route::Site;

/// Address of the client that keeps the rules, and of those that do not.
const HONEST: &str = "192.0.2.77:4000";
const PEER: &str = "192.0.2.1:5000";
/// Rounds of an exchange are far fewer.
const ENOUGH: usize = 10_000;
/// Bytes that the server sends in one turn of a test, at most.
const ARENA: usize = 32 << 20;
/// Largest datagram.
const ROOM: usize = 1 << 16;

/// A client at an address.
struct Peer {
    client: Client,
    meta: RxMeta,
    /// Bytes sent to the server and received from it.
    sent: usize,
    received: usize,
}

impl Peer {
    fn new(address: &str, setup: Setup) -> Peer {
        Peer {
            client: Client::new(setup),
            meta: meta_of(address),
            sent: 0,
            received: 0,
        }
    }

    /// Returns the response's last status and the bytes of its body so far.
    fn response(&self, stream: u64) -> (Option<u16>, usize) {
        let received = self.client.streams.get(&stream);
        let bytes = received.map_or(&[][..], |received| &received.bytes);
        let (statuses, body) = http3::response(bytes);
        (statuses.last().copied(), body)
    }
}

/// Takes datagrams without allocating.
struct Arena {
    bytes: Vec<u8>,
    /// Receiver of each datagram, and its length.
    sent: Vec<(SocketAddr, usize)>,
    end: usize,
}

impl Arena {
    fn new() -> Arena {
        Arena {
            bytes: vec![0; ARENA],
            sent: Vec::with_capacity(ARENA / 20),
            end: 0,
        }
    }

    fn take(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut start = 0;
        let datagrams = self.sent.drain(..).map(|(to, length)| {
            let bytes = self.bytes[start..start + length].to_vec();
            start += length;
            (to, bytes)
        });
        let datagrams = datagrams.collect();
        self.end = 0;
        datagrams
    }
}

impl Egress for Arena {
    fn room(&mut self, _: ListenerId, size: usize) -> Result<&mut [u8], NoRoom> {
        let rest = &mut self.bytes[self.end..];
        if rest.len() < ROOM || self.sent.len() == self.sent.capacity() {
            return Err(NoRoom::Budget);
        }
        Ok(&mut rest[..size])
    }

    fn commit(&mut self, length: usize, meta: &TxMeta) {
        self.sent.push((meta.peer, length));
        self.end += length;
    }
}

/// Bytes that this thread has allocated and not freed, those of BoringSSL among them.
fn balance() -> i64 {
    let [allocated, freed] = [
        thread::allocatedp::read().unwrap().get(),
        thread::deallocatedp::read().unwrap().get(),
    ];
    i64::try_from(allocated).unwrap() - i64::try_from(freed).unwrap()
}

/// An endpoint, its time, and what it holds.
struct Attack {
    bench: Bench,
    out: Arena,
    /// Bytes that the endpoint has allocated and not freed since the beginning.
    held: i64,
}

impl Attack {
    /// Returns an endpoint with routes for `/bytes/`.
    fn new(change: impl FnOnce(&mut Settings)) -> Attack {
        let settings = settings(|settings| {
            let routes = "[[route]]\npath = \"/bytes/\"\ngenerate = {}\n";
            settings.sessions.site = Site::of_routes(routes, &settings.limits);
            change(settings);
        });
        Attack {
            bench: Bench::new(settings),
            out: Arena::new(),
            held: 0,
        }
    }

    fn endpoint(&self) -> &Endpoint {
        &self.bench.endpoint
    }

    /// Runs something and notes what the endpoint keeps of it.
    fn metered<T>(&mut self, act: impl FnOnce(&mut Endpoint, &mut Arena, Instant) -> T) -> T {
        let before = balance();
        let result = act(&mut self.bench.endpoint, &mut self.out, self.bench.now);
        self.held += balance() - before;
        result
    }

    /// Passes a datagram to the endpoint.
    fn ingest(&mut self, meta: &RxMeta, mut datagram: Vec<u8>) -> Ingest {
        self.metered(|endpoint, _, now| endpoint.ingest(meta, &mut datagram, now, UNIX))
    }

    /// Runs service and emission until nothing is left to do now. Returns the datagrams and their receivers.
    fn turn(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
        self.metered(|endpoint, out, now| {
            for _ in 0..ENOUGH {
                endpoint.service(ENOUGH, now);
                if !endpoint.emit(out, ENOUGH, now) && !endpoint.has_service() {
                    return;
                }
            }
            panic!("the endpoint never rests");
        });
        self.out.take()
    }

    /// Sends what a client has queued. Returns whether there was anything.
    fn speak(&mut self, peer: &mut Peer) -> bool {
        let datagrams = peer.client.take_datagrams();
        let any = !datagrams.is_empty();
        for datagram in datagrams {
            peer.sent += datagram.len();
            self.ingest(&peer.meta, datagram);
        }
        any
    }

    /// Exchanges datagrams until both sides rest.
    fn exchange(&mut self, peer: &mut Peer) {
        for _ in 0..ENOUGH {
            let spoke = self.speak(peer);
            let said = self.turn();
            let silent = said.is_empty();
            hear(peer, said);
            if !spoke && silent {
                return;
            }
        }
        panic!("the two never rest");
    }

    /// Lets time pass for a client and the endpoint, whose timers run.
    fn pass(&mut self, time: Duration, peer: &mut Peer) {
        let end = self.bench.now + time;
        for _ in 0..ENOUGH {
            self.exchange(peer);
            let next = self.endpoint().next_deadline().filter(|at| *at <= end);
            self.bench.now = next.map_or(end, |at| at.max(self.bench.now));
            quiche::clock::set(Some(self.bench.now));
            self.metered(|endpoint, _, now| endpoint.on_deadline(ENOUGH, now));
            if next.is_none() {
                return self.exchange(peer);
            }
        }
        panic!("the endpoint never rests");
    }

    /// Completes a handshake, and opens the client's control stream.
    fn connect(&mut self, address: &str, setup: Setup) -> Peer {
        let mut peer = Peer::new(address, setup);
        self.exchange(&mut peer);
        assert!(peer.client.is_established() && peer.client.is_confirmed());
        peer.client
            .write(http3::CONTROL, &http3::control(&[]), false);
        self.exchange(&mut peer);
        peer
    }

    /// Asks for that many bytes on a stream; returns when the server has sent what it sends at once.
    fn ask(&mut self, peer: &mut Peer, stream: u64, bytes: usize) {
        let head = http3::get(&format!("/bytes/{bytes}"), &[]);
        peer.client.write(stream, &head, true);
        self.exchange(peer);
    }

    /// Lets the client that keeps the rules make its next request.
    fn check_honest(&mut self, honest: &mut Peer) {
        let stream = honest
            .client
            .streams
            .keys()
            .filter(|id| **id % 4 == 0)
            .count() as u64
            * 4;
        self.ask(honest, stream, 10_000);
        self.pass(Duration::from_secs(1), honest);
        assert_eq!(honest.response(stream), (Some(200), 10_000));
        assert!(honest.client.streams[&stream].is_finished());
    }
}

/// Passes a client the datagrams that were sent to its address.
fn hear(peer: &mut Peer, said: Vec<(SocketAddr, Vec<u8>)>) {
    for (to, datagram) in said {
        if to == peer.meta.peer {
            peer.received += datagram.len();
            peer.client.receive(&datagram);
        }
    }
}
