//! An endpoint among clients of all kinds, real ones and forgers.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluicegate_dataplane::memory::SentDatagrams;
use sluicegate_dataplane::{Budget, Ecn, ListenerId, RxMeta};

use sluicegate_base::properties::Bytes;
use sluicegate_http::route::Site;
use sluicegate_quic::cid::CidSchemes;
use sluicegate_quic::connection_gauges::ConnectionGauges;
use sluicegate_quic::endpoint::{Endpoint, Ingest};
use sluicegate_quic::header::Header;

use super::client::Client;
use crate::h3::Http3Session;
use crate::snapshot::plain_settings;

/// Steps of a trial; what is left of the string is not tried.
const STEPS: usize = 64;
/// Datagrams at a step, and timers at the end, are far fewer.
const ENOUGH: usize = 10_000;
/// Connections that the endpoint may have.
const CONNECTIONS: u64 = 6;
/// Clients that the endpoint may meet.
const CLIENTS: usize = 4;
const SERVER: &str = "192.0.2.99:443";
/// Two of one address, one that is the first in IPv6, two of one customer's network.
const PEERS: [&str; 6] = [
    "192.0.2.1:5000",
    "192.0.2.1:5001",
    "[::ffff:192.0.2.1]:5000",
    "192.0.2.2:5000",
    "[2001:db8::1]:5000",
    "[2001:db8::2]:0",
];

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// Bytes from and to an address.
#[derive(Debug, Default)]
struct Traffic {
    received: usize,
    sent: usize,
    /// Somebody there has heard the server, and may prove it.
    heard: bool,
}

struct Bench {
    endpoint: Endpoint<Http3Session>,
    now: Instant,
    traffic: BTreeMap<SocketAddr, Traffic>,
    clients: Vec<Client>,
    /// Answers that nobody has heard, the latest last.
    answers: VecDeque<(SocketAddr, Vec<u8>)>,
    /// Latest datagrams of the clients.
    past: VecDeque<Vec<u8>>,
    established: bool,
}

/// Lets an endpoint take whatever the string says, from whom, and when. No peer gets more than three times what came from
/// its address before it has heard the server, everything the endpoint holds is bounded, and in the end it holds nothing.
/// `true` where a client got through.
pub fn datagrams(bytes: &[u8]) -> bool {
    let mut bytes = Bytes::new(bytes);
    let mut bench = Bench::new(bytes.byte());
    for _ in 0..STEPS {
        if bytes.is_empty() {
            break;
        }
        bench.step(&mut bytes);
        bench.check();
    }
    bench.end();
    bench.established
}

impl Bench {
    fn new(kind: u8) -> Bench {
        let config = sluicegate_config::Config::embedded();
        let mut settings = plain_settings(0, 1 + usize::from(kind & 1));
        settings.limits.connections_per_worker = CONNECTIONS;
        settings.limits.connections_per_client = 3;
        settings.quic.retry_above = [None, Some(0), Some(1), Some(2)][usize::from(kind >> 1 & 3)];
        let site = Site::compile(&config.routes, &settings.limits);
        settings.shared.site = Arc::new(site.expect("the built-in pages"));
        let now = sluicegate_base::clock::now();
        quiche::clock::set(Some(now));
        Bench {
            endpoint: Endpoint::new(settings, now),
            now,
            traffic: BTreeMap::new(),
            clients: Vec::new(),
            answers: VecDeque::new(),
            past: VecDeque::new(),
            established: false,
        }
    }

    fn step(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.byte() % 12 {
            0 => self.forge(&raw(bytes), bytes),
            1 => self.forge(&long(bytes), bytes),
            2 => self.open(bytes),
            3 => self.speak(bytes, |_, _| {}),
            4 => self.hear(bytes),
            5 => self.speak(bytes, alter),
            6 => {
                let from = peer(bytes);
                self.speak_from(bytes, Some(from), |_, _| {});
            }
            7 => {
                let at = usize::from(bytes.byte());
                let mut past =
                    self.past.get(at % self.past.len().max(1)).cloned().unwrap_or_default();
                alter(&mut past, bytes);
                self.forge(&past, bytes);
            }
            8 => {
                let time = Duration::from_millis(1 << (bytes.byte() % 16));
                self.pass(time);
            }
            9 => self.forge(&self.short(bytes), bytes),
            10 => self.write(bytes),
            _ => match bytes.byte() % 16 {
                0 => self.endpoint.drain(self.now),
                1 => self.endpoint.close_all(self.now),
                code => self.with_client(bytes, |client, _| client.close(code.into())),
            },
        }
        self.collect();
    }

