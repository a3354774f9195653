//! Clients that use up what a worker has for requests, and a client beside them.

use std::net::IpAddr;

use bytes::Bytes;
use quiche::Shutdown;
use quiche::h3::{Event, NameValue};
use sluicegate_http::exchange::accounts::Accounts;
use sluicegate_http::exchange::message::{Envelope, Head, ToFront, ToHandler};
use sluicegate_http::exchange::ring::{WorkerRing, rings};

use super::*;

/// The client beside the greedy ones.
const NINTH: &str = "192.0.2.9";
/// Streams of each connection.
const STREAMS: usize = 128;

/// Behaviour of the greedy clients' handlers after their first block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Handlers {
    /// They have more to send.
    GoOn,
    /// They end the response and are gone.
    Close,
}

/// Plays all handlers: each sends a block. Those of the ninth client always complete their responses.
fn handle(worker_ring: &mut WorkerRing, handlers: Handlers) {
    let ninth: IpAddr = NINTH.parse().unwrap();
    let mut replies = Vec::new();
    while let Some(Envelope { exchange, message }) = worker_ring.take() {
        let mut reply = |message| replies.push(Envelope { exchange, message });
        match message {
            ToHandler::Open { request, credit } => {
                assert!(credit <= 32 << 10);
                reply(ToFront::Head(Head {
                    status: 200,
                    fields: Vec::new(),
                    length: None,
                    end: false,
                }));
                reply(ToFront::Data(Bytes::from_static(&[7; 16 << 10])));
                if handlers == Handlers::Close || request.peer.address.ip() == ninth {
                    reply(ToFront::End(None));
                    reply(ToFront::Closed);
                }
            }
            ToHandler::Cancel => reply(ToFront::Closed),
            _ => {}
        }
    }
    for envelope in replies {
        worker_ring.give(envelope).unwrap();
    }
}

/// A connection, and what its server has said to it so far.
struct Peer {
    client: Client,
    h3: quiche::h3::Connection,
    statuses: Vec<String>,
    resets: usize,
}

impl Peer {
    fn connect(bench: &mut Bench<Http3Session>, address: &str, window: u64) -> Peer {
        let client = bench.connect_client(Client::with_window(address, window));
        let (client, h3) = bench.with_session(client);
        Peer { client, h3, statuses: Vec::new(), resets: 0 }
    }

    /// Sends what is to be sent, lets the server and its handlers respond, and reads what comes back.
    fn turn(
        &mut self,
        bench: &mut Bench<Http3Session>,
        worker_ring: &mut WorkerRing,
        handlers: Handlers,
    ) {
        for _ in 0..4 {
            self.client.speak(&mut bench.endpoint, bench.now);
            bench.endpoint.service(usize::MAX, bench.now);
            bench.endpoint.flush_messages();
            handle(worker_ring, handlers);
            bench.endpoint.on_messages(usize::MAX, bench.now);
            let said = bench.said();
            // Datagrams for others are lost.
            self.client.hear(said);
            let mut buffer = [0; 4096];
            while let Ok((stream, event)) = self.h3.poll(&mut self.client.quic) {
                match event {
                    Event::Headers { list, .. } => {
                        let status = String::from_utf8(list[0].value().to_vec());
                        self.statuses.push(status.unwrap());
                    }
                    Event::Data => {
                        let quic = &mut self.client.quic;
                        while self.h3.recv_body(quic, stream, &mut buffer).is_ok() {}
                    }
                    Event::Reset(_) => self.resets += 1,
                    _ => {}
                }
            }
        }
    }
}

fn running(bench: &Bench<Http3Session>) -> u64 {
    bench.endpoint.shared().origin_depth().running
}

/// Opens 128 streams that take nothing on each of four connections of eight clients, and sends requests of a ninth client.
fn attack(memory: u64, handlers: Handlers) -> (Bench<Http3Session>, WorkerRing, Vec<Peer>) {
    let limits = Config::embedded().limits;
    let mut bench = Bench::new(with_routes(PROXY));
    let accounts = Accounts::new(limits.stream_buffer, memory);
    let queue = usize::try_from(limits.origin_queue).unwrap();
    let (origin_ring, mut worker_ring) = rings(queue, accounts);
    bench.endpoint.shared_mut().origin_ring = Some(origin_ring);
    let mut greedy = Vec::new();
    for client in 1..=8 {
        for connection in 0..4 {
            let address = format!("192.0.2.{client}:{}", 5000 + connection);
            let mut peer = Peer::connect(&mut bench, &address, 0);
            for _ in 0..STREAMS {
                peer.client.request(&mut peer.h3, "GET", "/app/x");
            }
            peer.turn(&mut bench, &mut worker_ring, handlers);
            greedy.push(peer);
        }
    }
    let mut ninth = Peer::connect(&mut bench, &format!("{NINTH}:5000"), 1 << 20);
    for _ in 0..20 {
        for _ in 0..5 {
            ninth.client.request(&mut ninth.h3, "GET", "/app/x");
        }
        ninth.turn(&mut bench, &mut worker_ring, handlers);
    }
    assert_eq!(ninth.statuses, vec!["200"; 100]);
    assert_eq!(ninth.resets, 0);
    (bench, worker_ring, greedy)
}

