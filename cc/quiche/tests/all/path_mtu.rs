//! Path MTU discovery as the server uses it: up to 1472 bytes, the UDP payload of an MTU of 1500 over IPv4.

use std::cell::RefCell;
use std::time::Duration;

use quiche::{Connection, ConnectionId};
use sluicegate_cc::{Controller, Event, Init, Layer, Options};
use sluicegate_test_support::{built_by, builtin, config, emit, set_algorithm, Pair};

/// UDP payload that an MTU of 1500 bytes carries over IPv4.
const WIDE: usize = 1472;

/// The same of an MTU of 1280 bytes.
const NARROW: usize = 1252;

/// One-way delay.
const DELAY: Duration = Duration::from_millis(10);

/// Losses reported to the controllers, and datagram sizes that they counted in.
#[derive(Debug, Default)]
struct Seen {
    lost: usize,
    sizes: Vec<u64>,
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

    fn on_event(&mut self, event: &Event<'_>) {
        SEEN.with_borrow_mut(|seen| seen.lost += event.lost.len());
        self.0.on_event(event);
    }

    fn on_mtu(&mut self, mtu: u64) {
        SEEN.with_borrow_mut(|seen| seen.sizes.push(mtu));
        self.0.on_mtu(mtu);
    }
}

fn watched(init: &Init, options: &Options) -> Box<dyn Controller> {
    Box::new(Watched((builtin("cubic").build)(init, options)))
}

/// Connects over a path that carries datagrams of up to `limit` bytes. Only the server looks for the path's MTU.
fn connect(limit: usize) -> Pair {
    let mut server = config(10);
    set_algorithm(&mut server, built_by("cubic", watched));
    server.set_max_send_udp_payload_size(WIDE);
    server.discover_pmtu(true);
    let mut pair = Pair::new(&mut config(1000), &mut server);
    while !pair.client.is_established() {
        turn(&mut pair, limit);
    }
    pair
}

/// Sends what both sides have, drops what the path does not carry, and lets a round trip pass.
fn turn(pair: &mut Pair, limit: usize) {
    let replies = emit(&mut pair.server);
    pair.pass(DELAY);
    for datagram in replies.iter().filter(|d| d.len() <= limit) {
        pair.client_receives(datagram);
    }
    let requests = emit(&mut pair.client);
    pair.pass(DELAY);
    for datagram in requests.iter().filter(|d| d.len() <= limit) {
        pair.server_receives(datagram);
    }
}

/// The client downloads `len` bytes on a stream. Returns the turns that it took.
fn download(pair: &mut Pair, stream: u64, len: usize, limit: usize) -> usize {
    pair.client.stream_send(stream, b"?", true).expect("request");
    let body = vec![7; len];
    let (mut written, mut read, mut turns) = (0, 0, 0);
    let mut buffer = [0; 65_536];
    while read < len {
        turns += 1;
        assert!(turns < 2000, "{read} of {len} bytes arrived");
        if written < len {
            written += pair.server.stream_send(stream, &body[written..], true).unwrap_or(0);
        }
        turn(pair, limit);
        while let Ok((taken, _)) = pair.client.stream_recv(stream, &mut buffer) {
            read += taken;
        }
    }
    turns
}

/// Lets turns without data pass until the search has ended. Returns in how many of them the server waited for an
/// acknowledgement of anything but a probe, and how many there were.
fn end_search(pair: &mut Pair, limit: usize) -> (usize, usize) {
    let (mut waiting, mut turns) = (0, 0);
    while pair.server.pmtu().is_none() {
        turns += 1;
        assert!(turns < 500, "no end of {:?}", pair.server.path_stats().next());
        turn(pair, limit);
        waiting += usize::from(pair.server.has_unacked());
    }
    (waiting, turns)
}

fn found(server: &Connection) -> usize {
    server.max_send_udp_payload_size()
}

#[test]
fn wide_path_is_found_at_once() {
    let mut pair = connect(WIDE);
    assert_eq!(found(&pair.server), 1200);
    download(&mut pair, 0, 500_000, WIDE);
    assert_eq!(found(&pair.server), WIDE);
    assert_eq!(pair.server.pmtu(), Some(WIDE));
    let seen = SEEN.take();
    assert_eq!(seen.lost, 0);
    assert_eq!(seen.sizes, [1200, WIDE as u64]);
}

#[test]
fn narrow_path_is_found_without_a_congestion_signal() {
    let mut pair = connect(NARROW);
    let turns = download(&mut pair, 0, 3_000_000, NARROW);
    end_search(&mut pair, NARROW);
    assert_eq!(found(&pair.server), NARROW);
    assert_eq!(pair.server.pmtu(), Some(NARROW));
    let seen = SEEN.take();
    assert_eq!(seen.lost, 0, "a lost probe is no congestion signal");
    // The controller counts in sizes that the path is known to carry.
    assert!(seen.sizes.is_sorted(), "{:?}", seen.sizes);
    assert!(seen.sizes.iter().all(|size| *size <= NARROW as u64));

    // It takes as long as a path of which nothing wider is tried.
    let mut plain = config(10);
    set_algorithm(&mut plain, builtin("cubic"));
    plain.set_max_send_udp_payload_size(1200);
    let mut other = Pair::connect(&mut config(1000), &mut plain);
    let plain = download(&mut other, 0, 3_000_000, NARROW);
    assert!(turns <= plain + 2, "{turns} turns, {plain} without probes");
}

#[test]
fn quiet_connection_ends_its_search() {
    let mut pair = connect(NARROW);
    for _ in 0..10 {
        turn(&mut pair, NARROW);
    }
    let (waiting, turns) = end_search(&mut pair, NARROW);
    assert!(3 * waiting < turns, "it waits in {waiting} of {turns} turns");
    assert_eq!(pair.server.pmtu(), Some(NARROW));
    assert_eq!(SEEN.take().lost, 0);
}

#[test]
fn wider_path_is_found_once_the_search_is_raised() {
    let mut pair = connect(NARROW);
    end_search(&mut pair, NARROW);
    pair.server.raise_pmtu();
    // Still as narrow: what was found goes on meanwhile.
    for _ in 0..5 {
        turn(&mut pair, NARROW);
        assert_eq!(found(&pair.server), NARROW);
    }
    end_search(&mut pair, NARROW);
    assert_eq!(found(&pair.server), NARROW);
    pair.server.raise_pmtu();
    end_search(&mut pair, WIDE);
    assert_eq!(found(&pair.server), WIDE);
    pair.server.raise_pmtu();
    assert_eq!(pair.server.pmtu(), Some(WIDE), "there is nothing above");
    assert_eq!(SEEN.take().lost, 0);
}

#[test]
fn new_path_begins_with_what_every_path_carries() {
    let mut pair = connect(WIDE);
    let spare = ConnectionId::from_vec(vec![3; 16]);
    pair.client.new_scid(&spare, 7, false).expect("spare ID");
    download(&mut pair, 0, 500_000, WIDE);
    assert_eq!(found(&pair.server), WIDE);

    // The client moves behind a path of 1280 bytes.
    pair.client_at.set_port(4321);
    download(&mut pair, 4, 3_000_000, NARROW);
    end_search(&mut pair, NARROW);
    assert_eq!(found(&pair.server), NARROW);
    assert_eq!(pair.server.pmtu(), Some(NARROW));
}
