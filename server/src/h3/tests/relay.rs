//! Requests of a handler on the origin thread; here the test is that handler.

use sluicegate_quic::application::Application as _;

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use quiche::h3::Header;
use sluicegate_http::exchange::accounts::Accounts;
use sluicegate_http::exchange::message::{Envelope, Head, ToFront, ToHandler, cost};
use sluicegate_http::exchange::ring::rings;

use super::fixture::{Bench, SHARE, fields};
use super::{Pair, counters};

const LIMIT: usize = 60_000;

#[test]
fn a_request_is_handed_over_as_it_came_and_as_configured() {
    let mut bench = Bench::new();
    let more = [("x-mine", "1"), ("x-gone", "2"), ("cookie", "a=b")];
    bench.pair.request("DELETE", "/app/x?y=z", &more, true);
    bench.pair.settle();
    let (_, request) = bench.opened();
    let head = &request.head;
    assert_eq!((head.method.as_str(), head.path.as_str()), ("DELETE", "/app/x"));
    assert_eq!(head.query.as_deref(), Some("y=z"));
    assert_eq!(head.headers, fields(&[("x-mine", "1"), ("cookie", "a=b"), ("x-set", "new")]));
    assert!(!request.has_body && !request.peer.early_data);
    assert_eq!(request.peer.address, sluicegate_test_support::client_address().into());
}

#[test]
fn a_response_arrives_with_its_interim_head_its_blocks_and_its_trailers() {
    let mut bench = Bench::new();
    let (stream, exchange) = bench.ask("GET", "/app/x");
    bench.give(exchange, ToFront::Interim(103, fields(&[("link", "</a>")])));
    bench.pair.settle();
    assert_eq!(bench.pair.streams[&stream].status(), "103");
    bench.head(exchange, None, false);
    for block in ["one ", "two ", "three"] {
        bench.give(exchange, ToFront::Data(Bytes::from_static(block.as_bytes())));
    }
    bench.pair.settle();
    let seen = &bench.pair.streams[&stream];
    assert_eq!((seen.status(), &seen.body[..]), ("200", &b"one two three"[..]));
    assert!(!seen.finished && !seen.headers.contains_key("content-length"));
    assert_eq!((&seen.headers["server"][..], &seen.headers["x-added"][..]), ("theirs", "1"));
    bench.give(exchange, ToFront::End(Some(fields(&[("x-sum", "9")]))));
    bench.give(exchange, ToFront::Closed);
    bench.pair.settle();
    let seen = &bench.pair.streams[&stream];
    assert!(seen.finished);
    assert_eq!(seen.headers["x-sum"], "9");
    assert!(bench.pair.session.is_idle());
    // What was taken may be sent again.
    let mut credit = 0;
    while let Some(Envelope { message: ToHandler::Credit(amount), .. }) = bench.worker_ring.take() {
        credit += amount;
    }
    assert_eq!(credit, cost(8) + cost(4) + cost(4) + cost(5));
}

/// Larger than the first window: there is nothing in flight whose acknowledgement could make it grow.
#[test]
fn a_head_larger_than_the_window_arrives() {
    let mut bench = Bench::new();
    let (stream, exchange) = bench.ask("GET", "/app/x");
    let value = HeaderValue::from_str(&"x".repeat(30_000)).unwrap();
    let head = Head {
        status: 200,
        fields: vec![(HeaderName::from_static("x-large"), value)],
        length: Some(0),
        end: true,
    };
    bench.give(exchange, ToFront::Head(head));
    bench.pair.settle();
    let seen = &bench.pair.streams[&stream];
    assert!(seen.finished);
    assert_eq!(seen.headers["x-large"].len(), 30_000);
}

#[test]
fn head_gets_the_length_alone() {
    let mut bench = Bench::new();
    let (stream, exchange) = bench.ask("HEAD", "/app/x");
    bench.head(exchange, Some(1234), true);
    bench.pair.settle();
    let seen = &bench.pair.streams[&stream];
    assert_eq!((&seen.headers["content-length"][..], seen.finished), ("1234", true));
    assert!(seen.body.is_empty() && bench.pair.session.is_idle());
}

