//! What happens to clients that hold much while memory is short. Time is the test's own.

use std::sync::Arc;

use sluicegate_base::address::ValidatedAddress;
use sluicegate_base::clients::relief::{Holdings, KEPT};
use sluicegate_base::observe::memory_budget::MemoryBudget;

use super::draining::bench_with;
use super::*;
use crate::holders::Holder;
use crate::testing::{Bench, Client};

/// H3_EXCESSIVE_LOAD (RFC 9114 §8.1).
const EXCESSIVE_LOAD: u64 = 0x107;
/// Memory limit that no test comes near to by itself, bytes.
const LIMIT: u64 = 1 << 40;
/// More than all connections of a test hold, bytes.
const PLENTY: u64 = 1 << 30;
/// Connections at rest that hold as much as every client keeps, or a little more.
const MANY: u64 = KEPT / (32 << 10);

/// Returns a bench whose memory suffices.
fn bench() -> Bench {
    let mut bench = bench_with(|limits| limits.client_timeout = Duration::ZERO);
    bench.endpoint.settings.shared.memory = Arc::new(MemoryBudget::new(LIMIT));
    bench
}

/// Takes a measurement by which memory is short, and so many bytes are to be freed.
fn measured(bench: &Bench, to_free: u64) {
    let memory = &bench.endpoint.settings.shared.memory;
    // The longer memory is short without a break, the less clients keep.
    memory.measured(0);
    memory.measured(LIMIT);
    memory.on_closed(memory.to_free() - to_free);
}

fn connect(bench: &mut Bench, client: u8, count: u16) -> Vec<Client> {
    let address = |port| format!("192.0.2.{client}:{port}");
    (5000..5000 + count).map(|port| bench.connect(&address(port))).collect()
}

/// Lets a measurement follow another until none closes any more, and the clients hear what was said to them.
fn relieve(bench: &mut Bench, clients: &mut [Client]) {
    for _ in 0..50 {
        measured(bench, PLENTY);
        let said = bench.pass(Duration::from_millis(200));
        for client in &mut *clients {
            client.hear(said.clone());
        }
    }
}

fn open(bench: &Bench, client: &str) -> u64 {
    let client: ValidatedAddress = client.parse().unwrap();
    let holders = [false, true].map(|is_proxy| Holder::new(client, is_proxy));
    holders.map(|holder| bench.endpoint.holders.open(holder)).iter().sum()
}

#[test]
fn while_memory_is_short_the_client_that_holds_most_gives_way_and_keeps_a_little() {
    let mut bench = bench();
    let mut greedy = connect(&mut bench, 1, 60);
    let honest = connect(&mut bench, 2, 1);
    let several = connect(&mut bench, 3, 16);
    relieve(&mut bench, &mut greedy);
    let left = open(&bench, "192.0.2.1");
    assert!((MANY - 4..=MANY).contains(&left), "{left}");
    assert_eq!(open(&bench, "192.0.2.2"), honest.len() as u64);
    assert_eq!(open(&bench, "192.0.2.3"), several.len() as u64);
    assert_eq!(bench.endpoint.counters.relieved, 60 - left);
    let codes = greedy.iter().filter_map(|client| client.quic.peer_error());
    let codes: Vec<_> = codes.map(|error| (error.is_app, error.error_code)).collect();
    assert!(!codes.is_empty());
    assert!(codes.iter().all(|code| *code == (true, EXCESSIVE_LOAD)));
    bench.endpoint.check();
    bench.endpoint.settings.shared.memory.measured(0);
    connect(&mut bench, 4, 1);
    assert_eq!(bench.endpoint.counters.relieved, 60 - left);
}

#[test]
fn memory_of_a_connection_is_free_as_soon_as_its_close_has_left() {
    let mut bench = bench();
    connect(&mut bench, 1, 60);
    measured(&bench, 1);
    bench.said();
    assert_eq!(bench.endpoint.counters.relieved, 1, "that is enough");
    assert_eq!(bench.endpoint.len(), 59);
    bench.endpoint.check();
}

