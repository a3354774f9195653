//! Priorities that change while responses are sent, and those that responses have (RFC 9218 §7, §8).

use bytes::Bytes;
use sluicegate_http::exchange::message::{Head, ToFront};

use super::link::{DOWNLOAD, Link, RATE};
use crate::h3::tests::fixture::fields;

/// Returns how many bytes of two responses arrive in a second.
fn moved(link: &mut Link, streams: [u64; 2]) -> [u64; 2] {
    let before = streams.map(|stream| link.received(stream));
    link.pass(1000);
    let after = streams.map(|stream| link.received(stream));
    [after[0] - before[0], after[1] - before[1]]
}

fn update(link: &mut Link, stream: u64, urgency: u8, incremental: bool) {
    let pair = &mut link.bench.pair;
    let priority = quiche::h3::Priority::new(urgency, incremental);
    pair.h3.send_priority_update_for_request(&mut pair.client, stream, &priority).unwrap();
}

#[test]
fn an_update_reorders_responses_that_are_being_sent() {
    let mut link = Link::new();
    let first = link.bytes(2_000_000, "u=2");
    let second = link.bytes(2_000_000, "u=4");
    link.pass(300);
    assert_eq!(link.received(second), 0);
    update(&mut link, second, 0, false);
    link.pass(100);
    let [one, other] = moved(&mut link, [first, second]);
    assert!(other > RATE * 600 && one < other, "{one} {other}");
    assert!(link.wait(second) < link.wait(first));
}

#[test]
fn an_update_changes_the_shares_of_downloads() {
    let mut link = Link::new();
    let streams = [link.bytes(DOWNLOAD, "u=1"), link.bytes(DOWNLOAD, "u=1")];
    link.pass(1000);
    let [one, other] = moved(&mut link, streams);
    assert!(one.abs_diff(other) < RATE * 100, "{one} {other}");
    update(&mut link, streams[0], 7, false);
    link.pass(300);
    let [one, other] = moved(&mut link, streams);
    assert!(other > 5 * one && one > 0, "{one} {other}");
}

const ROUTES: &str = "[[route]]\npath = \"/download/\"\ngenerate = { max_size = \"1GiB\" }\n\
     response_headers = { set = { priority = \"u=7\" } }\n\
     [[route]]\npath = \"/urgent\"\nfixed = { body = \"now\" }\n\
     response_headers = { set = { priority = \"u=0\" } }\n";

/// The client asks for the reverse.
#[test]
fn a_routes_priority_takes_precedence_over_the_clients() {
    let mut link = Link::with_routes(ROUTES);
    let first = link.ask("/download/1500000", "u=1");
    let second = link.bytes(1_500_000, "u=6");
    let (late, early) = (link.wait(first), link.wait(second));
    assert!(early + 300 < late, "{early} {late}");
    let headers = &link.bench.pair.streams[&first].headers;
    assert_eq!(headers["priority"], "u=7");
}

#[test]
fn parameters_that_a_response_leaves_out_are_the_clients() {
    let mut link = Link::with_routes(ROUTES);
    // Of the same urgency, and incremental: they share.
    let streams =
        [link.ask("/download/1900000", "u=1, i"), link.ask("/download/1900000", "u=2, i")];
    let done = streams.map(|stream| link.wait(stream));
    assert!(done[0].abs_diff(done[1]) < 60, "{done:?}");
}

#[test]
fn an_upstreams_priority_takes_precedence_over_the_clients_and_over_its_updates() {
    let mut link = Link::new();
    let page = link.bytes(2_000_000, "u=3");
    link.pass(100);
    let (stream, exchange) = link.app("u=6");
    let head =
        Head { status: 200, fields: fields(&[("priority", "u=1")]), length: None, end: false };
    link.bench.give(exchange, ToFront::Head(head));
    update(&mut link, stream, 5, false);
    link.pass(60);
    for _ in 0..30 {
        let block = Bytes::from_static(&[0; 10_000]);
        link.bench.give(exchange, ToFront::Data(block));
    }
    link.bench.give(exchange, ToFront::End(None));
    link.wait(stream);
    assert!(link.done(page).is_none());
    let headers = &link.bench.pair.streams[&stream].headers;
    assert_eq!(headers["priority"], "u=1");
}

/// Events now and then, over a long time, are no download.
#[test]
fn a_response_that_pauses_keeps_its_urgency() {
    let mut link = Link::new();
    let (events, exchange) = link.app("u=0");
    link.bench.head(exchange, None, false);
    for _ in 0..4 {
        for _ in 0..20 {
            let block = Bytes::from_static(&[0; 10_000]);
            link.bench.give(exchange, ToFront::Data(block));
        }
        link.pass(1500);
    }
    let before = link.received(events);
    assert_eq!(before, 800_000);
    link.bytes(DOWNLOAD, "u=1");
    link.pass(500);
    link.bench.give(exchange, ToFront::Data(Bytes::from_static(&[0; 100_000])));
    link.pass(20 + 16 * 100_000 / 15 / RATE + 5);
    assert_eq!(link.received(events) - before, 100_000);
}