#[test]
fn head_gets_no_body_whatever_its_handler_sends() {
    for at_once in [true, false] {
        let mut bench = Bench::new();
        let (stream, exchange) = bench.ask("HEAD", "/app/x");
        bench.head(exchange, Some(5), false);
        if !at_once {
            bench.pair.settle();
        }
        bench.give(exchange, ToFront::Data(Bytes::from_static(b"bytes")));
        bench.pair.settle();
        let seen = &bench.pair.streams[&stream];
        assert_eq!((&seen.headers["content-length"][..], seen.finished), ("5", true));
        assert!(seen.body.is_empty() && bench.pair.session.is_idle());
        let messages: Vec<_> =
            std::iter::from_fn(|| bench.worker_ring.take().map(|e| e.message)).collect();
        assert!(matches!(messages[..], [ToHandler::Cancel]), "{messages:?}");
    }
}

#[test]
fn an_upload_goes_no_further_than_its_credit_and_arrives_whole() {
    let mut bench = Bench::new();
    let body = counters(LIMIT as u64);
    let stream = bench.begin(&[("te", "trailers")]);
    let mut sent = bench.send(stream, &body, false);
    bench.pair.settle();
    let (exchange, request) = bench.opened();
    assert!(request.has_body && request.content_length.is_none());
    let (mut received, mut in_flight) = (Vec::new(), 0);
    let mut rounds = 0;
    while received.len() < body.len() {
        rounds += 1;
        assert!(rounds < 1000, "{} of {}", received.len(), body.len());
        while let Some(envelope) = bench.worker_ring.take() {
            let ToHandler::Data(block) = envelope.message else {
                panic!("{:?}", envelope.message);
            };
            in_flight += cost(block.len());
            received.extend_from_slice(&block);
        }
        assert!(in_flight <= SHARE, "{in_flight}");
        bench.give(exchange, ToFront::Credit(std::mem::take(&mut in_flight)));
        if sent < body.len() {
            sent += bench.send(stream, &body[sent..], false);
        }
        bench.pair.settle();
    }
    assert!(received == body);
    let trailer = [Header::new(b"x-sum", b"7")];
    let Pair { h3, client, .. } = &mut bench.pair;
    h3.send_additional_headers(client, stream, &trailer, true, true).unwrap();
    bench.pair.settle();
    let end = bench.worker_ring.take().unwrap().message;
    let ToHandler::End(Some(trailers)) = end else {
        panic!("{end:?}");
    };
    assert_eq!(trailers, fields(&[("x-sum", "7")]));
}

/// The two directions of a tunnel need this.
#[test]
fn a_request_s_body_goes_on_after_the_response_has_begun_and_ended() {
    let mut bench = Bench::new();
    let stream = bench.begin(&[]);
    bench.pair.settle();
    let (exchange, _) = bench.opened();
    bench.head(exchange, None, false);
    bench.pair.settle();
    let received = |bench: &mut Bench, body: &'static [u8], fin| {
        assert_eq!(bench.send(stream, body, fin), body.len());
        bench.pair.settle();
        let messages = std::iter::from_fn(|| bench.worker_ring.take());
        let uploads: Vec<_> = messages
            .map(|envelope| envelope.message)
            .filter(|message| !matches!(message, ToHandler::Credit(_)))
            .collect();
        assert!(matches!(&uploads[0], ToHandler::Data(block) if *block == body));
        bench.give(exchange, ToFront::Credit(cost(body.len())));
        uploads.len()
    };
    assert_eq!(received(&mut bench, b"after the head", false), 1);
    bench.give(exchange, ToFront::Data(Bytes::from_static(b"back")));
    bench.pair.settle();
    assert_eq!(bench.pair.streams[&stream].body, b"back");
    bench.give(exchange, ToFront::End(None));
    bench.pair.settle();
    assert!(bench.pair.streams[&stream].finished);
    // More than the first credit, which the handler returns as it reads.
    for _ in 0..2 * SHARE / cost(16) {
        assert_eq!(received(&mut bench, b"after the end ..", false), 1);
    }
    assert!(!bench.pair.session.is_idle());
    assert_eq!(received(&mut bench, b"last", true), 2);
    bench.give(exchange, ToFront::Closed);
    bench.pair.settle();
    assert!(bench.pair.session.is_idle());
}

