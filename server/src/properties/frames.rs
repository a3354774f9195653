//! Frames in packets that are sealed with the keys of a connection, beside a client that keeps all rules.

mod build;

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use sluicegate_raw_client::{Client, Frame, PacketKind, Parameters, Setup, http3};

use sluicegate_base::properties::Bytes;
use sluicegate_http::route::Site;
use sluicegate_quic::connection_gauges::ConnectionGauges;
use sluicegate_quic::testing::{Attack, Peer, meta_of, with_early_data};

use crate::h3::Http3Session;
use crate::snapshot::plain_settings;

/// Steps of a run; what is left of the string is not tried.
const STEPS: usize = 48;
/// Packets of the floods of a run, and between two turns of the endpoint.
const FLOOD: u64 = 1500;
const BURST: u64 = 64;
/// Smallest datagram with an Initial packet (RFC 9000 §14.1).
const MIN_INITIAL: usize = 1200;
/// Time between two turns in a flood.
const PAUSE: Duration = Duration::from_millis(5);
/// Packet numbers that a step leaves out, at most.
const GAP: u64 = 1 << 24;
/// Connections that the string may open.
const CONNECTIONS: usize = 3;
/// Bytes that a connection may make the endpoint hold: the receive window, what waits to be sent and what was sent, with
/// the records of all these.
const MEMORY: i64 = 8 << 20;
/// Bytes that the endpoint may keep for later connections: the sizes of its tables.
const KEPT: i64 = 64 << 10;
/// Time between two requests of the client that keeps the rules: less than its idle timeout.
const SERVED: Duration = Duration::from_secs(20);
/// Largest time of a step, as a power of two, milliseconds.
const LONGEST_STEP: u8 = 13;
/// Time after which a closed connection is forgotten, if its round trips were short (RFC 9000 §10.2).
const FORGOTTEN: Duration = Duration::from_secs(10);
/// Three probe timeouts in round trips, each the longest possible with the largest variation (RFC 9002 §6.2.1).
const ROUND_TRIPS: u32 = 15;

const HONEST: &str = "192.0.2.77:4000";
const PEERS: [&str; 4] =
    ["192.0.2.1:5000", "192.0.2.1:5001", "198.51.100.7:6000", "[2001:db8::1]:5000"];

