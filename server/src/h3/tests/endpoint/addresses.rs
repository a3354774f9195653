//! Addresses by which requests are decided: those at which clients have proved to receive (RFC 9000 §9.3, §21.5.6).

mod early;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use proptest::prelude::*;
use sluicegate_base::address::ValidatedAddress;
use sluicegate_http::exchange::accounts::Accounts;
use sluicegate_http::exchange::message::{Envelope, Head, Request, ToFront, ToHandler};
use sluicegate_http::exchange::ring::{WorkerRing, rings};
use sluicegate_quic::testing::{Peer, meta_of};
use sluicegate_raw_client::{Frame, PacketKind, Setup, http3};

use super::*;

/// Addresses at which the client receives; [`PEER`] is the first.
const OWN: [&str; 4] = [PEER, "192.0.2.1:5001", "198.51.100.7:6000", "[2001:db8::7]:6000"];
/// Addresses of others, in whose name the client sends.
const FORGED: [&str; 3] = ["192.0.2.200:40000", "203.0.113.9:40000", "[2001:db8::bad]:40000"];
/// A route for all, and one for a single address of others.
const ROUTES: &str = "[[route]]\npath = \"/app/\"\nproxy = { upstreams = \"127.0.0.1:1\" }\n\
     [[route]]\npath = \"/admin/\"\nallow = [\"192.0.2.200/32\", \"203.0.113.9/32\"]\n\
     proxy = { upstreams = \"127.0.0.1:1\" }\n";
/// Time after which an address that was left is validated again.
const RECENT: Duration = Duration::from_secs(10);

/// A client that may send from anywhere, and the handler of its requests.
struct Trial {
    attack: Attack<Http3Session>,
    peer: Peer,
    worker_ring: WorkerRing,
    /// Addresses that the client has proved.
    proved: BTreeSet<SocketAddr>,
    /// Challenges that the client has received and not answered, with the address of each.
    challenges: Vec<(SocketAddr, [u8; 8])>,
    /// The next request stream.
    next: u64,
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Returns an endpoint with [`ROUTES`], and the end of its ring to a handler.
fn endpoint(
    change: impl FnOnce(&mut Settings<Http3Session>),
) -> (Attack<Http3Session>, WorkerRing) {
    let mut far = None;
    let attack = attack(|settings| {
        settings.shared.site = Site::of_routes(ROUTES, &settings.limits);
        let (origin_ring, worker_ring) = rings(64, Accounts::new(1 << 16, u64::MAX));
        settings.shared.origin_ring = Some(origin_ring);
        far = Some(worker_ring);
        change(settings);
    });
    (attack, far.unwrap())
}

/// Plays the handler of all requests: they get an empty response. Returns them.
fn handle(attack: &mut Attack<Http3Session>, worker_ring: &mut WorkerRing) -> Vec<Request> {
    attack.metered(|endpoint, _, _| endpoint.flush_messages());
    let mut requests = Vec::new();
    let mut opened = Vec::new();
    while let Some(Envelope { exchange, message }) = worker_ring.take() {
        if let ToHandler::Open { request, .. } = message {
            requests.push(*request);
            opened.push(exchange);
        }
    }
    for exchange in opened {
        let head = Head { status: 200, fields: Vec::new(), length: Some(0), end: true };
        for message in [ToFront::Head(head), ToFront::Closed] {
            worker_ring.give(Envelope { exchange, message }).unwrap();
        }
    }
    attack.metered(|endpoint, _, now| endpoint.on_messages(usize::MAX, now));
    requests
}

impl Trial {
    fn new() -> Trial {
        let (mut attack, worker_ring) = endpoint(|_| {});
        let mut peer = attack.connect(PEER, Setup::new(1));
        peer.client.policy.paths = false;
        Trial {
            attack,
            peer,
            worker_ring,
            proved: BTreeSet::from([address(PEER)]),
            challenges: Vec::new(),
            next: 0,
        }
    }

    /// Sends what the client has queued, from an address.
    fn send_from(&mut self, from: &str) {
        let meta = meta_of(from);
        for datagram in self.peer.client.take_datagrams() {
            self.attack.ingest(&meta, datagram);
        }
    }

