//! An endpoint and clients that may break rules, in a time of their own, and what the endpoint holds meanwhile.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use crate::h3::Session;
use sluicegate_dataplane::{Ecn, Egress, ListenerId, NoRoom, RxMeta, TxMeta};
use sluicegate_raw_client::{Client, Setup, http3};
use tikv_jemalloc_ctl::thread;

use crate::http::route::Site;
use crate::quic::endpoint::{Endpoint, Ingest};
use crate::quic::settings::Settings;
use crate::quic::transport::server_config;
use crate::tls::{Alternatives, Identity};

/// Time since 1970 of everything that happens, unless a test changes it.
pub(in crate::quic) const UNIX: Duration = Duration::from_secs(1_800_000_000);
/// Rounds of an exchange are far fewer.
const ENOUGH: usize = 10_000;
/// Bytes that the server sends in one turn of a test, at most.
const ARENA: usize = 32 << 20;
/// Largest datagram.
const ROOM: usize = 1 << 16;

/// A client at an address.
pub(in crate::quic) struct Peer {
    pub(in crate::quic) client: Client,
    pub(in crate::quic) meta: RxMeta,
    /// Bytes sent to the server and received from it.
    pub(in crate::quic) sent: usize,
    pub(in crate::quic) received: usize,
}

impl Peer {
    pub(in crate::quic) fn new(address: &str, setup: Setup) -> Peer {
        Peer { client: Client::new(setup), meta: meta_of(address), sent: 0, received: 0 }
    }

    /// Returns the response's last status and the bytes of its body so far.
    pub(in crate::quic) fn response(&self, stream: u64) -> (Option<u16>, usize) {
        let received = self.client.streams.get(&stream);
        let bytes = received.map_or(&[][..], |received| &received.bytes);
        let (statuses, body) = http3::response(bytes);
        (statuses.last().copied(), body)
    }
}

/// Takes datagrams without allocating.
#[derive(Default)]
pub(in crate::quic) struct Arena {
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
pub(in crate::quic) struct Attack {
    endpoint: Endpoint<Session>,
    pub(in crate::quic) now: Instant,
    /// Time since 1970.
    pub(in crate::quic) unix: Duration,
    out: Arena,
    /// Bytes that the endpoint has allocated and not freed since the beginning.
    pub(in crate::quic) held: i64,
}

impl Attack {
    /// Returns an endpoint with routes for `/bytes/`.
    pub(in crate::quic) fn new(change: impl FnOnce(&mut Settings<Session>)) -> Attack {
        static SITE: LazyLock<Arc<Site>> = LazyLock::new(|| {
            let routes = "[[route]]\npath = \"/bytes/\"\ngenerate = {}\n";
            Site::of_routes(routes, &sluicegate_config::Config::embedded().limits)
        });
        let mut settings = Settings::plain(0, 1);
        settings.shared.site = Arc::clone(&SITE);
        change(&mut settings);
        let now = crate::clock::now();
        quiche::clock::set(Some(now));
        Attack {
            endpoint: Endpoint::new(settings, now),
            now,
            unix: UNIX,
            out: Arena::new(),
            held: 0,
        }
    }

    pub(in crate::quic) fn endpoint(&self) -> &Endpoint<Session> {
        &self.endpoint
    }

    /// Runs something and notes what the endpoint keeps of it.
    pub(in crate::quic) fn metered<T>(
        &mut self,
        act: impl FnOnce(&mut Endpoint<Session>, &mut Arena, Instant) -> T,
    ) -> T {
        let before = balance();
        let result = act(&mut self.endpoint, &mut self.out, self.now);
        self.held += balance() - before;
        result
    }

    /// Passes a datagram to the endpoint.
    pub(in crate::quic) fn ingest(&mut self, meta: &RxMeta, mut datagram: Vec<u8>) -> Ingest {
        let unix = self.unix;
        self.metered(|endpoint, _, now| endpoint.ingest(meta, &mut datagram, now, unix))
    }

    /// Runs service and emission until nothing is left to do now. Returns the datagrams and their receivers.
    pub(in crate::quic) fn turn(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
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
    pub(in crate::quic) fn speak(&mut self, peer: &mut Peer) -> bool {
        let datagrams = peer.client.take_datagrams();
        let any = !datagrams.is_empty();
        for datagram in datagrams {
            peer.sent += datagram.len();
            self.ingest(&peer.meta, datagram);
        }
        any
    }

    /// Exchanges datagrams until both sides rest.
    pub(in crate::quic) fn exchange(&mut self, peer: &mut Peer) {
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
    pub(in crate::quic) fn pass(&mut self, time: Duration, peer: &mut Peer) {
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
    pub(in crate::quic) fn connect(&mut self, address: &str, setup: Setup) -> Peer {
        let mut peer = Peer::new(address, setup);
        self.exchange(&mut peer);
        assert!(peer.client.is_established() && peer.client.is_confirmed());
        peer.client.write(http3::CONTROL, &http3::control(&[]), false);
        self.exchange(&mut peer);
        peer
    }

    /// Asks for that many bytes on a stream; returns when the server has sent what it sends at once.
    pub(in crate::quic) fn ask(&mut self, peer: &mut Peer, stream: u64, bytes: usize) {
        let head = http3::get(&format!("/bytes/{bytes}"), &[]);
        peer.client.write(stream, &head, true);
        self.exchange(peer);
    }

    /// Lets the client that keeps the rules make its next request.
    pub(in crate::quic) fn check_honest(&mut self, honest: &mut Peer) {
        let stream = honest.client.streams.keys().filter(|id| **id % 4 == 0).count() as u64 * 4;
        self.ask(honest, stream, 10_000);
        self.pass(Duration::from_secs(1), honest);
        assert_eq!(honest.response(stream), (Some(200), 10_000));
        assert!(honest.client.streams[&stream].is_finished());
    }
}

/// Has the only listener accept early data.
pub(in crate::quic) fn with_early_data(settings: &mut Settings<Session>) {
    settings.quic.early_data = true;
    let identity = Identity::self_signed().expect("a certificate");
    let config = server_config::<Session>(
        "main",
        (&identity, &Alternatives::default()),
        &settings.quic,
        &settings.limits,
        &settings.secrets,
    );
    let listener = settings.listeners.get_mut(&ListenerId(0));
    listener.expect("the only listener").config = config.expect("a transport configuration");
}

impl Drop for Attack {
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
pub(in crate::quic) fn meta_of(peer: &str) -> RxMeta {
    let [peer, local]: [SocketAddr; 2] =
        [peer, "192.0.2.2:443"].map(|text| text.parse().expect("an address"));
    RxMeta { listener: ListenerId(0), peer, local, ecn: Ecn::NotCapable }
}

/// Passes a client the datagrams that were sent to its address.
pub(in crate::quic) fn hear(peer: &mut Peer, said: Vec<(SocketAddr, Vec<u8>)>) {
    for (to, datagram) in said {
        if to == peer.meta.peer {
            peer.received += datagram.len();
            peer.client.receive(&datagram);
        }
    }
}
