//! Packets that are acknowledged after they were declared lost reach the controller, and quiche's packet threshold.

use std::cell::RefCell;
use std::time::Duration;

use quiche::cc::Factory;
use sluicegate_cc::{Controller, Event, Init, Layer, Options, PacketState, Sent, Time};
use sluicegate_test_support::{built_by, builtin, config, emit, set_algorithm, Pair};

/// Numbers of the packets that the server's controller saw lost and acknowledged late.
#[derive(Debug, Default)]
struct Seen {
    lost: Vec<u64>,
    late: Vec<u64>,
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
        self.0.on_sent(now, sent);
        PacketState { delivered: sent.packet_number, ..PacketState::default() }
    }

    fn on_event(&mut self, event: &Event<'_>) {
        assert!(event.late_acked.is_sorted_by_key(|p| p.packet_number));
        for packet in event.late_acked {
            assert_eq!(packet.state.delivered, packet.packet_number);
            assert!(packet.bytes > 0 && packet.time_sent < event.now);
        }
        SEEN.with_borrow_mut(|seen| {
            seen.lost.extend(event.lost.iter().map(|p| p.packet_number));
            let late = event.late_acked.iter();
            seen.late.extend(late.map(|p| p.packet_number));
        });
        self.0.on_event(event);
    }
}

fn watched(init: &Init, options: &Options) -> Box<dyn Controller> {
    Box::new(Watched((builtin("reno").build)(init, options)))
}

fn connect() -> Pair {
    let (mut client, mut server) = (config(1000), config(1000));
    set_algorithm(&mut server, built_by("reno", watched));
    let mut pair = Pair::connect(&mut client, &mut server);
    pair.client.stream_send(0, b"?", true).expect("request");
    round(&mut pair, 0, 0, Duration::ZERO);
    SEEN.take();
    pair
}

/// The server sends 60 packets' worth of data. The first `held` packets arrive `delay` after the `depth` that follow them, or
/// after all, when these are acknowledged already.
fn round(pair: &mut Pair, held: usize, depth: usize, delay: Duration) {
    let step = Duration::from_millis(20);
    let written = pair.server.stream_send(1, &[7; 60_000], false);
    assert_eq!(written, Ok(60_000));
    let sent = emit(&mut pair.server);
    let (first, rest) = sent.split_at(held);
    let (next, rest) = rest.split_at(depth.min(rest.len()));
    for (datagrams, wait) in [(next, step), (first, delay), (rest, Duration::ZERO)] {
        pair.pass(wait);
        for datagram in datagrams {
            pair.client_receives(datagram);
        }
        for datagram in emit(&mut pair.client) {
            pair.server_receives(&datagram);
        }
    }
    pair.pass(step);
    pair.settle();
}

#[test]
fn reordered_packets_are_reported_late() {
    let mut pair = connect();
    round(&mut pair, 5, 40, Duration::from_millis(2));
    let seen = SEEN.take();
    assert_eq!(seen.lost.len(), 5);
    assert_eq!(seen.late, seen.lost);
}

#[test]
fn late_acknowledgement_that_comes_alone_is_reported_at_once() {
    let mut pair = connect();
    round(&mut pair, 1, usize::MAX, Duration::from_millis(2));
    let seen = SEEN.take();
    assert_eq!(seen.lost.len(), 1);
    assert_eq!(seen.late, seen.lost);
}

#[test]
fn window_returns_when_every_lost_packet_arrives() {
    for name in ["cubic", "reno", "bbr3"] {
        let (mut client, mut server) = (config(100), config(100));
        set_algorithm(&mut server, builtin(name));
        let mut pair = Pair::connect(&mut client, &mut server);
        pair.client.stream_send(0, b"?", true).expect("request");
        (0..3).for_each(|_| round(&mut pair, 0, 0, Duration::ZERO));
        let window = |pair: &Pair| pair.server.path_stats().next().expect("a path").cwnd;
        let before = window(&pair);
        round(&mut pair, 5, 40, Duration::from_millis(2));
        assert_eq!(pair.server.stats().lost, 5, "{name}");
        let after = window(&pair);
        assert!(after >= before, "{name}: {before} to {after}");
    }
}

/// What another controller has not seen lost undoes none of its cuts.
#[test]
fn losses_before_a_switch_are_not_reported_to_the_new_controller() {
    let mut pair = connect();
    assert_eq!(pair.server.stream_send(1, &[7; 60_000], false), Ok(60_000));
    let sent = emit(&mut pair.server);
    let (held, rest) = sent.split_at(5);
    pair.pass(Duration::from_millis(20));
    rest.iter().for_each(|datagram| pair.client_receives(datagram));
    emit(&mut pair.client).iter().for_each(|datagram| pair.server_receives(datagram));
    assert_eq!(SEEN.take().lost.len(), 5);
    let next = built_by("reno", watched);
    assert!(pair.server.switch_controller(Factory::new(next, next.defaults())));
    held.iter().for_each(|datagram| pair.client_receives(datagram));
    pair.pass(Duration::from_millis(2));
    pair.settle();
    let seen = SEEN.take();
    assert!(seen.late.is_empty() && seen.lost.is_empty(), "{seen:?}");
}

#[test]
fn packet_threshold_learns_the_depth_of_reordering() {
    let mut pair = connect();
    for _ in 0..5 {
        round(&mut pair, 1, 6, Duration::from_millis(1));
    }
    let seen = SEEN.take();
    assert_eq!(seen.lost.len(), 1, "the first time only");
    assert_eq!(seen.late, seen.lost);
}

#[test]
fn packet_threshold_learns_reordering_by_more_than_twenty_packets() {
    let mut pair = connect();
    for _ in 0..5 {
        round(&mut pair, 1, 40, Duration::from_millis(1));
    }
    assert_eq!(SEEN.take().lost.len(), 1, "the first time only");
}

#[test]
fn packet_lost_long_ago_is_not_reported() {
    let mut pair = connect();
    round(&mut pair, 5, 40, Duration::from_secs(5));
    round(&mut pair, 0, 0, Duration::ZERO);
    let seen = SEEN.take();
    assert_eq!(seen.lost.len(), 5);
    assert!(seen.late.is_empty());
}