    fn ping_from(&mut self, from: &str) {
        self.peer.client.send(&[Frame::Ping, Frame::Padding(1150)]);
        self.send_from(from);
    }

    /// Requests a path from an address; returns the stream.
    fn ask_from(&mut self, from: &str, method: &str, path: &str) -> u64 {
        let stream = self.next;
        self.next += 4;
        let head = http3::headers(&[
            (":method", method),
            (":scheme", "https"),
            (":authority", "localhost"),
            (":path", path),
        ]);
        self.peer.client.write(stream, &head, true);
        self.send_from(from);
        stream
    }

    /// Answers a challenge that was received, from an address. The address that got it is proved.
    fn answer_from(&mut self, from: &str, place: usize) {
        if self.challenges.is_empty() {
            return;
        }
        let (at, data) = self.challenges.remove(place % self.challenges.len());
        self.proved.insert(at);
        self.peer.client.send(&[Frame::PathResponse(data), Frame::Padding(1150)]);
        self.send_from(from);
    }

    fn hear(&mut self, said: Vec<(SocketAddr, Vec<u8>)>) {
        for (to, datagram) in said {
            if !OWN.iter().any(|own| address(own) == to) {
                continue;
            }
            let before = self.peer.client.frames.len();
            self.peer.client.receive(&datagram);
            for frame in &self.peer.client.frames[before..] {
                if let Frame::PathChallenge(data) = frame {
                    self.challenges.push((to, *data));
                }
            }
        }
    }

    /// Lets the endpoint work, and checks the addresses of the requests that it decides. Returns these.
    fn turn(&mut self) -> Vec<ValidatedAddress> {
        let mut decided = Vec::new();
        for _ in 0..4 {
            let said = self.attack.turn();
            self.hear(said);
            for request in handle(&mut self.attack, &mut self.worker_ring) {
                decided.push(request.peer.address);
            }
        }
        for by in &decided {
            let is_proved = |proved: &SocketAddr| ValidatedAddress::from(*proved) == *by;
            assert!(self.proved.iter().any(is_proved), "decided by {by}");
        }
        self.attack.endpoint().check();
        decided
    }

    fn pass(&mut self, time: Duration) {
        let end = self.attack.now + time;
        loop {
            self.turn();
            let next = self.attack.metered(|endpoint, _, _| endpoint.next_deadline());
            let next = next.filter(|at| *at <= end);
            self.attack.now = next.map_or(end, |at| at.max(self.attack.now));
            quiche::clock::set(Some(self.attack.now));
            self.attack.metered(|endpoint, _, now| endpoint.on_deadline(usize::MAX, now));
            if next.is_none() {
                self.turn();
                return;
            }
        }
    }

