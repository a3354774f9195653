//! Clients that keep a connection busy in vain: requests that they reset, and heads that never end.

use super::frames::{
    CONTINUATION, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, frame, http2, ping, section,
};
use super::raw::Raw;
use super::{assert_serves, server, until_closed};
use crate::admin::{ADMIN, address};
use crate::proxy::Upstream;
use crate::server::Folder;

/// Code of RST_STREAM with which a client cancels.
const CANCEL: [u8; 4] = [0, 0, 0, 8];
/// More frames than any bound allows.
const MANY: u32 = 10_000;

#[test]
fn requests_that_are_reset_as_they_are_sent_close_their_connection() {
    let folder = Folder::new();
    let mut server = server(&folder, ADMIN);
    let admin = address(&mut server);
    let mut client = http2(server.address());
    let flood: Vec<u8> = { (0..MANY).map(|number| 2 * number + 1) }
        .flat_map(|stream| {
            let request = frame(HEADERS, END_HEADERS | END_STREAM, stream, &section("/"));
            [request, frame(RST_STREAM, 0, stream, &CANCEL)].concat()
        })
        .collect();
    // The server may close the connection before it has read everything.
    let _ = client.try_send(&flood);
    client.rest();
    until_closed(admin, "protocol", 1);
    assert_serves(server.address());
}

#[test]
fn requests_that_are_cancelled_while_they_are_handled_close_their_connection() {
    let folder = Folder::new();
    let upstream = Upstream::start();
    let tables = format!("{ADMIN}\n{}[limits]\ncancelled_requests = 5", upstream.route());
    let mut server = server(&folder, &tables);
    let admin = address(&mut server);
    let mut client = http2(server.address());
    let mut cancel = |stream| {
        let request = frame(HEADERS, END_HEADERS | END_STREAM, stream, &section("/app/never"));
        client.try_send(&request).ok()?;
        ping(&mut client)?;
        client.try_send(&frame(RST_STREAM, 0, stream, &CANCEL)).ok()
    };
    let cancelled = { (0..MANY).map(|number| 2 * number + 1) }
        .take_while(|stream| cancel(*stream).is_some())
        .count();
    // Half of all requests, and five. What the last cancellations meet is a matter of time.
    assert!((10..20).contains(&cancelled), "{cancelled}");
    until_closed(admin, "cancelled_requests", 1);
    assert_serves(server.address());
}

#[test]
fn a_head_that_goes_on_without_end_closes_its_connection() {
    let folder = Folder::new();
    let mut server = server(&folder, ADMIN);
    let admin = address(&mut server);
    // Literal fields, and frames that bring nothing.
    let fields = [0, 1, b'x', 1, b'y'].repeat(1000);
    for (count, payload) in [(1, &fields[..]), (2, &[])] {
        let mut client = http2(server.address());
        client.send(&frame(HEADERS, END_STREAM, 1, &section("/")));
        let more = frame(CONTINUATION, 0, 1, payload);
        let _ = (0..MANY).try_for_each(|_| client.try_send(&more));
        client.rest();
        until_closed(admin, "protocol", count);
    }
    let mut client = Raw::open(&server);
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n");
    let _ = (0..MANY).try_for_each(|_| client.try_send(b"x: y\r\n"));
    client.rest();
    until_closed(admin, "protocol", 3);
    assert_serves(server.address());
}

#[test]
fn a_connection_whose_head_stands_still_is_closed() {
    let folder = Folder::new();
    let server = server(&folder, "[quic]\nidle_timeout = \"1s\"");
    let mut client = http2(server.address());
    client.send(&frame(HEADERS, END_STREAM, 1, &section("/")[..4]));
    client.rest();
    assert_serves(server.address());
}
