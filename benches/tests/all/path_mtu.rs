//! Downloads over paths of different MTU: datagrams that are too long vanish without a word.

use std::time::Duration;

use sluicegate_benches::endpoint_net::{Outcome, Path, Scenario, run};

/// Length of the headers of IPv4 and UDP, bytes.
const HEADERS: usize = 28;

/// Downloads 2 MB over 20 Mbit/s and 40 ms, on a path of this MTU.
fn download(mtu: usize) -> Outcome {
    let outcome = run(&Scenario {
        path: Path {
            delay: Duration::from_millis(20),
            rate: 20_000_000,
            queue_bytes: 100_000,
            max_datagram: mtu - HEADERS,
        },
        page: vec![2_000_000],
        pages: 1,
        limit: Duration::from_secs(10),
        seed: 1,
    });
    let outcome = outcome.expect("both ends can be set up");
    println!(
        "MTU {mtu}: {:?}, {} datagrams of {:.0} bytes; {:?}",
        outcome.completed,
        outcome.datagrams.len(),
        outcome.mean(),
        outcome.histogram(4),
    );
    assert_eq!(outcome.received, 2_000_000);
    outcome
}

/// The share of datagrams of exactly this size.
fn share_of(outcome: &Outcome, size: usize) -> f64 {
    outcome.share_below(size + 1) - outcome.share_below(size)
}

#[test]
fn download_over_mtu_1280_finishes() {
    let outcome = download(1_280);
    assert!(outcome.completed.is_some());
    assert!(outcome.share_below(1_280 - HEADERS + 1) > 0.95);
}

#[test]
fn download_over_mtu_1500_uses_datagrams_of_1472_bytes() {
    let outcome = download(1_500);
    assert!(outcome.completed.is_some());
    assert!(share_of(&outcome, 1_472) > 0.8);
}