#[test]
fn a_full_ring_stops_an_upload_until_there_is_room() {
    let mut bench = Bench::new();
    let (origin_ring, worker_ring) = rings(2, Accounts::new(1 << 20, u64::MAX));
    (bench.pair.context.origin_ring, bench.worker_ring) = (Some(origin_ring), worker_ring);
    let body = counters(50_000);
    let stream = bench.begin(&[]);
    let (mut sent, mut received) = (0, Vec::new());
    let mut ended = false;
    for _ in 0..200 {
        sent += bench.send(stream, &body[sent..], true);
        bench.pair.settle();
        while let Some(Envelope { exchange, message }) = bench.worker_ring.take() {
            match message {
                ToHandler::Open { .. } => {}
                ToHandler::Data(block) => {
                    bench.give(exchange, ToFront::Credit(cost(block.len())));
                    received.extend_from_slice(&block);
                }
                ToHandler::End(None) => ended = true,
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(ended && received == body, "{}", received.len());
}

#[test]
fn a_stopped_response_cancels_its_handler() {
    let mut bench = Bench::new();
    let (stream, exchange) = bench.ask("GET", "/app/x");
    bench.head(exchange, None, false);
    bench.give(exchange, ToFront::Data(Bytes::from_static(b"begun")));
    bench.pair.settle();
    bench.pair.stop(stream);
    bench.pair.settle();
    bench.give(exchange, ToFront::Data(Bytes::from_static(b"more")));
    bench.pair.settle();
    let mut messages = std::iter::from_fn(|| bench.worker_ring.take().map(|e| e.message));
    assert!(messages.any(|m| matches!(m, ToHandler::Cancel)));
    assert!(bench.pair.session.is_idle());
    assert_eq!(bench.pair.context.counters.cancelled, 1);
}

#[test]
fn a_handler_that_fails_is_a_502_or_a_reset() {
    for (begun, length) in [(false, None), (true, None), (true, Some(10))] {
        let mut bench = Bench::new();
        let (stream, exchange) = bench.ask("GET", "/app/x");
        if begun {
            bench.head(exchange, length, false);
            bench.give(exchange, ToFront::Data(Bytes::from_static(b"begun")));
        }
        // Fewer bytes than promised are as bad as no end.
        let last = match length {
            Some(_) => ToFront::End(None),
            None => ToFront::Abort(502),
        };
        bench.give(exchange, last);
        bench.give(exchange, ToFront::Closed);
        bench.pair.settle();
        let seen = &bench.pair.streams[&stream];
        if begun {
            assert_eq!((seen.reset, seen.finished), (Some(0x102), false));
            assert_eq!(bench.pair.context.counters.broken, 1);
        } else {
            assert_eq!((seen.status(), seen.finished), ("502", true));
        }
        assert!(bench.pair.session.is_idle());
    }
}

#[test]
fn a_handler_may_respond_before_the_body_ends() {
    let mut bench = Bench::new();
    let stream = bench.begin(&[]);
    bench.send(stream, &[1; 20_000], false);
    bench.pair.settle();
    let (exchange, _) = bench.opened();
    bench.give(exchange, ToFront::StopBody);
    bench.head(exchange, Some(0), true);
    bench.give(exchange, ToFront::Closed);
    bench.pair.settle();
    let seen = &bench.pair.streams[&stream];
    assert_eq!((seen.status(), seen.finished), ("200", true));
    // The client may finish its upload, and nobody gets the rest.
    assert!(!bench.pair.session.is_idle());
    bench.send(stream, &[1; 1000], true);
    bench.pair.settle();
    assert!(bench.pair.session.is_idle());
}

#[test]
fn a_body_of_another_length_cancels_the_handler() {
    for (promised, sent, fin) in [("5", 6, false), ("5", 4, true)] {
        let mut bench = Bench::new();
        let stream = bench.begin(&[("content-length", promised)]);
        bench.send(stream, &[1; 10][..sent], fin);
        bench.pair.settle();
        assert_eq!(bench.opened().1.content_length, Some(5));
        let mut messages = std::iter::from_fn(|| bench.worker_ring.take().map(|e| e.message));
        assert!(messages.any(|m| matches!(m, ToHandler::Cancel)), "{promised} {sent}");
        // H3_MESSAGE_ERROR
        assert_eq!(bench.pair.streams[&stream].reset, Some(0x10e));
    }
}

#[test]
fn a_route_s_own_limit_holds_for_bodies_of_unknown_length() {
    let mut bench = Bench::new();
    let (origin_ring, worker_ring) = rings(64, Accounts::new(1 << 20, u64::MAX));
    (bench.pair.context.origin_ring, bench.worker_ring) = (Some(origin_ring), worker_ring);
    let stream = bench.begin(&[]);
    let (mut sent, mut cancelled) = (0, false);
    for _ in 0..20 {
        if sent <= LIMIT {
            sent += bench.send(stream, &vec![0; LIMIT + 1 - sent], false);
        }
        bench.pair.settle();
        while let Some(Envelope { exchange, message }) = bench.worker_ring.take() {
            cancelled |= matches!(message, ToHandler::Cancel);
            if let ToHandler::Data(block) = message {
                bench.give(exchange, ToFront::Credit(cost(block.len())));
            }
        }
    }
    assert_eq!(bench.pair.streams[&stream].status(), "413");
    assert!(cancelled);
}

#[test]
fn handlers_of_cancelled_requests_count_until_they_have_stopped() {
    let mut bench = Bench::new();
    let mut exchanges = Vec::new();
    // limits.max_concurrent_streams
    for _ in 0..4 {
        let (stream, exchange) = bench.ask("GET", "/app/x");
        exchanges.push(exchange);
        bench.pair.stop(stream);
        bench.pair.settle();
        let cancel = bench.worker_ring.take().unwrap();
        assert!(matches!(cancel.message, ToHandler::Cancel));
    }
    let stream = bench.pair.request("GET", "/app/x", &[], true);
    bench.pair.settle();
    assert_eq!(bench.pair.streams[&stream].status(), "503");
    assert_eq!(bench.pair.streams[&stream].headers["retry-after"], "1");
    bench.give(exchanges[0], ToFront::Closed);
    bench.pair.settle();
    bench.ask("GET", "/app/x");
    assert_eq!(bench.pair.context.counters.gate.overloaded, 1);
}

#[test]
fn without_an_origin_thread_its_routes_get_503() {
    let mut pair = Pair::new();
    assert_eq!(pair.ask("GET", "/app/x", &[]).status(), "503");
}

#[test]
fn an_urgent_response_goes_first_with_a_handler_or_without() {
    let mut bench = Bench::new();
    // More than the send buffer and the window hold.
    let slow = bench.pair.request("GET", "/bytes/1000000", &[("priority", "u=6")], true);
    bench.pair.step();
    let urgent = bench.pair.request("GET", "/app/x", &[("priority", "u=0")], true);
    bench.pair.step();
    bench.pair.step();
    let (exchange, _) = bench.opened();
    bench.head(exchange, Some(3), false);
    bench.give(exchange, ToFront::Data(Bytes::from_static(b"now")));
    bench.give(exchange, ToFront::End(None));
    while !bench.pair.streams.get(&urgent).is_some_and(|seen| seen.finished) {
        assert!(bench.pair.step());
        let slow = bench.pair.streams.get(&slow);
        assert!(!slow.is_some_and(|seen| seen.finished));
    }
}
