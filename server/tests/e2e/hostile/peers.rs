//! Clients that break rules, over sockets that they share.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use sluicegate_raw_client::{Client, Frame, Parameters, Setup, http3};

/// Requests that a rapid reset opens and cancels in one go.
const RESETS: u64 = 10;
/// PATH_CHALLENGEs in one packet: as many as the server takes, and as many as find room.
const CHALLENGES: u64 = 32;
const TOO_MANY: u64 = 130;
/// Packets with a PING that a client sends in one go.
const PINGS: u64 = 16;
/// MAX_STREAM_DATA frames in one packet.
const CREDITS: u64 = 180;
/// Empty frames of an unknown type in one packet.
const UNKNOWN: usize = 360;
/// DATA frames of a byte in one packet.
const TINY: usize = 330;
/// Steps between two PINGs of a client that has nothing else to say.
const PING_STEPS: u64 = 10;
/// Code of a cancelled request (RFC 9114 §8.1).
const CANCELLED: u64 = 0x10c;

/// A way to misbehave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Requests a large body on many streams, and grants no credit for it.
    ZeroWindow,
    /// Sends a request at one byte a second.
    Drip,
    /// Sends nothing but PINGs.
    Ping,
    /// Never goes on with its handshake.
    Unfinished,
    /// Cancels each request at once.
    RapidReset,
    /// Requests a large body, and acknowledges nothing.
    Unacknowledged,
    /// Begins uploads, and sends nothing of them.
    Incomplete,
    /// Sends packets with as many PATH_CHALLENGEs as the server takes.
    Challenges,
    /// Sends packets full of PATH_CHALLENGEs, for which its connection is closed.
    TooManyChallenges,
    /// Sends small packets with nothing but a PING.
    PingFlood,
    /// Sends packets full of credit for one stream.
    StreamCredit,
    /// Sends empty frames of an unknown type on a request's stream.
    UnknownFrames,
    /// Uploads bodies in DATA frames of a byte, each in a packet of its own.
    TinyFrames,
}

impl Kind {
    /// All but those that only a flood makes worth mentioning.
    pub(super) const ALL: [Kind; 11] = [
        Kind::ZeroWindow,
        Kind::Drip,
        Kind::Ping,
        Kind::Unfinished,
        Kind::RapidReset,
        Kind::Unacknowledged,
        Kind::Incomplete,
        Kind::Challenges,
        Kind::TooManyChallenges,
        Kind::UnknownFrames,
        Kind::TinyFrames,
    ];

    /// Returns how many requests or frames a client sends in a step.
    pub(super) fn weight(self) -> u64 {
        match self {
            Kind::RapidReset => RESETS,
            Kind::Challenges => CHALLENGES,
            Kind::TooManyChallenges => TOO_MANY,
            Kind::PingFlood => PINGS,
            Kind::StreamCredit => CREDITS,
            Kind::UnknownFrames => UNKNOWN as u64,
            Kind::TinyFrames => TINY as u64,
            _ => 1,
        }
    }
}

/// A client with what it has done so far.
struct Peer {
    client: Client,
    kind: Kind,
    number: u64,
    steps: u64,
    next_stream: u64,
    /// Streams that the server allows.
    allowed: u64,
    /// Uploads without a response so far.
    unanswered: VecDeque<u64>,
}

/// Clients of one socket, each until it is closed; then another takes its place.
pub(super) struct Peers {
    socket: UdpSocket,
    peers: BTreeMap<u64, Peer>,
    last: u64,
    buffer: Vec<u8>,
    /// Connections that the server has closed or reset.
    pub(super) closed: u64,
}

impl Peers {
    /// Binds a port of `address`. Numbers of clients begin at `first`.
    pub(super) fn new(address: Ipv4Addr, server: SocketAddr, first: u64) -> Peers {
        let socket = UdpSocket::bind((address, 0)).unwrap();
        socket.connect(server).unwrap();
        socket.set_nonblocking(true).unwrap();
        Peers { socket, peers: BTreeMap::new(), last: first, buffer: vec![0; 65_536], closed: 0 }
    }

    /// Adds a client, which begins its handshake.
    pub(super) fn add(&mut self, kind: Kind) {
        self.last += 1;
        let peer = Peer::new(kind, self.last);
        self.peers.insert(self.last, peer);
        self.exchange();
    }

    /// Returns how many have finished their handshakes and are open.
    pub(super) fn established(&self) -> usize {
        let peers = self.peers.values();
        peers.filter(|peer| peer.client.is_established()).count()
    }

    /// Lets each client misbehave once more, and replaces those that the server has closed.
    pub(super) fn step(&mut self) {
        self.exchange();
        let over = |peer: &Peer| peer.client.closed().is_some() || peer.client.is_reset;
        let over: Vec<(u64, Kind)> = { self.peers.iter() }
            .filter(|(_, peer)| over(peer))
            .map(|(number, peer)| (*number, peer.kind))
            .collect();
        for (number, kind) in over {
            self.closed += 1;
            self.peers.remove(&number);
            self.add(kind);
        }
        for peer in self.peers.values_mut() {
            peer.step();
        }
        self.exchange();
    }

    /// Closes all connections that are established.
    pub(super) fn close(&mut self) {
        let established = self.peers.values_mut();
        for peer in established.filter(|peer| peer.client.is_established()) {
            peer.client.send(&[Frame::Close {
                application: true,
                code: 0x100,
                reason: Vec::new(),
            }]);
        }
        self.exchange();
    }