/// Sends a packet that the string chooses; its frames are counted.
type Send = fn(&mut Bytes<'_>, &mut u64, &mut Client);

/// An endpoint, the client that keeps the rules, and those that do what the string says.
struct Run {
    attack: Attack<Http3Session>,
    honest: Peer,
    /// The last one is the one that acts.
    peers: Vec<Peer>,
    setup: Setup,
    /// Whether the clients go on with their handshakes.
    handshakes: bool,
    began: Instant,
    served: Instant,
    /// Bytes that the endpoint held before the string began.
    before: i64,
    /// Latest datagrams of the clients.
    past: VecDeque<Vec<u8>>,
    /// Whether datagrams wait, and whether they are to leave in the opposite order.
    holds: bool,
    reverses: bool,
    /// Frames so far, and packets that floods may still have.
    count: u64,
    left: u64,
}

/// Lets a client with all keys send frames and packets as the string says. The endpoint does not panic, comes to rest, holds
/// no more than [`MEMORY`] for a connection, and serves another client all the while; in the end it holds nothing, and a
/// closed connection is forgotten after three probe timeouts. `true` where a handshake was complete.
pub fn frames(bytes: &[u8]) -> bool {
    let mut bytes = Bytes::new(bytes);
    let mut run = Run::new(bytes.byte());
    for _ in 0..STEPS {
        if bytes.is_empty() {
            break;
        }
        run.step(&mut bytes);
        run.check();
    }
    run.end()
}

impl Run {
    fn new(kind: u8) -> Run {
        let is = |bit: u8| kind & 1 << bit != 0;
        static SITE: LazyLock<Arc<Site>> = LazyLock::new(|| {
            let routes = "[[route]]\npath = \"/bytes/\"\ngenerate = {}\n";
            Site::of_routes(routes, &sluicegate_config::Config::embedded().limits)
        });
        let mut settings = plain_settings(0, 1);
        settings.shared.site = Arc::clone(&SITE);
        if is(0) {
            with_early_data(&mut settings);
        }
        settings.quic.retry_above = is(1).then_some(0);
        let mut attack = Attack::of(settings);
        let mut honest = attack.connect(HONEST, Setup::new(77));
        attack.check_honest(&mut honest);
        assert!(attack.held > 0, "who runs this allocates by jemalloc");
        let mut setup = Setup::new(1);
        if is(2) {
            setup.parameters = setup.parameters.with(Parameters::MAX_STREAM_DATA, 0);
        }
        if is(3) {
            setup.parameters = setup.parameters.with(Parameters::CID_LIMIT, 2);
        }
        if is(4) {
            setup.scid.clear();
        }
        let (now, before) = (attack.now, attack.held);
        let mut run = Run {
            attack,
            honest,
            peers: Vec::new(),
            setup,
            handshakes: !is(5),
            began: now,
            served: now,
            before,
            past: VecDeque::new(),
            holds: false,
            reverses: false,
            count: 0,
            left: FLOOD,
        };
        run.open();
        run.peer().client.policy.acks = !is(6);
        run
    }

    fn peer(&mut self) -> &mut Peer {
        self.peers.last_mut().expect("there is always one")
    }

    /// Lets another client connect, and act from then on.
    fn open(&mut self) {
        if self.peers.len() == CONNECTIONS {
            return;
        }
        let number = self.peers.len() + 1;
        self.setup.dcid = vec![u8::try_from(number).expect("few"); 8];
        let mut peer = Peer::new(PEERS[0], self.setup.clone());
        peer.client.policy.handshake = self.handshakes;
        self.peers.push(peer);
        self.exchange();
        let peer = self.peer();
        if peer.client.is_established() {
            let control = http3::control(&[]);
            peer.client.write(http3::CONTROL, &control, false);
        }
        self.exchange();
    }

    fn step(&mut self, bytes: &mut Bytes<'_>) {
        let count = self.count;
        let client = &mut self.peer().client;
        match bytes.byte() % 16 {
            0..=2 => self.flood(bytes, |bytes, n, client| {
                let frames = build::frames(bytes, n, client);
                if client.has_keys(PacketKind::OneRtt) {
                    client.send(&frames);
                }
            }),
            3 => self.flood(bytes, |bytes, n, client| {
                let mut datagram = build::packet(bytes, n, client);
                datagram.resize(datagram.len().max(MIN_INITIAL), 0);
                client.queue(datagram);
            }),
            4 => self.coalesce(bytes),
            5 => {
                client.skip(PacketKind::OneRtt, build::integer(bytes, count, 0) % GAP);
            }
            6 if client.has_keys(PacketKind::OneRtt) => client.update_keys(),
            7 => self.wait(bytes),
            8 => self.peer().meta = meta_of(bytes.one_of(&PEERS)),
            9 => self.change_id(bytes),
            10 => {
                let policy = bytes.byte();
                client.policy.acks = policy & 1 == 0;
                client.policy.paths = policy & 2 == 0;
                client.policy.handshake = policy & 4 == 0;
            }
            11 => self.repeat(bytes),
            12 => self.write(bytes),
            13 => {
                self.holds = !self.holds;
                self.reverses = bytes.byte() & 1 == 1;
            }
            14 => self.open(),
            _ => client.repeat_hello(),
        }
        self.exchange();
    }

    /// Sends packets of the same kinds, whose numbers rise.
    fn flood(&mut self, bytes: &mut Bytes<'_>, send: Send) {
        let packets = bytes.one_of(&[1, 1, 1, 2, 8, 64, 256, 1024]);
        let packets = packets.min(self.left).max(1);
        self.left = self.left.saturating_sub(packets);
        let start = bytes.clone();
        for packet in 1..=packets {
            *bytes = start.clone();
            let mut count = self.count;
            send(bytes, &mut count, &mut self.peer().client);
            self.count = count;
            if packet % BURST == 0 {
                self.exchange();
                self.pass(PAUSE);
            }
        }
    }

    /// Sends several packets in a datagram, perhaps as large as Initial packets must be.
    fn coalesce(&mut self, bytes: &mut Bytes<'_>) {
        let (count, is_padded) = (1 + bytes.byte() % 4, bytes.byte() & 1 == 0);
        let mut datagram = Vec::new();
        for _ in 0..count {
            let mut count = self.count;
            datagram.extend(build::packet(bytes, &mut count, &mut self.peer().client));
            self.count = count;
        }
        if is_padded {
            datagram.resize(datagram.len().max(MIN_INITIAL), 0);
        }
        self.peer().client.queue(datagram);
    }

    fn wait(&mut self, bytes: &mut Bytes<'_>) {
        let time = Duration::from_millis(1 << (bytes.byte() % (LONGEST_STEP + 1)));
        self.exchange();
        self.pass(time);
    }

    /// Uses another of the server's connection IDs, one that it has retired perhaps, or none of its own.
    fn change_id(&mut self, bytes: &mut Bytes<'_>) {
        let (which, retires) = (usize::from(bytes.byte() % 8), bytes.byte() & 1 == 1);
        let other = bytes.clone().take(16).to_vec();
        let client = &mut self.peer().client;
        let ids = client.frames.iter().rev().filter_map(|frame| match frame {
            Frame::NewConnectionId { sequence, id, .. } => Some((*sequence, id.clone())),
            _ => None,
        });
        let known = ids.into_iter().nth(which);
        let (sequence, id) = known.unwrap_or((0, other));
        client.dcid = id;
        if retires && client.has_keys(PacketKind::OneRtt) {
            client.send(&[Frame::RetireConnectionId(sequence.saturating_sub(1))]);
        }
    }

    /// Sends a datagram once more, or a changed copy of it.
    fn repeat(&mut self, bytes: &mut Bytes<'_>) {
        let which = usize::from(bytes.byte()) % self.past.len().max(1);
        let (place, change) = (usize::from(bytes.byte()), bytes.byte());
        if let Some(mut datagram) = self.past.get(which).cloned() {
            if let Some(byte) = datagram.get_mut(place) {
                *byte ^= change;
            }
            self.peer().client.queue(datagram);
        }
    }

    /// Sends bytes on a stream, behind those before.
    fn write(&mut self, bytes: &mut Bytes<'_>) {
        let stream = bytes.one_of(&[0, 2, 4, 6, 8, 10, 12, 16, 20]);
        let (frames, fin) = (build::data(bytes), bytes.byte() & 1 == 1);
        let client = &mut self.peer().client;
        if client.has_keys(PacketKind::OneRtt) {
            client.write(stream, &frames, fin);
        }
    }

    /// Exchanges datagrams until both sides rest.
    fn exchange(&mut self) {
        if self.holds {
            return;
        }
        let peer = self.peers.last_mut().expect("there is always one");
        let mut datagrams = peer.client.take_datagrams();
        if std::mem::take(&mut self.reverses) {
            datagrams.reverse();
        }
        for datagram in datagrams {
            self.past.push_front(datagram.clone());
            peer.client.queue(datagram);
        }
        self.past.truncate(16);
        self.attack.exchange(peer);
        // What clients need later.
        peer.client.frames.retain(|frame| {
            !matches!(
                frame,
                Frame::MaxData(_) | Frame::MaxStreamData { .. } | Frame::MaxStreams { .. }
            )
        });
    }

    fn pass(&mut self, time: Duration) {
        let peer = self.peers.last_mut().expect("there is always one");
        self.attack.pass(time, peer);
    }

    /// Checks what the endpoint holds, and now and then that it serves.
    fn check(&mut self) {
        let open = self.attack.endpoint().len();
        assert!(open <= 1 + CONNECTIONS);
        self.attack.endpoint().check();
        let held = self.attack.held - self.before;
        let most = MEMORY * i64::try_from(open).expect("few");
        assert!(held <= most, "{held} bytes for {open} connections");
        if self.attack.now > self.served + SERVED {
            self.serve();
        }
    }

    /// Lets the client that keeps the rules make a request.
    fn serve(&mut self) {
        self.attack.check_honest(&mut self.honest);
        self.served = self.attack.now;
    }

    /// Lets all clients fall silent, and checks that the endpoint forgets them. Returns whether a handshake was complete.
    fn end(mut self) -> bool {
        self.holds = false;
        self.exchange();
        self.serve();
        self.honest.client.send(&[Frame::Close {
            application: true,
            code: 0x100,
            reason: Vec::new(),
        }]);
        self.attack.exchange(&mut self.honest);
        let peers = self.peers.iter();
        let is_established = peers.clone().any(|peer| peer.client.is_established());
        let is_closed = peers.clone().all(|peer| peer.client.closed().is_some());
        let mut longest = FORGOTTEN + (self.attack.now - self.began) * ROUND_TRIPS;
        if !is_closed {
            longest += self.attack.endpoint().longest_life();
        }
        self.peers.clear();
        self.attack.pass(longest, &mut self.honest);
        let endpoint = self.attack.endpoint();
        endpoint.check();
        assert!(endpoint.is_empty(), "{} are kept", endpoint.len());
        assert!(!endpoint.has_service() && !endpoint.has_unsent());
        assert_eq!(endpoint.gauges(), ConnectionGauges::default());
        let kept = self.attack.held - self.before;
        assert!(kept <= KEPT, "{kept} bytes are kept");
        is_established
    }
}