    /// Sends a datagram from wherever the string says.
    fn forge(&mut self, datagram: &[u8], bytes: &mut Bytes<'_>) {
        self.send(peer(bytes), datagram.to_vec());
    }

    fn send(&mut self, from: SocketAddr, mut datagram: Vec<u8>) {
        let meta = RxMeta {
            listener: ListenerId(0),
            peer: from,
            local: address(SERVER),
            ecn: Ecn::NotCapable,
        };
        self.traffic(from).received += datagram.len();
        let unix = Duration::from_secs(1_800_000_000);
        let before = self.endpoint.counters.processed.total();
        let taken = self.endpoint.ingest(&meta, &mut datagram, self.now, unix);
        match taken {
            Ingest::Done | Ingest::Misrouted(1) => {}
            Ingest::Foreign(_) => {
                self.endpoint.reset_foreign(&meta, &datagram, self.now);
            }
            Ingest::Misrouted(_) => panic!("{taken:?}"),
        }
        let counted = self.endpoint.counters.processed.total() - before;
        assert_eq!(counted, u64::from(!matches!(taken, Ingest::Misrouted(_))), "{taken:?}");
    }

    /// Returns the traffic of a peer, whose address may be written in two ways.
    fn traffic(&mut self, peer: SocketAddr) -> &mut Traffic {
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        self.traffic.entry(peer).or_default()
    }

    fn with_client(
        &mut self,
        bytes: &mut Bytes<'_>,
        act: impl FnOnce(&mut Client, &mut Bytes<'_>),
    ) {
        let which = usize::from(bytes.byte()) % self.clients.len().max(1);
        if let Some(client) = self.clients.get_mut(which) {
            act(client, bytes);
        }
    }

    fn open(&mut self, bytes: &mut Bytes<'_>) {
        let peer = peer(bytes);
        if self.clients.len() < CLIENTS {
            let id = bytes.byte();
            let client = Client::new(peer, address(SERVER), id);
            self.clients.push(client);
            let which = u8::try_from(self.clients.len() - 1).expect("few clients");
            self.speak(&mut Bytes::new(&[which]), |_, _| {});
        }
    }

    fn speak(&mut self, bytes: &mut Bytes<'_>, change: fn(&mut Vec<u8>, &mut Bytes<'_>)) {
        self.speak_from(bytes, None, change);
    }

