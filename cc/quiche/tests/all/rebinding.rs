//! A server's connection whose peer gets another address: with another port alone it goes on with its controller and its
//! round-trip time, with another IP address it starts over (RFC 9000 §9.4).

use std::cell::RefCell;
use std::net::SocketAddr;
use std::time::Duration;

use quiche::PathStats;
use sluicegate_cc::{Controller, Event, Init, Layer, Options, PacketState, Registry, Sent, Time};
use sluicegate_test_support::{
    built_by, builtin, client_address, config, emit, set_algorithm, Pair,
};

const WINDOW: usize = 10;
const STREAM: u64 = 0;
const ONE_WAY: Duration = Duration::from_millis(20);

/// Returns a connection for each algorithm that has downloaded for a while.
fn connections() -> impl Iterator<Item = (&'static str, Pair)> {
    let names: Vec<_> = Registry::builtin().names().collect();
    names.into_iter().map(|name| {
        let (mut client, mut server) = (config(WINDOW), config(WINDOW));
        set_algorithm(&mut server, builtin(name));
        (name, warm(Pair::connect(&mut client, &mut server)))
    })
}

fn warm(mut pair: Pair) -> Pair {
    pair.client.stream_send(STREAM, b"?", true).expect("request");
    pair.settle();
    (0..4).for_each(|_| round(&mut pair));
    assert!(active(&pair).cwnd > 2 * WINDOW * 1200);
    pair
}

/// Offers the server more to send than its window takes, and returns what it sends now.
fn send(pair: &mut Pair) -> Vec<Vec<u8>> {
    let _ = pair.server.stream_send(STREAM, &[7; 400_000], false);
    emit(&mut pair.server)
}

/// A round trip in which everything arrives.
fn round(pair: &mut Pair) {
    let sent = send(pair);
    pair.pass(ONE_WAY);
    sent.iter().for_each(|datagram| pair.client_receives(datagram));
    read(pair);
    reply(pair);
}

fn read(pair: &mut Pair) {
    let mut buffer = [0; 65_536];
    while pair.client.stream_recv(STREAM, &mut buffer).is_ok() {}
}

/// The client's packets arrive half a round trip later, from the address that it has now.
fn reply(pair: &mut Pair) {
    let replies = emit(&mut pair.client);
    pair.pass(ONE_WAY);
    replies.iter().for_each(|datagram| pair.server_receives(datagram));
}

fn active(pair: &Pair) -> PathStats {
    let mut paths = pair.server.path_stats();
    paths.find(|path| path.active).expect("an active path")
}

/// Gives the client another address, which the server notices at once.
fn rebind(pair: &mut Pair, address: SocketAddr) {
    pair.client_at = address;
    pair.client.send_ack_eliciting().expect("an established connection");
    reply(pair);
    assert_eq!(active(pair).peer_addr, address);
}

fn another_port() -> SocketAddr {
    SocketAddr::new(client_address().ip(), 40_000)
}

fn another_host() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 2], client_address().port()))
}

#[test]
fn another_port_keeps_window_and_round_trip() {
    for (name, mut pair) in connections() {
        let before = active(&pair);
        rebind(&mut pair, another_port());
        let after = active(&pair);
        assert_eq!(after.cwnd, before.cwnd, "{name}");
        assert_eq!(after.min_rtt, before.min_rtt, "{name}");
        assert!(after.rtt < 2 * before.rtt, "{name}: {:?}", after.rtt);
        round(&mut pair);
        round(&mut pair);
        let window = active(&pair).cwnd;
        assert!(window >= before.cwnd, "{name}: {window}");
    }
}

#[test]
fn another_host_starts_over() {
    for (name, mut pair) in connections() {
        rebind(&mut pair, another_host());
        let after = active(&pair);
        assert_eq!(after.cwnd, WINDOW * 1200, "{name}");
        assert_eq!(after.min_rtt, None, "{name}");
    }
}

/// Packet numbers that a controller saw lost, and bytes in flight at its latest packet.
#[derive(Debug, Default)]
struct Seen {
    lost: Vec<u64>,
    in_flight: u64,
}

thread_local!(static SEEN: RefCell<Seen> = RefCell::default());

#[derive(Debug)]
struct Watched(Box<dyn Controller>);

impl Layer for Watched {
    fn inner(&self) -> &dyn Controller {
        &*self.0
    }

    fn inner_mut(&mut self) -> &mut dyn Controller {
        &mut *self.0
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) -> PacketState {
        SEEN.with_borrow_mut(|seen| seen.in_flight = sent.in_flight_before);
        self.0.on_sent(now, sent)
    }

    fn on_event(&mut self, event: &Event<'_>) {
        let lost = event.lost.iter().map(|packet| packet.packet_number);
        SEEN.with_borrow_mut(|seen| seen.lost.extend(lost));
        self.0.on_event(event);
    }
}

fn watched(init: &Init, options: &Options) -> Box<dyn Controller> {
    Box::new(Watched((builtin("cubic").build)(init, options)))
}