#[test]
fn a_client_that_holds_most_is_cut_to_the_next_one_before_that_loses_any() {
    let mut bench = bench();
    // The server looks at the other one's connections first.
    connect(&mut bench, 2, 50);
    connect(&mut bench, 1, 90);
    let left = |bench: &Bench| [1, 2].map(|client| open(bench, &format!("192.0.2.{client}")));
    for _ in 0..36 {
        measured(&bench, 32 << 10);
        bench.pass(Duration::from_millis(200));
        assert_eq!(left(&bench)[1], 50, "{:?}", left(&bench));
    }
    let [greedy, _] = left(&bench);
    assert!((50..=54).contains(&greedy), "{greedy}");
    relieve(&mut bench, &mut []);
    let [one, other] = left(&bench);
    assert!(one.abs_diff(other) <= 4, "{one} {other}");
}

/// Opens a connection with so many requests that wait.
fn ask(bench: &mut Bench, address: &str, requests: usize) -> Client {
    let client = bench.connect(address);
    let (mut client, mut h3) = bench.with_session(client);
    for _ in 0..requests {
        client.request(&mut h3, "GET", "/app/x");
    }
    client.speak(&mut bench.endpoint, bench.now);
    bench.said();
    client
}

#[test]
fn who_holds_most_bytes_loses_first_however_few_connections_hold_them() {
    let bench = &mut bench();
    connect(bench, 2, 24);
    let mut greedy = [0, 10, 40].map(|requests| {
        let address = format!("192.0.2.1:{}", 6000 + requests);
        ask(bench, &address, requests)
    });
    assert_eq!(bench.endpoint.shared().requests.len(), 50);
    measured(bench, 1 << 20);
    let said = bench.said();
    for client in &mut greedy {
        client.hear(said.clone());
    }
    let closed = greedy.each_ref().map(|client| client.quic.peer_error().is_some());
    assert_eq!(closed, [false, false, true], "the one that holds most");
    assert_eq!(open(bench, "192.0.2.2"), 24);
    assert_eq!(bench.endpoint.counters.relieved, 1);
    bench.endpoint.check();
}

/// The client's other memory is at a front over TCP, or at another worker.
#[test]
fn what_clients_hold_at_other_fronts_counts() {
    let mut bench = bench();
    let holdings = Arc::<Holdings>::default();
    let other = holdings.add_front();
    bench.endpoint.settings.shared.relief = holdings.add_front();
    connect(&mut bench, 1, 60);
    measured(&bench, 1 << 20);
    let client: ValidatedAddress = "192.0.2.9".parse().unwrap();
    let held = std::iter::once((client.into(), PLENTY));
    let memory = &bench.endpoint.settings.shared.memory;
    other.report(held, std::iter::empty(), memory);
    bench.said();
    assert_eq!(bench.endpoint.counters.relieved, 0);
    assert_eq!(open(&bench, "192.0.2.1"), 60);
}

#[test]
fn a_turn_closes_few_connections_and_a_measurement_begins_two_passes_at_most() {
    let mut bench = bench();
    connect(&mut bench, 1, 80);
    measured(&bench, PLENTY);
    let mut before = 0;
    for _ in 0..10 {
        bench.endpoint.service(usize::MAX, bench.now);
        let relieved = bench.endpoint.counters.relieved;
        assert!(relieved - before <= 16);
        before = relieved;
    }
    assert!((1..=80 - MANY + 4).contains(&before), "{before}");
    assert!(!bench.endpoint.has_service());
}

/// The proxy has more connections than anybody else, and bears the requests of many clients.
#[test]
fn proxies_that_a_listener_trusts_give_way_last() {
    let mut bench = bench();
    let listener = bench.endpoint.settings.listeners.get_mut(&ListenerId(0));
    listener.unwrap().application = vec!["192.0.2.1".parse().unwrap()];
    connect(&mut bench, 1, 60);
    connect(&mut bench, 2, 40);
    let left = |bench: &Bench| (open(bench, "192.0.2.1"), open(bench, "192.0.2.2"));
    let mut before = left(&bench);
    for _ in 0..50 {
        measured(&bench, PLENTY);
        bench.pass(Duration::from_millis(200));
        let now = left(&bench);
        assert!(now.0 == before.0 || now.1 <= MANY, "{now:?}");
        before = now;
    }
    for left in [before.0, before.1] {
        assert!((MANY - 4..=MANY).contains(&left), "{before:?}");
    }
}

#[test]
fn log_names_a_few_clients_at_once_and_one_a_second() {
    let mut bench = bench();
    let mut named = |now| (0..100).filter(|_| bench.endpoint.may_log(now)).count();
    let now = sluicegate_base::clock::now();
    let second = Duration::from_secs(1);
    assert_eq!([named(now), named(now + second), named(now + 9 * second)], [4, 1, 4]);
}