    fn speak_from(
        &mut self,
        bytes: &mut Bytes<'_>,
        from: Option<SocketAddr>,
        change: fn(&mut Vec<u8>, &mut Bytes<'_>),
    ) {
        let mut said = Vec::new();
        self.with_client(bytes, |client, _| {
            let from = from.unwrap_or(client.address());
            said.extend(client.speak().into_iter().map(|datagram| (from, datagram)));
        });
        for (from, mut datagram) in said {
            change(&mut datagram, bytes);
            self.past.push_back(datagram.clone());
            self.send(from, datagram);
        }
        while self.past.len() > 16 {
            self.past.pop_front();
        }
    }

    /// A client hears all that was sent to its address, and answers.
    fn hear(&mut self, bytes: &mut Bytes<'_>) {
        let answers = std::mem::take(&mut self.answers);
        let mut heard = None;
        let mut left = VecDeque::new();
        let which = bytes.byte();
        self.with_client(&mut Bytes::new(&[which]), |client, _| {
            for (to, mut datagram) in answers {
                if to == client.address() {
                    client.hear(&mut datagram);
                    heard = Some(to);
                } else {
                    left.push_back((to, datagram));
                }
            }
        });
        self.answers = left;
        if let Some(peer) = heard {
            self.traffic(peer).heard = true;
        }
        self.speak(&mut Bytes::new(&[which]), |_, _| {});
    }

    fn write(&mut self, bytes: &mut Bytes<'_>) {
        let stream = bytes.one_of(&[0, 2, 4, 6, 8, 10, 12, 16]);
        let last = bytes.byte();
        let content = bytes.part().to_vec();
        self.with_client(bytes, |client, _| {
            client.write(stream, &content, last & 1 == 1);
        });
    }

    /// Returns a short header, for an ID that the server has told, or for none of its own.
    fn short(&self, bytes: &mut Bytes<'_>) -> Vec<u8> {
        let mut datagram = vec![0x40; usize::from(bytes.byte()) * 6];
        let cid_len = CidSchemes::plain().scheme().cid_len();
        let told = self.answers.iter().rev().find_map(|(_, answer)| {
            let header = Header::parse_as_client(answer, cid_len).ok()?;
            (header.scid.len() == cid_len).then_some(header.scid)
        });
        let id = match told {
            Some(id) if bytes.byte() & 1 == 0 => id,
            _ => bytes.take(cid_len),
        };
        let room = datagram.iter_mut().skip(1);
        room.zip(id).for_each(|(to, from)| *to = *from);
        datagram
    }

    /// Runs service and emission until nothing is left to do now.
    fn collect(&mut self) {
        let mut out = SentDatagrams::new(Budget::of_datagrams(ENOUGH));
        let mut rounds = 0..ENOUGH;
        self.endpoint.service(ENOUGH, self.now);
        while self.endpoint.emit(&mut out, ENOUGH, self.now) | self.endpoint.has_service() {
            self.endpoint.service(ENOUGH, self.now);
            assert!(rounds.next().is_some(), "the endpoint never rests");
        }
        for (_, meta, datagram) in out.datagrams {
            assert!(!datagram.is_empty());
            self.traffic(meta.peer).sent += datagram.len();
            self.answers.push_back((meta.peer, datagram));
        }
        let old = self.answers.len().saturating_sub(256);
        self.answers.drain(..old);
    }

    /// Lets time pass with all its timers. Answers whether the endpoint rests.
    fn pass(&mut self, time: Duration) -> bool {
        let end = self.now + time;
        for _ in 0..ENOUGH {
            let next = self.endpoint.next_deadline().filter(|at| *at <= end);
            self.now = next.map_or(end, |at| at.max(self.now));
            quiche::clock::set(Some(self.now));
            self.endpoint.on_deadline(ENOUGH, self.now);
            self.collect();
            if next.is_none() {
                self.clients.iter_mut().for_each(Client::on_timeout);
                return true;
            }
        }
        false
    }

    fn check(&mut self) {
        for (peer, traffic) in &self.traffic {
            let bounded = traffic.sent <= 3 * traffic.received;
            assert!(bounded || traffic.heard, "{peer}: {traffic:?}");
        }
        assert!(self.endpoint.len() as u64 <= CONNECTIONS);
        self.endpoint.check();
        self.established |= self.clients.iter().any(Client::is_established);
    }

    /// Lets all peers fall silent, and checks that the endpoint forgets them.
    fn end(&mut self) {
        self.clients.clear();
        let life = self.endpoint.longest_life();
        assert!(self.pass(life * 3), "the endpoint never rests");
        self.check();
        let endpoint = &self.endpoint;
        assert!(endpoint.is_empty());
        assert!(!endpoint.has_service() && !endpoint.has_unsent());
        assert_eq!(endpoint.gauges(), ConnectionGauges::default());
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        quiche::clock::set(None);
    }
}

fn peer(bytes: &mut Bytes<'_>) -> SocketAddr {
    address(bytes.one_of(&PEERS))
}

/// Takes bytes of the string, and adds as many of one kind behind them as it says.
fn raw(bytes: &mut Bytes<'_>) -> Vec<u8> {
    let (length, padding) = (bytes.byte(), bytes.byte());
    let mut datagram = bytes.part().to_vec();
    datagram.resize(datagram.len().max(usize::from(length) * 6), padding);
    datagram.truncate(1500);
    datagram
}

/// Returns a long header.
fn long(bytes: &mut Bytes<'_>) -> Vec<u8> {
    let versions = [1, 1, 1, 0, 0x1a2a_3a4a, 0x6b33_43cf, u32::MAX];
    let mut datagram = vec![0xc0 | bytes.byte() & 0x3f];
    datagram.extend(bytes.one_of(&versions).to_be_bytes());
    for _ in 0..2 {
        let length = bytes.byte() % 24;
        datagram.push(length);
        let id = bytes.take(length.into());
        datagram.extend(id);
        datagram.resize(datagram.len() + usize::from(length) - id.len(), 7);
    }
    let token = bytes.byte() % 64;
    datagram.push(token);
    datagram.extend(bytes.take(token.into()));
    let length = bytes.one_of(&[40, 1199, 1200, 1500]);
    datagram.resize(length, 0);
    datagram
}

/// Flips a bit, cuts the end off, or has something follow.
fn alter(datagram: &mut Vec<u8>, bytes: &mut Bytes<'_>) {
    let place = usize::from(u16::from_be_bytes(bytes.array())) % datagram.len().max(1);
    match bytes.byte() % 4 {
        0 => datagram.truncate(place),
        1 => datagram.extend(bytes.take(8)),
        2 => {}
        _ => {
            if let Some(byte) = datagram.get_mut(place) {
                *byte ^= 1 << (bytes.byte() % 8);
            }
        }
    }
}