#[test]
fn packets_that_the_former_port_lost_are_sent_again_and_cut_no_window() {
    let (mut client, mut server) = (config(WINDOW), config(WINDOW));
    set_algorithm(&mut server, built_by("cubic", watched));
    let mut pair = warm(Pair::connect(&mut client, &mut server));
    let before = active(&pair).cwnd;
    let gone = send(&mut pair);
    assert!(gone.len() > WINDOW);
    rebind(&mut pair, another_port());
    let mut received = 0;
    let mut buffer = [0; 65_536];
    for _ in 0..20 {
        let sent = send(&mut pair);
        pair.pass(ONE_WAY);
        sent.iter().for_each(|datagram| pair.client_receives(datagram));
        while let Ok((len, _)) = pair.client.stream_recv(STREAM, &mut buffer) {
            received += len;
        }
        reply(&mut pair);
    }
    assert!(received > gone.len() * 1000, "{received}");
    assert!(SEEN.take().lost.is_empty());
    let after = active(&pair).cwnd;
    assert!(after >= before, "{before} to {after}");
}

/// The client acknowledges a packet of the former path that brings no sample of the round-trip time, which went to the new path.
#[test]
fn what_the_former_port_lost_is_sent_again_after_one_pto() {
    for (name, mut pair) in connections() {
        let gone = send(&mut pair);
        pair.client.send_ack_eliciting().expect("an established connection");
        reply(&mut pair);
        let acks = emit(&mut pair.server);
        acks.iter().for_each(|datagram| pair.client_receives(datagram));
        rebind(&mut pair, another_port());
        let (mut received, mut waited) = (0, Duration::ZERO);
        let mut buffer = [0; 65_536];
        while received < gone.len() * 1000 {
            assert!(waited < 10 * ONE_WAY, "{name}: {received} bytes");
            let sent = emit(&mut pair.server);
            pair.pass(ONE_WAY);
            sent.iter().for_each(|datagram| pair.client_receives(datagram));
            while let Ok((len, _)) = pair.client.stream_recv(STREAM, &mut buffer) {
                received += len;
            }
            reply(&mut pair);
            waited += 2 * ONE_WAY;
        }
    }
}

/// The probe of the new path starts its timer by the initial round-trip time. Data that leaves in the same turn must set it again.
#[test]
fn data_right_behind_the_probe_is_timed_by_the_known_round_trip() {
    for (name, mut pair) in connections() {
        let [earlier, later, latest] = [(); 3].map(|()| {
            pair.client.send_ack_eliciting().expect("an established connection");
            emit(&mut pair.client).concat()
        });
        pair.server_receives(&later);
        pair.client_at = another_port();
        // Older than what came from the former port, so it moves nothing.
        pair.server_receives(&earlier);
        let probes = emit(&mut pair.server);
        assert_ne!(active(&pair).peer_addr, another_port(), "{name}: {} probes", probes.len());
        pair.server_receives(&latest);
        assert_eq!(active(&pair).peer_addr, another_port(), "{name}");
        assert!(!send(&mut pair).is_empty(), "{name}");
        let timeout = pair.server.timeout().expect("a timer");
        assert!(timeout < 10 * ONE_WAY, "{name}: {timeout:?}");
    }
}

#[test]
fn return_to_the_former_port_keeps_the_state_too() {
    for (name, mut pair) in connections() {
        let before = active(&pair);
        let sent = send(&mut pair);
        rebind(&mut pair, another_port());
        rebind(&mut pair, client_address());
        let after = active(&pair);
        assert_eq!(after.cwnd, before.cwnd, "{name}");
        assert_eq!(after.min_rtt, before.min_rtt, "{name}");
        sent.iter().for_each(|datagram| pair.client_receives(datagram));
        reply(&mut pair);
        for _ in 0..3 {
            round(&mut pair);
        }
        let window = active(&pair).cwnd;
        assert!(window >= before.cwnd, "{name}: {window}");
    }
}

#[test]
fn port_that_fails_its_validation_gives_the_state_back() {
    for (name, mut pair) in connections() {
        let before = active(&pair);
        // A packet that somebody sends from another port; nothing that goes there arrives.
        rebind(&mut pair, another_port());
        pair.client_at = client_address();
        for _ in 0..100 {
            send(&mut pair);
            pair.pass(Duration::from_millis(100));
            if active(&pair).peer_addr == client_address() {
                break;
            }
        }
        let after = active(&pair);
        assert_eq!(after.peer_addr, client_address(), "{name}");
        assert_eq!(after.min_rtt, before.min_rtt, "{name}");
        assert!(after.cwnd > 2 * WINDOW * 1200, "{name}: {}", after.cwnd);
        for _ in 0..3 {
            round(&mut pair);
        }
        assert_eq!(
            pair.server.validated_path().map(|(_, peer)| peer),
            Some(client_address()),
            "{name}"
        );
    }
}
