//! What happens to clients with many connections while memory is short. Time is the test's own.

use std::sync::Arc;

use super::draining::{begin, bench_with, step};
use super::fixture::{Bench, Client};
use super::*;
use crate::address::ValidatedAddress;
use crate::http::trusted_proxies::TrustedProxies;
use crate::observe::memory_budget::MemoryBudget;
use crate::quic::holders::Holder;

/// H3_EXCESSIVE_LOAD (RFC 9114 §8.1).
const EXCESSIVE_LOAD: u64 = 0x107;

/// Returns a bench whose memory is short from 1000 bytes on.
fn bench() -> Bench {
    let mut bench = bench_with(|limits| limits.client_timeout = Duration::ZERO);
    bench.endpoint.settings.sessions.memory = Arc::new(MemoryBudget::new(1000));
    bench
}

fn measured(bench: &mut Bench, bytes: u64) {
    bench.endpoint.settings.sessions.memory.measured(bytes);
}

fn connect(bench: &mut Bench, client: u8, count: u16) -> Vec<Client> {
    let address = |port| format!("192.0.2.{client}:{port}");
    (5000..5000 + count)
        .map(|port| bench.connect(&address(port)))
        .collect()
}

/// Lets turns follow each other for two seconds, and the clients hear what was said to them.
fn two_seconds(bench: &mut Bench, clients: &mut [Client]) {
    for _ in 0..100 {
        let said = bench.pass(Duration::from_millis(20));
        for client in &mut *clients {
            client.hear(said.clone());
        }
    }
}

fn open(bench: &Bench, client: &str) -> u64 {
    let client: ValidatedAddress = client.parse().unwrap();
    let holders = [false, true].map(|is_proxy| Holder::new(client, is_proxy));
    holders
        .map(|holder| bench.endpoint.holders.open(holder))
        .iter()
        .sum()
}

#[test]
fn while_memory_is_short_the_client_with_most_connections_gives_way() {
    let mut bench = bench();
    let mut greedy = connect(&mut bench, 1, 60);
    let honest = connect(&mut bench, 2, 1);
    let several = connect(&mut bench, 3, 16);
    measured(&mut bench, 1000);
    two_seconds(&mut bench, &mut greedy);
    assert_eq!(open(&bench, "192.0.2.1"), 16);
    assert_eq!(open(&bench, "192.0.2.2"), honest.len() as u64);
    assert_eq!(open(&bench, "192.0.2.3"), several.len() as u64);
    assert_eq!(bench.endpoint.counters.relieved, 44);
    assert_eq!(bench.endpoint.len(), 16 + 1 + 16);
    let codes = greedy.iter().filter_map(|client| client.quic.peer_error());
    let codes: Vec<_> = codes
        .map(|error| (error.is_app, error.error_code))
        .collect();
    assert!(!codes.is_empty());
    assert!(codes.iter().all(|code| *code == (true, EXCESSIVE_LOAD)));
    bench.endpoint.check();
    measured(&mut bench, 0);
    connect(&mut bench, 4, 1);
    assert_eq!(bench.endpoint.counters.relieved, 44);
}

#[test]
fn a_client_with_most_connections_loses_half_before_others_lose_any() {
    let mut bench = bench();
    // The server looks at the other one's connections first.
    connect(&mut bench, 2, 28);
    connect(&mut bench, 1, 60);
    measured(&mut bench, 1000);
    let mut alone = 0;
    for _ in 0..200 {
        bench.pass(Duration::from_millis(20));
        let left = [1, 2].map(|client| open(&bench, &format!("192.0.2.{client}")));
        assert!(left[0] <= 30 || left[1] == 28, "{left:?}");
        alone += u64::from(left[0] < 60 && left[1] == 28);
    }
    assert!(alone > 0);
    assert_eq!(bench.endpoint.len(), 16 + 16);
}

#[test]
fn connections_without_requests_give_way_first() {
    let mut bench = bench();
    let mut greedy = connect(&mut bench, 1, 20);
    // They take nothing of responses that are larger than their windows.
    let mut busy = Vec::new();
    for client in &mut greedy[..18] {
        busy.push(begin(client, 10_000_000));
        step(&mut bench, client);
    }
    measured(&mut bench, 1000);
    // The first round closes those at rest, the second finds none.
    for relieved in [2, 2] {
        bench.endpoint.service(usize::MAX, bench.now);
        assert_eq!(bench.endpoint.counters.relieved, relieved);
    }
    assert!(greedy[..18].iter().all(|client| !client.quic.is_closed()));
    two_seconds(&mut bench, &mut greedy);
    assert_eq!(open(&bench, "192.0.2.1"), 16);
    bench.endpoint.check();
}

#[test]
fn a_turn_closes_few_connections_and_a_period_not_many_more() {
    let mut bench = bench();
    connect(&mut bench, 1, 80);
    measured(&mut bench, 1000);
    let mut before = 0;
    for _ in 0..20 {
        bench.endpoint.service(usize::MAX, bench.now);
        let relieved = bench.endpoint.counters.relieved;
        assert!(relieved - before <= 16);
        before = relieved;
    }
    assert_eq!(before, 80 / 64 + 16);
}

/// The proxy has more connections than anybody else, and bears the requests of many clients.
#[test]
fn proxies_that_a_listener_trusts_give_way_last() {
    let mut bench = bench();
    let mut config = sluicegate_config::Config::embedded();
    config.listeners[0].trusted_proxies = vec!["192.0.2.1/32".parse().unwrap()];
    let trusted = Arc::new(TrustedProxies::of(&config.listeners[0]));
    let listener = bench.endpoint.settings.listeners.get_mut(&ListenerId(0));
    listener.unwrap().trusted_proxies = trusted;
    connect(&mut bench, 1, 50);
    connect(&mut bench, 2, 30);
    let left = |bench: &Bench| (open(bench, "192.0.2.1"), open(bench, "192.0.2.2"));
    measured(&mut bench, 1000);
    let mut before = left(&bench);
    for _ in 0..200 {
        bench.pass(Duration::from_millis(20));
        let now = left(&bench);
        assert!(now.0 == before.0 || now.1 == 16, "{now:?}");
        before = now;
    }
    assert_eq!(before, (16, 16));
}

#[test]
fn log_names_a_few_clients_at_once_and_one_a_second() {
    let mut bench = bench();
    let mut named = |now| (0..100).filter(|_| bench.endpoint.may_log(now)).count();
    let now = crate::clock::now();
    let second = Duration::from_secs(1);
    assert_eq!(
        [named(now), named(now + second), named(now + 9 * second)],
        [4, 1, 4]
    );
}
