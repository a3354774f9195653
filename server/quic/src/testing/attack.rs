//! An endpoint and clients that may break rules, in a time of their own, and what the endpoint holds meanwhile.

use std::cell::Cell;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sluicegate_dataplane::{Ecn, Egress, ListenerId, NoRoom, RxMeta, TxMeta};
use sluicegate_raw_client::{Client, Setup, http3};
use tikv_jemalloc_ctl::thread;

use sluicegate_base::tls::{Alternatives, Identity, ListenerTls};

use super::PageSession;
use crate::application::Application;
use crate::endpoint::{Endpoint, Ingest};
use crate::settings::Settings;
use crate::transport::server_config;

/// Time since 1970 of everything that happens, unless a test changes it.
pub const UNIX: Duration = Duration::from_secs(1_800_000_000);
/// Rounds of an exchange are far fewer.
const ENOUGH: usize = 10_000;
/// Bytes that the server sends in one turn of a test, at most.
const ARENA: usize = 32 << 20;
/// Largest datagram.
const ROOM: usize = 1 << 16;

/// A client at an address.
pub struct Peer {
    /// The client.
    pub client: Client,
    /// Its address, as the server sees it.
    pub meta: RxMeta,
    /// Bytes sent to the server.
    pub sent: usize,
    /// Bytes received from it.
    pub received: usize,
}

impl Peer {
    /// Returns a client that has not sent anything.
    pub fn new(address: &str, setup: Setup) -> Peer {
        Peer { client: Client::new(setup), meta: meta_of(address), sent: 0, received: 0 }
    }

    /// Returns the response's last status and the bytes of its body so far.
    pub fn response(&self, stream: u64) -> (Option<u16>, usize) {
        let received = self.client.streams.get(&stream);
        let bytes = received.map_or(&[][..], |received| &received.bytes);
        let (statuses, body) = http3::response(bytes);
        (statuses.last().copied(), body)
    }
}

/// Takes datagrams without allocating.
#[derive(Default)]
pub struct Arena {
    bytes: Vec<u8>,
    /// Receiver of each datagram, and its length.
    sent: Vec<(SocketAddr, usize)>,
    end: usize,
}

thread_local! {
    /// Arena of the thread's last endpoint: a new one costs more than most attacks.
    static SPARE: Cell<Option<Arena>> = const { Cell::new(None) };
}

impl Arena {
    /// Returns an empty arena, the spare one if there is one.
    fn new() -> Arena {
        let spare = SPARE.take();
        spare.unwrap_or_else(|| Arena {
            bytes: vec![0; ARENA],
            sent: Vec::with_capacity(ARENA / 20),
            end: 0,
        })
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
        thread::allocatedp::read().expect("jemalloc").get(),
        thread::deallocatedp::read().expect("jemalloc").get(),
    ];
    allocated.wrapping_sub(freed).cast_signed()
}

/// An endpoint, its time, and what it holds.
pub struct Attack<A: Application = PageSession> {
    endpoint: Endpoint<A>,
    /// Time.
    pub now: Instant,
    /// Time since 1970.
    pub unix: Duration,
    out: Arena,
    /// Bytes that the endpoint has allocated and not freed since the beginning.
    pub held: i64,
}

impl Attack {
    /// Returns an endpoint that serves pages.
    pub fn new(change: impl FnOnce(&mut Settings<PageSession>)) -> Attack {
        let mut settings = Settings::plain(0, 1);
        change(&mut settings);
        Attack::of(settings)
    }
}

impl<A: Application> Attack<A> {
    /// Returns an endpoint with these settings.
    pub fn of(settings: Settings<A>) -> Self {
        let now = sluicegate_base::clock::now();
        quiche::clock::set(Some(now));
        Attack {
            endpoint: Endpoint::new(settings, now),
            now,
            unix: UNIX,
            out: Arena::new(),
            held: 0,
        }
    }

    /// Returns the endpoint.
    pub fn endpoint(&self) -> &Endpoint<A> {
        &self.endpoint
    }

    /// Runs something and notes what the endpoint keeps of it.
    pub fn metered<T>(
        &mut self,
        act: impl FnOnce(&mut Endpoint<A>, &mut Arena, Instant) -> T,
    ) -> T {
        let before = balance();
        let result = act(&mut self.endpoint, &mut self.out, self.now);
        self.held += balance() - before;
        result
    }