fn promised(bench: &Bench<Http3Session>) -> u64 {
    bench.endpoint.shared().origin_depth().promised
}

fn leave_a_ninth_unharmed(handlers: Handlers, expected: (u64, u64)) {
    let memory = Config::embedded().limits.worker_buffer;
    let (mut bench, mut worker_ring, mut greedy) = attack(memory, handlers);
    // They all fit in.
    assert_eq!((running(&bench), promised(&bench)), expected);
    assert_eq!(bench.endpoint.shared().origin_depth().counters.revoked, 0);
    // PINGs keep the connections, but not the requests.
    for _ in 0..16 {
        for peer in &mut greedy {
            peer.client.quic.send_ack_eliciting().unwrap();
            peer.turn(&mut bench, &mut worker_ring, handlers);
        }
        bench.pass(Duration::from_secs(5));
    }
    handle(&mut worker_ring, handlers);
    bench.endpoint.on_messages(usize::MAX, bench.now);
    assert_eq!(bench.endpoint.len(), 33 - 1);
    assert_eq!((running(&bench), promised(&bench)), (0, 0));
    assert_eq!(bench.endpoint.shared().counters.stalled_responses, 8 * 4 * STREAMS as u64);
}

#[test]
fn streams_of_eight_clients_that_take_nothing_leave_a_ninth_unharmed() {
    let streams = 8 * 4 * STREAMS as u64;
    leave_a_ninth_unharmed(Handlers::GoOn, (streams, streams * (64 << 10)));
}

#[test]
fn whole_responses_that_eight_clients_do_not_take_leave_a_ninth_unharmed() {
    let streams = 8 * 4 * STREAMS as u64;
    leave_a_ninth_unharmed(Handlers::Close, (0, streams * (64 << 10)));
}

/// Memory for 256 exchanges, an eighth of what the eight clients ask for.
#[test]
fn where_memory_is_short_the_greediest_clients_give_way() {
    for handlers in [Handlers::GoOn, Handlers::Close] {
        let (bench, _worker_ring, greedy) = attack(16 << 20, handlers);
        let depth = bench.endpoint.shared().origin_depth();
        assert!(depth.promised <= 16 << 20 && depth.promised > 8 << 20);
        assert!(depth.counters.revoked > 0 && depth.counters.refused_client > 0);
        // What was not accepted, or was cancelled, left no state.
        assert!(running(&bench) <= 256, "{}", running(&bench));
        drop(greedy);
    }
}

#[test]
fn whole_responses_hold_memory_until_they_have_left_or_are_given_up() {
    type End = fn(&mut Peer);
    let stop: End = |peer| {
        for stream in (0..8 * 4).step_by(4) {
            let stopped = peer.client.quic.stream_shutdown(stream, Shutdown::Read, 1);
            stopped.unwrap();
        }
    };
    let close: End = |peer| peer.client.quic.close(true, 0x100, b"").unwrap();
    for (window, end, held) in [(0, stop, 8), (0, close, 8), (1 << 20, stop_nothing, 0)] {
        let mut bench = Bench::new(with_routes(PROXY));
        let accounts = Accounts::new(128 << 10, 1 << 30);
        let (origin_ring, mut worker_ring) = rings(64, accounts);
        bench.endpoint.shared_mut().origin_ring = Some(origin_ring);
        let mut peer = Peer::connect(&mut bench, "192.0.2.1:5000", window);
        for _ in 0..8 {
            peer.client.request(&mut peer.h3, "GET", "/app/x");
        }
        peer.turn(&mut bench, &mut worker_ring, Handlers::Close);
        assert_eq!((running(&bench), promised(&bench)), (0, held * (64 << 10)));
        end(&mut peer);
        peer.turn(&mut bench, &mut worker_ring, Handlers::Close);
        // A connection that its client has closed goes after a while (RFC 9000 §10.2).
        bench.pass(Duration::from_secs(3));
        assert_eq!((running(&bench), promised(&bench)), (0, 0));
    }
}

/// Ends the case without a further step: the client has received its responses.
fn stop_nothing(_: &mut Peer) {}
