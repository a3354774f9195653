//! What requests have waited for, as their lines in the access log tell it. The test's clock passes in steps.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use sluicegate_base::observe::account::Wait;
use sluicegate_config::AccessFormat;
use sluicegate_http::exchange::message::ToFront;
use sluicegate_quic::application::Shared as _;

use super::Pair;
use super::fixture::{Bench, logged};
use super::transport::connected_with_window;

/// Length of each wait, ms.
const STEP: u64 = 1000;

impl Bench {
    /// Lets time pass, in which the client sends what keeps its connection alive.
    fn wait(&mut self) {
        self.pair.ping();
    }
}

/// Returns the waits of the only request, in ms to the nearest 100; their sum is its duration.
fn waits(visit: impl FnOnce(&mut Bench)) -> Vec<(String, u64)> {
    let log = logged(AccessFormat::Json, visit);
    let line: Value = serde_json::from_str(log.trim_end()).unwrap();
    let waits = line["waits_us"].as_object().unwrap();
    let waits: Vec<_> =
        waits.iter().map(|(name, us)| (name.clone(), us.as_u64().unwrap())).collect();
    let sum: u64 = waits.iter().map(|(_, us)| us).sum();
    let duration = line["duration_us"].as_u64().unwrap();
    // Each is cut off to whole microseconds.
    assert!((duration - 5..=duration).contains(&sum), "{line}");
    let longest = waits.iter().max_by_key(|(_, us)| us).map(|(name, _)| name.as_str());
    assert_eq!(line["wait_top"].as_str(), longest);
    // The rest of the clock is real.
    let all = waits.into_iter().map(|(name, us)| (name, (us + 50_000) / 100_000 * 100));
    all.filter(|(_, ms)| *ms > 0).collect()
}

#[test]
fn a_proxied_request_waits_for_its_upstream_step_by_step() {
    let waits = waits(|bench| {
        let (_, exchange) = bench.ask("GET", "/app/x");
        bench.give(exchange, ToFront::Waits(Wait::Queue));
        bench.pair.settle();
        bench.wait();
        bench.give(exchange, ToFront::Waits(Wait::UpstreamConnect));
        bench.pair.settle();
        bench.wait();
        bench.wait();
        bench.give(exchange, ToFront::Waits(Wait::UpstreamResponse));
        bench.pair.settle();
        bench.wait();
        bench.head(exchange, None, false);
        bench.pair.settle();
        for _ in 0..3 {
            bench.wait();
            bench.give(exchange, ToFront::Data(Bytes::from_static(b"part")));
            bench.pair.settle();
        }
        bench.give(exchange, ToFront::End(None));
        bench.pair.settle();
    });
    let expected = [
        ("queue", STEP),
        ("upstream_connect", 2 * STEP),
        ("upstream_response", STEP),
        ("upstream_body", 3 * STEP),
    ];
    let shown: Vec<_> = waits.iter().map(|(name, ms)| (name.as_str(), *ms)).collect();
    assert_eq!(shown, expected);
}

#[test]
fn an_upload_waits_for_the_client_until_it_is_there_and_then_for_its_upstream() {
    let waits = waits(|bench| {
        let stream = bench.begin(&[]);
        bench.pair.settle();
        let (exchange, _) = bench.opened();
        bench.wait();
        bench.send(stream, b"part", false);
        bench.pair.settle();
        bench.wait();
        bench.send(stream, b"end", true);
        bench.pair.settle();
        bench.wait();
        bench.head(exchange, None, true);
        bench.pair.settle();
    });
    let shown: Vec<_> = waits.iter().map(|(name, ms)| (name.as_str(), *ms)).collect();
    assert_eq!(shown, [("request_body", 2 * STEP), ("upstream_response", STEP)]);
}

#[test]
fn a_handler_that_takes_no_more_of_an_upload_is_what_it_waits_for() {
    let waits = waits(|bench| {
        let stream = bench.begin(&[]);
        bench.send(stream, &[7; 8000], false);
        bench.pair.settle();
        let (exchange, _) = bench.opened();
        bench.wait();
        bench.head(exchange, None, true);
        bench.pair.settle();
    });
    let shown: Vec<_> = waits.iter().map(|(name, ms)| (name.as_str(), *ms)).collect();
    assert_eq!(shown, [("upstream_response", STEP)]);
}

#[test]
fn a_client_that_does_not_read_is_the_flow_control_of_its_stream() {
    let mut pair = Pair::of(connected_with_window(1000));
    let stream = pair.request("GET", "/bytes/5000", &[], true);
    pair.unread = Some(stream);
    pair.settle();
    for _ in 0..3 {
        pair.ping();
    }
    let flow = |pair: &Pair| pair.context.counters.waits.of(Wait::StreamFlow);
    assert_eq!(flow(&pair), Duration::ZERO, "the request is open");
    pair.unread = None;
    pair.stop(stream);
    pair.settle();
    assert!(flow(&pair) >= Duration::from_secs(3), "{:?}", pair.context.counters.waits);
}

#[test]
fn a_response_that_the_connection_holds_back_waits_for_what_that_waits_for() {
    let mut pair = Pair::new();
    let begun = pair.context.now;
    let mut account = sluicegate_base::observe::account::Account::begin(Wait::Application, begun);
    pair.context.look_at(&account);
    let stream = pair.request("GET", "/bytes/100000", &[], true);
    super::transport::carry(&mut pair.client, &mut pair.server);
    pair.turn();
    let blocked = pair.context.now;
    account.enter(Wait::Congestion, blocked);
    pair.passed += Duration::from_secs(4);
    account.enter(Wait::Pacing, blocked + pair.passed);
    pair.passed += Duration::from_secs(1);
    pair.context.now = blocked + pair.passed;
    pair.context.look_at(&account);
    pair.stop(stream);
    super::transport::carry(&mut pair.client, &mut pair.server);
    pair.turn();
    let waits = pair.context.counters.waits;
    assert_eq!(waits.of(Wait::Congestion).as_secs(), 4, "{waits:?}");
    assert!(waits.of(Wait::Pacing) >= Duration::from_secs(1), "{waits:?}");
}
