//! Downloads over paths of different MTU: datagrams that are too long vanish without a word.

use std::time::Duration;

use sluicegate_benches::virtual_net::Outcome;

use super::packing::{load, share_below};

/// Length of the headers of IPv4 and UDP, bytes.
const HEADERS: usize = 28;

/// Downloads 2 MB over 20 Mbit/s and 40 ms, on a path of this MTU.
fn download(mtu: usize) -> Outcome {
    let outcome = load((1, 2_000_000), 1, mtu - HEADERS, 4);
    assert!(outcome.completed.is_some_and(|time| time <= Duration::from_secs(10)));
    outcome
}

/// The share of datagrams of exactly this size.
fn share_of(outcome: &Outcome, size: usize) -> f64 {
    share_below(outcome, size + 1) - share_below(outcome, size)
}

#[test]
fn download_over_mtu_1280_finishes() {
    let outcome = download(1_280);
    assert!(share_below(&outcome, 1_280 - HEADERS + 1) > 0.95);
}

#[test]
fn download_over_mtu_1500_uses_datagrams_of_1472_bytes() {
    let outcome = download(1_500);
    assert!(share_of(&outcome, 1_472) > 0.8);
}