    fn status(&self, stream: u64) -> Option<u16> {
        self.peer.response(stream).0
    }
}

/// The client completes its handshake, and sends its next datagram in the name of somebody whom a rule admits.
#[test]
fn request_from_a_forged_address_is_decided_by_the_last_validated_one() {
    for method in ["GET", "POST"] {
        for forged in FORGED {
            let mut trial = Trial::new();
            let stream = trial.ask_from(forged, method, "/admin/x");
            assert_eq!(trial.turn(), [], "{method} from {forged}");
            // It comes back to its own address for the response.
            trial.ping_from(PEER);
            trial.pass(Duration::from_secs(2));
            assert_eq!(trial.status(stream), Some(403), "{method} from {forged}");
            let open = trial.ask_from(forged, method, "/app/x");
            assert_eq!(trial.turn(), [PEER.parse().unwrap()]);
            trial.ping_from(PEER);
            trial.pass(Duration::from_secs(2));
            assert_eq!(trial.status(open), Some(200));
        }
    }
}

#[test]
fn client_that_moves_is_decided_by_its_new_address_once_that_is_validated() {
    for own in &OWN[1..] {
        let mut trial = Trial::new();
        trial.ask_from(own, "GET", "/app/x");
        assert_eq!(trial.turn(), [PEER.parse().unwrap()], "{own}");
        trial.answer_from(own, 0);
        trial.turn();
        trial.ask_from(own, "GET", "/app/x");
        assert_eq!(trial.turn(), [own.parse().unwrap()]);
        // The way back needs no other proof for a while.
        trial.ask_from(PEER, "GET", "/app/x");
        assert_eq!(trial.turn(), [PEER.parse().unwrap()]);
    }
}

/// The request and the proof come in one turn, and so does a datagram from a forged address behind them.
#[test]
fn proof_counts_at_once_and_a_forged_address_behind_it_does_not() {
    let mut trial = Trial::new();
    trial.ping_from(OWN[2]);
    trial.turn();
    trial.answer_from(OWN[2], 0);
    trial.ask_from(FORGED[0], "GET", "/app/x");
    assert_eq!(trial.turn(), [OWN[2].parse().unwrap()]);
}

#[test]
fn address_that_was_left_a_while_ago_is_validated_again() {
    let mut trial = Trial::new();
    trial.ping_from(OWN[2]);
    trial.turn();
    trial.answer_from(OWN[2], 0);
    trial.turn();
    trial.pass(RECENT);
    trial.ask_from(PEER, "GET", "/app/x");
    assert_eq!(trial.turn(), [OWN[2].parse().unwrap()]);
    trial.answer_from(PEER, 0);
    trial.ask_from(PEER, "GET", "/app/x");
    assert_eq!(trial.turn(), [PEER.parse().unwrap()]);
}

/// Forged addresses in between keep an address that was left no longer.
#[test]
fn forged_addresses_keep_no_address_that_was_left() {
    let mut trial = Trial::new();
    trial.ping_from(OWN[2]);
    trial.turn();
    trial.answer_from(OWN[2], 0);
    trial.turn();
    let end = trial.attack.now + RECENT;
    for forged in FORGED.iter().cycle() {
        if trial.attack.now > end {
            break;
        }
        trial.ping_from(forged);
        trial.pass(Duration::from_millis(200));
    }
    trial.ask_from(PEER, "GET", "/app/x");
    assert_eq!(trial.turn(), [OWN[2].parse().unwrap()]);
}

/// One act of the client.
#[derive(Clone, Copy, Debug)]
enum Act {
    Ping(&'static str),
    Ask(&'static str, &'static str),
    Answer(&'static str, usize),
    Turn,
    Pass(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let anywhere = || prop::sample::select([&OWN[..], &FORGED[..]].concat());
    prop_oneof![
        2 => anywhere().prop_map(Act::Ping),
        4 => (anywhere(), prop::sample::select(vec!["GET", "POST"]))
            .prop_map(|(from, method)| Act::Ask(from, method)),
        3 => (anywhere(), 0..8_usize).prop_map(|(from, place)| Act::Answer(from, place)),
        3 => Just(Act::Turn),
        1 => (0..15_000_u64).prop_map(Act::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Whatever migrations a client makes or pretends, no request is decided by an address before it is validated.
    #[test]
    fn requests_are_decided_by_validated_addresses_whatever_the_client_does(
        acts in prop::collection::vec(act(), 1..40),
    ) {
        let mut trial = Trial::new();
        for act in acts {
            match act {
                Act::Ping(from) => trial.ping_from(from),
                Act::Ask(from, method) => {
                    trial.ask_from(from, method, "/app/x");
                }
                Act::Answer(from, place) => trial.answer_from(from, place),
                Act::Turn => {
                    trial.turn();
                }
                Act::Pass(ms) => trial.pass(Duration::from_millis(ms)),
            }
        }
        trial.turn();
        if trial.attack.endpoint().is_empty() || trial.peer.client.closed().is_some() {
            return Ok(());
        }
        // Forged addresses keep nobody from being served at the client's own.
        for _ in 0..5 {
            trial.ping_from(PEER);
            trial.turn();
            while !trial.challenges.is_empty() {
                trial.answer_from(PEER, 0);
            }
            // A challenge that was lost comes again after a PTO.
            trial.pass(Duration::from_secs(1));
        }
        trial.ask_from(PEER, "GET", "/app/x");
        prop_assert_eq!(trial.turn(), [PEER.parse().unwrap()]);
    }
}