    /// Passes a datagram to the endpoint.
    pub fn ingest(&mut self, meta: &RxMeta, mut datagram: Vec<u8>) -> Ingest {
        let unix = self.unix;
        self.metered(|endpoint, _, now| endpoint.ingest(meta, &mut datagram, now, unix))
    }

    /// Runs service and emission until nothing is left to do now. Returns the datagrams and their receivers.
    ///
    /// # Panics
    /// If the endpoint never rests.
    pub fn turn(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
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
    pub fn speak(&mut self, peer: &mut Peer) -> bool {
        let datagrams = peer.client.take_datagrams();
        let any = !datagrams.is_empty();
        for datagram in datagrams {
            peer.sent += datagram.len();
            self.ingest(&peer.meta, datagram);
        }
        any
    }

    /// Exchanges datagrams until both sides rest.
    ///
    /// # Panics
    /// If the two never rest.
    pub fn exchange(&mut self, peer: &mut Peer) {
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
    ///
    /// # Panics
    /// If the endpoint never rests.
    pub fn pass(&mut self, time: Duration, peer: &mut Peer) {
        let end = self.now + time;
        for _ in 0..ENOUGH {
            self.exchange(peer);
            let next = self.metered(|endpoint, _, _| endpoint.next_deadline());
            let next = next.filter(|at| *at <= end);
            self.now = next.map_or(end, |at| at.max(self.now));
            quiche::clock::set(Some(self.now));
            self.metered(|endpoint, _, now| endpoint.on_deadline(ENOUGH, now));
            if next.is_none() {
                return self.exchange(peer);
            }
        }
        panic!("the endpoint never rests");
    }

    /// Completes a handshake, and opens the client's control stream.
    ///
    /// # Panics
    /// If the handshake fails.
    pub fn connect(&mut self, address: &str, setup: Setup) -> Peer {
        let mut peer = Peer::new(address, setup);
        self.exchange(&mut peer);
        assert!(peer.client.is_established() && peer.client.is_confirmed());
        peer.client.write(http3::CONTROL, &http3::control(&[]), false);
        self.exchange(&mut peer);
        peer
    }

    /// Asks for that many bytes on a stream; returns when the server has sent what it sends at once.
    pub fn ask(&mut self, peer: &mut Peer, stream: u64, bytes: usize) {
        let head = http3::get(&format!("/bytes/{bytes}"), &[]);
        peer.client.write(stream, &head, true);
        self.exchange(peer);
    }

    /// Lets the client that keeps the rules make its next request.
    ///
    /// # Panics
    /// If it is not served.
    pub fn check_honest(&mut self, honest: &mut Peer) {
        let stream = honest.client.streams.keys().filter(|id| **id % 4 == 0).count() as u64 * 4;
        self.ask(honest, stream, 10_000);
        self.pass(Duration::from_secs(1), honest);
        assert_eq!(honest.response(stream), (Some(200), 10_000));
        assert!(honest.client.streams[&stream].is_finished());
    }
}

/// Has the only listener accept early data.
///
/// # Panics
/// If there is no listener 0.
pub fn with_early_data<A: Application>(settings: &mut Settings<A>) {
    settings.quic.early_data = true;
    let identity = Identity::self_signed().expect("a certificate");
    let tls = ListenerTls {
        listener: "main",
        secrets: &settings.secrets,
        quic: &settings.quic,
        limits: &settings.limits,
    };
    let config = server_config::<A>(&tls, &identity, &Alternatives::default());
    let listener = settings.listeners.get_mut(&ListenerId(0));
    listener.expect("the only listener").config = config.expect("a transport configuration");
}

impl<A: Application> Drop for Attack<A> {
    fn drop(&mut self) {
        self.out.take();
        SPARE.set(Some(std::mem::take(&mut self.out)));
        quiche::clock::set(None);
    }
}

/// Returns the metadata of a datagram from `peer`.
///
/// # Panics
/// If `peer` is no address.
pub fn meta_of(peer: &str) -> RxMeta {
    let [peer, local]: [SocketAddr; 2] =
        [peer, "192.0.2.2:443"].map(|text| text.parse().expect("an address"));
    RxMeta { listener: ListenerId(0), peer, local, ecn: Ecn::NotCapable }
}

/// Passes a client the datagrams that were sent to its address.
pub fn hear(peer: &mut Peer, said: Vec<(SocketAddr, Vec<u8>)>) {
    for (to, datagram) in said {
        if to == peer.meta.peer {
            peer.received += datagram.len();
            peer.client.receive(&datagram);
        }
    }
}