    /// Opens a new connection for each client of that kind, and sends nothing more on the old one.
    pub(super) fn renew(&mut self, kind: Kind) {
        let old = self.peers.iter().filter(|(_, peer)| peer.kind == kind);
        for number in old.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.peers.remove(&number);
            self.add(kind);
        }
    }

    /// Receives what is there, and sends what is due.
    pub(super) fn exchange(&mut self) {
        while let Ok(length) = self.socket.recv(&mut self.buffer) {
            let datagram = &self.buffer[..length];
            // The client's connection ID, in either header, is its number.
            let long = datagram.first().is_some_and(|first| first & 0x80 != 0);
            let id = datagram.get(if long { 6..14 } else { 1..9 });
            let number = id.map(|id| u64::from_be_bytes(id.try_into().unwrap()));
            if let Some(peer) = number.and_then(|number| self.peers.get_mut(&number)) {
                peer.client.receive(datagram);
            }
        }
        for peer in self.peers.values_mut() {
            for datagram in peer.client.take_datagrams() {
                // A full socket loses it, as a network does.
                let _ = self.socket.send(&datagram);
            }
        }
    }
}

/// Returns the head of an upload of so many bytes to a path.
fn upload(path: &str, length: usize) -> Vec<u8> {
    http3::headers(&[
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", path),
        ("content-length", &length.to_string()),
    ])
}

impl Peer {
    fn new(kind: Kind, number: u64) -> Peer {
        let mut setup = Setup::new(number);
        if kind == Kind::ZeroWindow {
            let parameters = setup.parameters.with(Parameters::MAX_DATA, 0);
            setup.parameters = parameters.with(Parameters::MAX_STREAM_DATA, 0);
        }
        let mut client = Client::new(setup);
        client.policy.handshake = kind != Kind::Unfinished;
        Peer {
            client,
            kind,
            number,
            steps: 0,
            next_stream: 0,
            allowed: 100,
            unanswered: VecDeque::new(),
        }
    }

    /// Misbehaves once more, if the handshake is complete.
    fn step(&mut self) {
        let client = &mut self.client;
        if !client.is_established() {
            return;
        }
        for frame in &client.frames {
            if let Frame::MaxStreams { bidirectional: true, max } = frame {
                self.allowed = self.allowed.max(*max);
            }
        }
        client.frames.retain(|frame| matches!(frame, Frame::Close { .. }));
        let answered = std::mem::take(&mut client.streams);
        self.unanswered.retain(|stream| !answered.contains_key(stream));
        let first = self.steps == 0;
        self.steps += 1;
        if first {
            client.write(http3::CONTROL, &http3::control(&[]), false);
        }
        // Its connection stays, although its requests do not move.
        if self.steps.is_multiple_of(PING_STEPS) {
            client.send(&[Frame::Ping]);
        }
        let large = http3::get("/bytes/1MiB", &[]);
        match self.kind {
            Kind::ZeroWindow if first => (0..32).for_each(|n| client.write(4 * n, &large, true)),
            Kind::Unacknowledged if first => {
                (0..4).for_each(|n| client.write(4 * n, &large, true));
                client.policy.acks = false;
            }
            Kind::Incomplete if first => {
                (0..8).for_each(|n| client.write(4 * n, &upload("/app/", 100_000), false));
            }
            Kind::Drip => {
                let at = usize::try_from(self.steps - 1).unwrap();
                if let Some(byte) = large.get(at..=at) {
                    client.write(0, byte, false);
                }
            }
            Kind::Ping => client.send(&[Frame::Ping]),
            Kind::RapidReset => self.reset_requests(),
            Kind::Challenges | Kind::TooManyChallenges => {
                let numbers = (self.steps..).take(usize::try_from(self.kind.weight()).unwrap());
                let data = |number| Frame::PathChallenge(Frame::path_data(number));
                client.send(&numbers.map(data).collect::<Vec<_>>());
            }
            Kind::PingFlood => (0..PINGS).for_each(|_| client.send(&[Frame::Ping])),
            Kind::StreamCredit => {
                let credit = |max| Frame::MaxStreamData { stream: 0, max };
                client.send(&(0..CREDITS).map(credit).collect::<Vec<_>>());
            }
            Kind::UnknownFrames => {
                // A reserved type (RFC 9114 §7.2.8), and no payload.
                let frames = http3::frame(0x21 + 0x1f * (self.number % 2), b"").repeat(UNKNOWN);
                if first {
                    client.write(0, &upload("/app/", 100_000), false);
                }
                client.write(0, &frames, false);
            }
            Kind::TinyFrames => self.upload_in_tiny_frames(),
            _ => {}
        }
    }

    /// Uploads a body. What was lost comes again, once there is no room for another upload.
    fn upload_in_tiny_frames(&mut self) {
        let stream = if self.next_stream < self.allowed {
            self.next_stream += 1;
            4 * (self.next_stream - 1)
        } else if let Some(lost) = self.unanswered.pop_front() {
            lost
        } else {
            return;
        };
        self.unanswered.push_back(stream);
        // The server refuses it for its method, and reads it nevertheless.
        self.client.send(&[Frame::Stream {
            stream,
            offset: 0,
            data: [upload("/bytes/1", TINY), http3::frame(0, b"a").repeat(TINY)].concat(),
            fin: true,
        }]);
    }

    /// Opens as many requests as it may, up to [`RESETS`], and resets them.
    fn reset_requests(&mut self) {
        let head = http3::get("/bytes/1MiB", &[]);
        for _ in 0..RESETS {
            if self.next_stream >= self.allowed {
                return;
            }
            let stream = 4 * self.next_stream;
            self.next_stream += 1;
            let mut frames = self.client.stream_frames(stream, &head, false);
            frames.push(Frame::ResetStream { stream, code: CANCELLED, size: head.len() as u64 });
            self.client.send(&frames);
        }
    }
}
