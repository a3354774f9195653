use std::time::Duration;

use sluicegate_cc::Registry;

use super::*;
use crate::settings::Settings;
use crate::testing::{Bench, Client};

/// Bytes of the download.
const LENGTH: usize = 800_000;
const STEP: Duration = Duration::from_millis(20);

fn order(bench: &Bench, name: &str) -> AlgorithmSwitch {
    let algorithm = *Registry::builtin().find(name).unwrap();
    let connection = bench.endpoint.connections.get(0).unwrap().original_id().to_vec();
    AlgorithmSwitch { connection, algorithm, options: algorithm.defaults() }
}

/// Returns how many connections the gauges count under an algorithm.
fn counted(bench: &Bench, name: &str) -> u64 {
    let controllers = bench.endpoint.gauges().controllers;
    controllers.iter().filter(|(one, _)| one.algorithm == name).map(|(_, count)| count).sum()
}

/// Downloads over a path that loses a packet of 100, with one algorithm, another one from a third on, and the first one again from two
/// thirds on. Each window is no larger than the one before it, and never below two datagrams.
fn download(from: &str, to: &str) {
    let mut bench = Bench::new(Settings::plain(0, 1));
    let client = bench.connect_client(Client::with_window("192.0.2.1:5000", 100_000));
    let (mut client, mut h3) = bench.with_session(client);
    let first = order(&bench, from);
    bench.endpoint.switch_algorithm(first);
    let stream = client.request(&mut h3, "GET", &format!("/bytes/{LENGTH}"));
    let mut switches = vec![(2 * LENGTH / 3, from), (LENGTH / 3, to)];
    let (mut read, mut count) = (0, 0);
    for _ in 0..2_000 {
        client.speak(&mut bench.endpoint, bench.now);
        let mut said = bench.pass(STEP);
        said.retain(|_| {
            count += 1;
            count % 100 != 0
        });
        client.hear(said);
        while h3.poll(&mut client.quic).is_ok() {}
        while let Ok(length) = h3.recv_body(&mut client.quic, stream, &mut [0; 16_384]) {
            read += length;
        }
        if let Some((_, name)) = switches.pop_if(|(at, _)| read > *at) {
            let order = order(&bench, name);
            let outcome = bench.endpoint.switch_algorithm(order).unwrap();
            let after = outcome.to.unwrap();
            assert_eq!(after.algorithm, name);
            let most = outcome.from.window.max(4 * 1500);
            assert!(after.window <= most, "{from} to {to}: {outcome:?}");
            assert_eq!(counted(&bench, name), 1, "{from} to {to}");
        }
        let window = bench.endpoint.connections.get(0).unwrap().controller_state().window;
        assert!(window >= 2 * 1200, "{from} to {to}: {window}");
        if read == LENGTH {
            assert!(switches.is_empty());
            return;
        }
    }
    panic!("{from} to {to}: {read} of {LENGTH} bytes");
}

#[test]
fn download_goes_on_with_another_algorithm() {
    let registry = Registry::builtin();
    for from in registry.names() {
        for to in registry.names() {
            download(from, to);
        }
    }
}

#[test]
fn connection_counts_under_its_new_algorithm() {
    let mut bench = Bench::new(Settings::plain(0, 1));
    bench.connect_client(Client::new("192.0.2.1:5000"));
    assert_eq!((counted(&bench, "cubic"), counted(&bench, "bbr3")), (1, 0));
    let order = order(&bench, "bbr3");
    let outcome = bench.endpoint.switch_algorithm(order.clone()).unwrap();
    assert_eq!((outcome.from.algorithm, outcome.from.state), ("cubic", "slow_start"));
    let to = outcome.to.unwrap();
    assert_eq!((to.algorithm, to.state, to.window), ("bbr3", "startup", outcome.from.window));
    assert_eq!((counted(&bench, "cubic"), counted(&bench, "bbr3")), (0, 1));
    let unknown = AlgorithmSwitch { connection: vec![1], ..order };
    assert_eq!(bench.endpoint.switch_algorithm(unknown), None);
}

#[test]
fn algorithm_stays_until_the_handshake_is_complete() {
    let mut bench = Bench::new(Settings::plain(0, 1));
    Client::new("192.0.2.1:5000").speak(&mut bench.endpoint, bench.now);
    bench.said();
    let order = order(&bench, "reno");
    let outcome = bench.endpoint.switch_algorithm(order).unwrap();
    assert_eq!((outcome.from.algorithm, outcome.to), ("cubic", None));
    assert_eq!(counted(&bench, "reno"), 0);
}
