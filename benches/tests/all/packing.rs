//! Datagram sizes of the server's own sender.

use std::collections::BTreeMap;
use std::time::Duration;

use sluicegate_benches::virtual_net::{Download, Outcome, PageLoad, Scenario, Server, run};
use sluicegate_sim::{Bottleneck, Pages, Source};

/// Times that a page is loaded over one connection.
const PAGES: u64 = 5;

/// Loads a page of so many objects of this size again and again from the server as it is without a file, over 20 Mbit/s, 40 ms there
/// and back and a queue of one bandwidth-delay product. Larger datagrams than `max_datagram` are lost. Prints the sizes of datagrams.
pub(crate) fn load(
    (objects, size): (u64, u64),
    times: u64,
    max_datagram: usize,
    step: usize,
) -> Outcome {
    let pages = Pages { bytes: objects * size, think: Duration::ZERO };
    let bytes = times * pages.bytes;
    let pages = Some(PageLoad { pages, objects });
    let download = Download { pages, ..Download::new("cubic", Source::Bulk(bytes)) };
    let path = Bottleneck::new(20_000_000, Duration::from_millis(40), 1.0);
    let server = Server::Endpoint { max_udp_payload: 1_472 };
    let limit = Duration::from_secs(60);
    let scenario = Scenario::new(server, vec![download], &path, limit, 1);
    let outcomes = run(&Scenario { max_datagram, ..scenario });
    let outcome = outcomes.expect("both ends can be set up").remove(0);
    assert!(outcome.completed.is_some());
    assert_eq!(outcome.received, bytes);
    let mut histogram = BTreeMap::<_, u32>::new();
    for size in &outcome.datagrams {
        *histogram.entry(size / step * step).or_default() += 1;
    }
    println!("{:?}, {} datagrams: {histogram:?}", outcome.completed, outcome.datagrams.len());
    outcome
}

/// Returns the share of datagrams of fewer than `bytes`.
pub(crate) fn share_below(outcome: &Outcome, bytes: usize) -> f64 {
    let small = outcome.datagrams.iter().filter(|size| **size < bytes).count();
    small as f64 / outcome.datagrams.len() as f64
}

#[test]
fn page_of_large_objects_fills_datagrams() {
    let outcome = load((10, 50_000), PAGES, 1_472, 100);
    assert!(share_below(&outcome, 600) <= 0.05);
}

#[test]
fn page_of_small_objects_shares_datagrams() {
    let outcome = load((30, 3_000), PAGES, 1_472, 100);
    assert!(share_below(&outcome, 600) <= 0.25);
}
