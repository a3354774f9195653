//! Frames that no honest client sends, over sockets: their connection is closed, and a client beside it is served.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use sluicegate_raw_client::{Frame, PacketKind, Setup as RawSetup, Socket, http3};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::Figures;
use crate::admin::{ADMIN, address};
use crate::client::{Client, Session, run};
use crate::on_auto;
use crate::server::{Folder, PAGE, Server, Setup};

on_auto!(
    frames_that_break_rules_close_their_connection_and_no_other,
    challenges_without_acknowledgements_leave_memory_flat,
    key_updates_are_followed_until_one_comes_too_early,
    a_retired_connection_id_is_of_no_use,
);

const FLOW_CONTROL_ERROR: u64 = 0x3;
const CONNECTION_ID_LIMIT_ERROR: u64 = 0x9;
const PROTOCOL_VIOLATION: u64 = 0xa;
const CRYPTO_BUFFER_EXCEEDED: u64 = 0xd;
const KEY_UPDATE_ERROR: u64 = 0xe;

/// Frames in a packet of a flood: as many as the server takes.
const MOST: u64 = 32;
/// Packets between two looks at what the server says.
const BURST: u64 = 10;
/// Time for the server to take a burst.
const PAUSE: Duration = Duration::from_millis(1);
/// Time after which the server has sent what it sends at once.
const REST: Duration = Duration::from_millis(100);

/// A server, and an honest client of it.
struct Service {
    server: Server,
    admin: SocketAddr,
    client: Client,
    session: Session,
}

impl Service {
    async fn start(backend: &str, folder: &Folder) -> Service {
        let setup = Setup::new(backend).with(ADMIN).listener("main", "127.0.0.1:0", "cubic");
        let mut server = Server::start(&setup, folder);
        let client = Client::new(folder);
        let session = client.connect(server.address()).await;
        Service { admin: address(&mut server), server, client, session }
    }

    /// Lets another client connect and act, while the honest one requests the page again and again.
    async fn beside<T: Send + 'static>(
        &mut self,
        number: u64,
        act: impl FnOnce(&mut Socket) -> T + Send + 'static,
    ) -> T {
        let server = self.server.address();
        let peer = spawn_blocking(move || {
            let local = (Ipv4Addr::LOCALHOST, 0).into();
            let mut socket = Socket::open(local, server, RawSetup::new(number)).unwrap();
            assert!(socket.establish());
            let control = http3::control(&[]);
            socket.client.write(http3::CONTROL, &control, false);
            act(&mut socket)
        });
        loop {
            assert_eq!(self.session.get("/").await.text().await, PAGE);
            if peer.is_finished() {
                return peer.await.unwrap();
            }
            sleep(PAUSE).await;
        }
    }

    /// Waits until the server has forgotten all connections but the honest one, and ends that.
    async fn end(self) {
        while Figures::read(self.admin).connections > 1.0 {
            sleep(REST).await;
        }
        drop(self.session);
        self.client.endpoint.wait_idle().await;
    }
}

/// Sends packets with `count` frames of rising numbers until the connection is closed, at most that many.
fn flood(socket: &mut Socket, packets: u64, count: u64, frame: fn(u64) -> Frame) {
    for packet in 0..packets {
        let numbers = packet * count..(packet + 1) * count;
        let frames: Vec<Frame> = numbers.map(frame).collect();
        socket.client.send(&frames);
        if packet % BURST == 0 {
            socket.exchange(PAUSE);
            if socket.client.closed().is_some() {
                return;
            }
        }
    }
    socket.exchange(REST);
}

fn new_id(sequence: u64) -> Frame {
    Frame::NewConnectionId {
        sequence,
        retire_prior_to: 0,
        id: (1 << 40 | sequence).to_be_bytes().to_vec(),
        token: [7; 16],
    }
}

fn challenge(number: u64) -> Frame {
    Frame::PathChallenge(Frame::path_data(number))
}

/// Sends a byte of a stream, with a gap in front of it.
fn gap(number: u64) -> Frame {
    Frame::Stream { stream: 0, offset: 2 * number + 1, data: vec![0], fin: false }
}

/// Acknowledges packets of a download that the server has not sent.
fn acknowledge_ahead(socket: &mut Socket) {
    socket.client.policy.acks = false;
    let head = http3::get("/bytes/50000000", &[]);
    socket.client.write(0, &head, true);
    let begun = |client: &mut sluicegate_raw_client::Client| client.streams.get(&0).map(drop);
    socket.until(begun).expect("a response");
    socket.exchange(REST);
    let largest = socket.client.largest(PacketKind::OneRtt).0.unwrap();
    let ahead = Frame::ack(largest + 1, largest + 100);
    socket.client.send(&[ahead]);
}

