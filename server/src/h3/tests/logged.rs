//! Lines of the access log for requests without a whole response.

use bytes::Bytes;
use sluicegate_config::AccessFormat;
use sluicegate_http::exchange::message::ToFront;

use super::fixture::{Bench, logged};

/// Most of a body that the route of the handler allows, bytes.
const MOST: usize = 60_000;

/// Returns status, outcome and cause of the only request that a client makes.
fn line(visit: impl FnOnce(&mut Bench)) -> String {
    let text = logged(AccessFormat::Json, visit);
    let line: serde_json::Value = serde_json::from_str(&text).unwrap();
    ["status", "outcome", "cause"].map(|key| line[key].to_string()).join(" ")
}

/// Begins an upload to a handler. Returns the stream and the exchange.
fn begin(bench: &mut Bench) -> (u64, u64) {
    let stream = bench.begin(&[]);
    bench.pair.settle();
    (stream, bench.opened().0)
}

#[test]
fn a_request_that_is_reset_as_malformed_has_the_part_at_fault_as_its_cause() {
    let head = line(|bench| {
        bench.pair.ask("GET", "page", &[]);
        assert_eq!(bench.pair.context.counters.heads_malformed, 1);
    });
    assert_eq!(head, "null \"reset\" \"head_malformed\"");
    let short = line(|bench| {
        let length = [("content-length", "5")];
        bench.pair.upload(&length, b"1234", true);
        assert_eq!(bench.pair.context.counters.heads_malformed, 0);
    });
    assert_eq!(short, "null \"reset\" \"body_malformed\"");
    let missing = line(|bench| {
        bench.pair.ask("GET", "/page", &[("content-length", "5")]);
    });
    assert_eq!(missing, "null \"reset\" \"body_malformed\"");
}

#[test]
fn a_response_that_is_cut_for_a_body_that_is_too_large_says_so() {
    let large = line(|bench| {
        let (stream, exchange) = begin(bench);
        bench.head(exchange, None, false);
        bench.give(exchange, ToFront::Data(Bytes::from_static(b"so far")));
        bench.give(exchange, ToFront::Credit(1 << 20));
        bench.pair.settle();
        let mut sent = 0;
        while bench.pair.streams[&stream].reset.is_none() {
            assert!(sent <= 2 * MOST, "{sent}");
            sent += bench.send(stream, &[0; 1000], false);
            bench.pair.settle();
            while bench.worker_ring.take().is_some() {}
        }
    });
    assert_eq!(large, "200 \"reset\" \"body_too_large\"");
}

#[test]
fn a_request_that_its_client_cancels_has_no_cause() {
    let stopped = line(|bench| {
        let (stream, _) = bench.ask("GET", "/app/x");
        bench.pair.stop(stream);
        bench.pair.settle();
    });
    assert_eq!(stopped, "null \"cancelled\" null");
    let reset = line(|bench| {
        let (stream, _) = begin(bench);
        let client = &mut bench.pair.client;
        let direction = quiche::Shutdown::Write;
        client.stream_shutdown(stream, direction, 0x10c).unwrap();
        bench.pair.settle();
    });
    assert_eq!(reset, "null \"cancelled\" null");
}
