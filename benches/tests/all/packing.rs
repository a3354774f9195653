//! Datagram sizes of the server's own sender.

use std::time::Duration;

use sluicegate_benches::endpoint_net::{Outcome, Path, Scenario, run};

/// 20 Mbit/s, 40 ms there and back, a queue of one bandwidth-delay product.
const PATH: Path = Path {
    delay: Duration::from_millis(20),
    rate: 20_000_000,
    queue_bytes: 100_000,
    max_datagram: 1_472,
};

/// Times that a page is loaded over one connection.
const PAGES: u64 = 5;

/// Loads a page of these bodies, and prints the sizes of datagrams by hundreds of bytes.
fn load(page: Vec<u64>) -> Outcome {
    let bytes = page.iter().sum::<u64>() * PAGES;
    let outcome =
        run(&Scenario { path: PATH, page, pages: PAGES, limit: Duration::from_secs(60), seed: 1 });
    let outcome = outcome.expect("both ends can be set up");
    assert!(outcome.completed.is_some());
    assert_eq!(outcome.received, bytes);
    println!(
        "{} datagrams of {:.0} bytes, {:.1} % below 600 bytes; {:?}",
        outcome.datagrams.len(),
        outcome.mean(),
        100.0 * outcome.share_below(600),
        outcome.histogram(100),
    );
    outcome
}

#[test]
fn page_of_large_objects_fills_datagrams() {
    let outcome = load(vec![50_000; 10]);
    assert!(outcome.share_below(600) <= 0.05);
}

#[test]
fn page_of_small_objects_shares_datagrams() {
    let outcome = load(vec![3_000; 30]);
    assert!(outcome.share_below(600) <= 0.25);
}
