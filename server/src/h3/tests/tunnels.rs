//! Requests for tunnels.

use bytes::Bytes;
use sluicegate_base::observe::access::UpstreamTimes;
use sluicegate_config::AccessFormat;
use sluicegate_http::exchange::message::{HandlerReport, ToFront, ToHandler, cost};
use sluicegate_quic::application::Application as _;

use super::fixture::{Bench, logged};

/// Head of a request for a WebSocket.
const WEBSOCKET: [(&str, &str); 5] = [
    (":method", "CONNECT"),
    (":protocol", "websocket"),
    (":scheme", "https"),
    (":authority", "localhost"),
    (":path", "/app/x"),
];

/// A client that asks for a tunnel sends nothing more, and does not end its stream, before it gets a response.
#[test]
fn a_tunnel_gets_501_at_once_and_is_counted_and_logged() {
    let log = logged(AccessFormat::Combined, |bench| {
        let pair = &mut bench.pair;
        let plain = [(":method", "CONNECT"), (":authority", "example.org:443")];
        let extended = [
            (":method", "CONNECT"),
            (":protocol", "connect-udp"),
            (":scheme", "https"),
            (":authority", "localhost"),
            (":path", "/page"),
        ];
        for lines in [&plain[..], &extended] {
            let stream = pair.send_head(lines, false);
            pair.settle();
            let seen = &pair.streams[&stream];
            assert_eq!((seen.status(), seen.finished), ("501", true), "{lines:?}");
        }
        assert_eq!(pair.client.stats().stopped_stream_count_remote, 2);
        assert_eq!(pair.context.counters.gate.tunnels, 2);
        assert_eq!(pair.context.counters.malformed, 0);
        assert!(pair.session.is_idle());
        // Clients may ask for WebSocket (RFC 9220 §3).
        assert!(pair.h3.extended_connect_enabled_by_peer());
    });
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert!(lines[0].contains("\"CONNECT example.org:443 HTTP/3\" 501 "), "{log}");
    assert!(lines[1].contains("\"CONNECT /page HTTP/3\" 501 "), "{log}");
}

/// The fixture's route takes bodies of 60,000 bytes, and requests wait for their client for a minute at most.
#[test]
fn a_websocket_has_no_limit_of_a_body_and_may_be_silent() {
    let mut bench = Bench::new();
    let stream = bench.pair.send_head(&WEBSOCKET, false);
    bench.pair.settle();
    let (exchange, request) = bench.opened();
    assert!(request.head.is_websocket() && request.has_body);
    bench.head(exchange, None, false);
    bench.pair.settle();
    assert_eq!(bench.pair.streams[&stream].status(), "200");
    let mut passed = 0;
    while passed < 100_000 {
        passed += bench.send(stream, &[7; 1000], false);
        bench.pair.settle();
        for envelope in std::iter::from_fn(|| bench.worker_ring.take()).collect::<Vec<_>>() {
            if let ToHandler::Data(block) = envelope.message {
                bench.give(exchange, ToFront::Credit(cost(block.len())));
            }
        }
    }
    for _ in 0..600 {
        bench.pair.ping();
    }
    assert_eq!(bench.pair.context.counters.stalled_bodies, 0);
    assert_eq!(bench.send(stream, b"still there", false), 11);
    bench.give(exchange, ToFront::Data(Bytes::from_static(b"so am I")));
    bench.pair.settle();
    assert_eq!(bench.pair.streams[&stream].body, b"so am I");
    // Its duration is no response time.
    bench.give(exchange, ToFront::End(None));
    bench.pair.settle();
    assert!(bench.pair.streams[&stream].finished);
    assert_eq!(bench.pair.context.counters.latency.count(), 0);
}

#[test]
fn a_websocket_of_another_version_gets_426_with_the_version_that_is_spoken() {
    let mut bench = Bench::new();
    let lines = [&WEBSOCKET[..], &[("sec-websocket-version", "8")]].concat();
    let stream = bench.pair.send_head(&lines, false);
    bench.pair.settle();
    let seen = &bench.pair.streams[&stream];
    assert_eq!((seen.status(), seen.finished), ("426", true));
    assert_eq!(seen.headers["sec-websocket-version"], "13");
    // HTTP/3 has no upgrade.
    for name in ["connection", "upgrade"] {
        assert!(!seen.headers.contains_key(name), "{name}");
    }
}

#[test]
fn access_log_names_the_cause_of_a_response_in_place_of_a_handlers() {
    let log = logged(AccessFormat::Json, |bench| {
        let plain = [(":method", "CONNECT"), (":authority", "example.org:443")];
        bench.pair.send_head(&plain, false);
        bench.pair.settle();
        // A handler that reports why it failed, one that does not, and one that was not there.
        for report in [Some("head_timeout"), None] {
            let (_, exchange) = bench.ask("GET", "/app/x");
            if let Some(cause) = report {
                let report = HandlerReport {
                    upstream: Some("10.0.0.1:80".into()),
                    attempts: 2,
                    upstream_times: UpstreamTimes::default(),
                    cause: Some(cause),
                };
                bench.give(exchange, ToFront::Report(Box::new(report)));
            }
            bench.give(exchange, ToFront::Abort(504));
            bench.give(exchange, ToFront::Closed);
            bench.pair.settle();
        }
        bench.pair.context.origin_ring = None;
        bench.pair.ask("GET", "/app/x", &[]);
    });
    let lines = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let told: Vec<_> = lines
        .map(|line| {
            ["status", "cause", "upstream", "attempts"].map(|key| line[key].to_string()).join(" ")
        })
        .collect();
    assert_eq!(
        told,
        [
            "501 \"tunnel\" null 0",
            "504 \"head_timeout\" \"10.0.0.1:80\" 2",
            "504 \"route_timeout\" null 0",
            "503 \"no_room\" null 0",
        ]
    );
}
