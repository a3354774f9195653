mod board;
mod golden;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sluicegate_dataplane::Features;
use sluicegate_quic::connection_gauges::ControllerLabels;

use super::*;
use crate::worker::{Mailbox, mailbox};

/// Returns a worker's name, and its mailbox.
pub(in crate::admin) fn worker(group: &str, index: usize) -> (WorkerHandle, Mailbox) {
    let (sender, mailbox) = mailbox();
    let group = group.to_owned();
    // An origin thread that is gone sends no reply.
    let (origin, _) = tokio::sync::mpsc::unbounded_channel();
    let (front, _) = tokio::sync::mpsc::unbounded_channel();
    let watched = WorkerHandle { group, index, mailbox: sender, origin, front };
    (watched, mailbox)
}

/// Returns the figures of a busy worker.
fn stats() -> WorkerStats {
    let mut stats = WorkerStats {
        backend: "mio",
        features: Features { gso: true, ..Features::default() },
        spin: "adaptive",
        ..WorkerStats::default()
    };
    stats.endpoint.quic.accepted = 5;
    stats.endpoint.quic.by_algorithm.insert("cubic", 5);
    stats.endpoint.requests.responses.record(200);
    stats.endpoint.requests.responses.record(503);
    let latency = Duration::from_millis(3);
    stats.endpoint.requests.latency.record(latency);
    stats.datagrams.rx_datagrams = 70;
    stats.gauges.open = 2;
    let controller = ControllerLabels { algorithm: "cubic", state: "slow_start" };
    stats.gauges.controllers.insert(controller, 2);
    stats
}

/// Replies to one request, if there is one.
fn reply(mailbox: &Mailbox, stats: WorkerStats) -> bool {
    match mailbox.take() {
        Some(Command::Stats(reply)) => reply.send(Box::new(stats)).is_ok(),
        Some(other) => panic!("{other:?}"),
        None => false,
    }
}

/// Returns the page, while `work` goes on in the same thread; time that nobody uses passes at once.
fn page_while<F: Future<Output = ()>>(scraper: &Scraper, work: F) -> BTreeMap<String, f64> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let (page, ()) = runtime.block_on(async { tokio::join!(scraper.page(), work) });
    let page = page.unwrap();
    samples(&page)
}

/// Returns every sample of a page, which keeps all rules of the format and of Prometheus' naming.
fn samples(page: &str) -> BTreeMap<String, f64> {
    let mut families = BTreeMap::new();
    let mut helped = BTreeSet::new();
    let mut samples = BTreeMap::new();
    let mut current = "";
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(help.ends_with('.'), "{line}");
            assert!(helped.insert(name), "{name} comes twice");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(helped.contains(name), "{name} has no help");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            assert!(families.insert(name, kind).is_none(), "{name} comes twice");
            current = name;
        } else {
            let (sample, value) = line.rsplit_once(' ').unwrap();
            let name = sample.split('{').next().unwrap();
            let plain = match families[current] {
                "histogram" => ["_bucket", "_sum", "_count"]
                    .iter()
                    .any(|end| name.strip_suffix(end) == Some(current)),
                _ => name == current,
            };
            assert!(plain, "{line} in {current}");
            let value = value.parse().unwrap();
            assert!(samples.insert(sample.to_owned(), value).is_none(), "{line}");
        }
    }
    assert!(families.len() > 40, "{}", families.len());
    samples
}

#[test]
fn a_page_adds_the_workers_up() {
    let scraper = Scraper::new(Sources::default());
    let ((first, one), (second, two)) = (worker("a", 0), worker("a", 1));
    scraper.watch(vec![first, second]);
    let found = page_while(&scraper, async {
        tokio::task::yield_now().await;
        assert!(reply(&one, stats()) && reply(&two, stats()));
    });
    for (sample, expected) in [
        ("sluicegate_worker_up{group=\"a\",worker=\"1\"}", 1.0),
        ("sluicegate_worker_connections{group=\"a\",worker=\"0\"}", 2.0),
        ("sluicegate_connections", 4.0),
        ("sluicegate_connections_accepted_total", 10.0),
        ("sluicegate_connections_by_algorithm_total{algorithm=\"cubic\"}", 10.0),
        (
            "sluicegate_connections_by_controller_state{algorithm=\"cubic\",state=\"slow_start\"}",
            4.0,
        ),
        ("sluicegate_http_responses_total{code=\"503\"}", 2.0),
        ("sluicegate_http_request_duration_seconds_bucket{le=\"0.0025\"}", 0.0),
        ("sluicegate_http_request_duration_seconds_bucket{le=\"0.005\"}", 2.0),
        ("sluicegate_http_request_duration_seconds_sum", 0.006),
        ("sluicegate_datagrams_dropped_total{reason=\"empty\"}", 0.0),
        ("sluicegate_received_datagrams_total{group=\"a\",worker=\"1\",backend=\"mio\"}", 70.0),
        ("sluicegate_phase{phase=\"starting\"}", 1.0),
        ("sluicegate_phase{phase=\"serving\"}", 0.0),
    ] {
        assert_eq!(found.get(sample), Some(&expected), "{sample} in {found:#?}");
    }
}

#[test]
fn a_worker_that_does_not_reply_is_down_and_keeps_its_figures() {
    let accepted = "sluicegate_connections_accepted_total";
    let up = "sluicegate_worker_up{group=\"a\",worker=\"0\"}";
    let scraper = Scraper::new(Sources::default());
    let (watched, mailbox) = worker("a", 0);
    scraper.watch(vec![watched]);
    let found = page_while(&scraper, async {
        tokio::task::yield_now().await;
        assert!(reply(&mailbox, stats()));
    });
    assert_eq!((found[up], found[accepted]), (1.0, 5.0));
    for _ in 0..3 {
        let found = page_while(&scraper, async {});
        assert_eq!((found[up], found[accepted]), (0.0, 5.0));
    }
    // Three scrapes, one request; its late reply is not taken for the reply to the next.
    let mut late = stats();
    late.endpoint.quic.accepted = 6;
    assert!(reply(&mailbox, late));
    assert!(mailbox.take().is_none());
    let found = page_while(&scraper, async {
        tokio::task::yield_now().await;
        let mut newer = stats();
        newer.endpoint.quic.accepted = 7;
        assert!(reply(&mailbox, newer));
    });
    assert_eq!((found[up], found[accepted]), (1.0, 7.0));
    // It has ended.
    drop(mailbox);
    let found = page_while(&scraper, async {});
    assert_eq!((found[up], found[accepted]), (0.0, 7.0));
}

#[test]
fn before_there_are_workers_a_page_tells_of_the_process() {
    let scraper = Scraper::new(Sources::default());
    let found = page_while(&scraper, async {});
    assert_eq!(found["sluicegate_connections"], 0.0);
    assert!(found["process_open_fds"] > 2.0);
    assert!(found["sluicegate_allocator_resident_bytes"] > 0.0);
    let version = concat!("sluicegate_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"}");
    assert_eq!(found[version], 1.0);
}