/// A name, the behaviour of the client, and the code with which its connection is closed.
type Case = (&'static str, fn(&mut Socket), u64);

fn frames_that_break_rules_close_their_connection_and_no_other(backend: &str) {
    let crypto = |socket: &mut Socket| {
        let (offset, data) = (1 << 16, vec![0]);
        socket.client.send(&[Frame::Crypto { offset, data }]);
    };
    let cases: [Case; 7] = [
        ("gaps in a stream", |socket| flood(socket, 3_000, MOST, gap), FLOW_CONTROL_ERROR),
        (
            "a frame too often in a packet",
            |socket| flood(socket, 1, MOST + 1, challenge),
            PROTOCOL_VIOLATION,
        ),
        (
            "too many connection IDs",
            |socket| {
                let frames: Vec<Frame> = (1..20).map(new_id).collect();
                socket.client.send(&frames);
            },
            CONNECTION_ID_LIMIT_ERROR,
        ),
        (
            "a connection ID retired in use",
            |socket| socket.client.send(&[Frame::RetireConnectionId(0)]),
            PROTOCOL_VIOLATION,
        ),
        ("ACKs of what was not sent", acknowledge_ahead, PROTOCOL_VIOLATION),
        ("CRYPTO beyond the buffer", crypto, CRYPTO_BUFFER_EXCEEDED),
        (
            "a frame of servers",
            |socket| socket.client.send(&[Frame::HandshakeDone]),
            PROTOCOL_VIOLATION,
        ),
    ];
    let folder = Folder::new();
    run(async {
        let mut service = Service::start(backend, &folder).await;
        for (number, (what, act, code)) in (1..).zip(cases) {
            let closed = service.beside(number, move |socket| {
                act(socket);
                socket.until(|client| client.closed())
            });
            assert_eq!(closed.await, Some((false, code)), "{what}");
        }
        service.end().await;
    });
}

/// Takes long: a few bytes for each frame show only after many frames, so the client sends 400,000.
fn challenges_without_acknowledgements_leave_memory_flat(backend: &str) {
    /// Growth that is none, bytes: less than two for each frame.
    const FLAT: f64 = 600_000.0;
    let folder = Folder::new();
    run(async {
        let mut service = Service::start(backend, &folder).await;
        let admin = service.admin;
        let grown = service.beside(1, move |socket| {
            socket.client.policy.acks = false;
            flood(socket, 3_125, MOST, challenge);
            let before = Figures::read(admin).allocated;
            flood(socket, 9_375, MOST, challenge);
            let grown = Figures::read(admin).allocated - before;
            assert_eq!(socket.client.closed(), None);
            socket.client.send(&[Frame::Close {
                application: true,
                code: 0x100,
                reason: Vec::new(),
            }]);
            socket.flush();
            grown
        });
        let grown = grown.await;
        assert!(grown < FLAT, "{grown} bytes more");
        service.end().await;
    });
}

/// Updates the keys that many times, each with a packet under them, and waits for the last one's acknowledgement or the
/// connection's end. Returns the latter's code.
fn update_keys(socket: &mut Socket, times: usize) -> Option<(bool, u64)> {
    for _ in 0..times {
        socket.client.update_keys();
        socket.client.send(&[Frame::Ping]);
    }
    settle(socket)
}

/// Waits until the server has acknowledged the last packet, or closed the connection. Returns the latter's code.
fn settle(socket: &mut Socket) -> Option<(bool, u64)> {
    let sent = socket.client.skip(PacketKind::OneRtt, 0) - 1;
    let outcome = socket.until(|client| {
        let closed = client.closed();
        let is_acked = client.largest(PacketKind::OneRtt).1 >= Some(sent);
        (is_acked || closed.is_some()).then_some(closed)
    });
    outcome.expect("an acknowledgement")
}

fn key_updates_are_followed_until_one_comes_too_early(backend: &str) {
    let folder = Folder::new();
    run(async {
        let mut service = Service::start(backend, &folder).await;
        let closed = service.beside(1, |socket| {
            for _ in 0..50 {
                assert_eq!(update_keys(socket, 1), None);
            }
            // The server may have acknowledged the first of two before it reads the second.
            let mut pairs = (0..1000).map(|_| update_keys(socket, 2));
            pairs.find_map(|closed| closed)
        });
        assert_eq!(closed.await, Some((false, KEY_UPDATE_ERROR)));
        service.end().await;
    });
}

/// Packets under a connection ID that the client has retired reach no connection; the connection goes on under another.
fn a_retired_connection_id_is_of_no_use(backend: &str) {
    let folder = Folder::new();
    run(async {
        let mut service = Service::start(backend, &folder).await;
        let served = service.beside(1, |socket| {
            let spare = |client: &mut sluicegate_raw_client::Client| {
                client.frames.iter().find_map(|frame| match frame {
                    Frame::NewConnectionId { id, .. } => Some(id.clone()),
                    _ => None,
                })
            };
            let spare = socket.until(spare).expect("a spare connection ID");
            let retired = std::mem::replace(&mut socket.client.dcid, spare.clone());
            socket.client.send(&[Frame::RetireConnectionId(0)]);
            assert_eq!(settle(socket), None);
            socket.client.dcid = retired;
            let head = http3::get("/bytes/1000", &[]);
            socket.client.write(0, &head, true);
            socket.exchange(REST);
            socket.client.dcid = spare;
            let request = socket.client.stream_frames(4, &head, true);
            socket.client.send(&request);
            let response = socket.until(|client| {
                let stream = client.streams.get(&4)?;
                let response = http3::response(&stream.bytes);
                stream.is_finished().then_some(response)
            });
            socket.client.send(&[Frame::Close {
                application: true,
                code: 0x100,
                reason: Vec::new(),
            }]);
            socket.flush();
            (socket.client.streams.contains_key(&0), response)
        });
        assert_eq!(served.await, (false, Some((vec![200], 1000))));
        service.end().await;
    });
}
