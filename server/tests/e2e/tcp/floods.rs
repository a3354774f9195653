//! Floods of frames of HTTP/2 that bring nothing: memory stays within bounds, other clients are served, and the connection ends where
//! its client makes no progress.

use std::net::SocketAddr;
use std::time::Duration;

use super::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, NO_WINDOW, PING, SETTINGS, begin, frame,
    get, http2, ping, read_frame, section, window_update,
};
use super::raw::Raw;
use super::{assert_serves, closed, server, until_closed};
use crate::admin::{ADMIN, address, until};
use crate::client::run;
use crate::proxy::Upstream;
use crate::server::{Folder, Server};

const PRIORITY: u8 = 2;
/// Frames in one write, and writes of a flood.
const BATCH: u32 = 500;
const BATCHES: u32 = 100;
/// Most memory that a flood may cost, KiB.
const GROWTH: u64 = 8 << 10;

/// Server, its admin address, and its memory before a flood.
struct Target {
    server: Server,
    admin: SocketAddr,
    memory: u64,
    _folder: Folder,
}

impl Target {
    /// Starts a server that waits for a client for a second, and calls no thread overloaded.
    fn start(tables: &str) -> Target {
        let folder = Folder::new();
        let limits = "[limits]\nclient_timeout = \"1s\"\noverload_above = 100";
        let mut server = server(&folder, &format!("{ADMIN}\n{tables}\n{limits}"));
        let admin = address(&mut server);
        assert_serves(server.address());
        let memory = server.process.anonymous_kib();
        Target { server, admin, memory, _folder: folder }
    }

    /// Asserts that the flood has cost little memory, and that others are served.
    fn bears(&self, what: &str) {
        let more = self.server.process.anonymous_kib().saturating_sub(self.memory);
        assert!(more < GROWTH, "{what}: {more} KiB");
        assert_serves(self.server.address());
    }

    /// Waits until all connections are closed.
    fn is_left(&self) {
        until(self.admin, "sluicegate_tcp_connections", 0.0);
        until(self.admin, "sluicegate_tcp_exchanges", 0.0);
    }

    /// Returns how many connections were closed for their protocol, or because their clients made no progress.
    fn ends(&self) -> f64 {
        closed(self.admin, "protocol") + closed(self.admin, "stalled")
    }
}

/// Makes the frame of a number.
type MakeFrame = fn(u32) -> Vec<u8>;

/// Returns frames that mean nothing, or whose meaning is over at once; the number of each is given.
fn harmless() -> [(&'static str, MakeFrame); 7] {
    [
        ("PING", |_| frame(PING, 0, 0, &[1; 8])),
        ("SETTINGS", |_| frame(SETTINGS, 0, 0, &[])),
        ("windows of SETTINGS", |number| {
            let [.., a, b] = number.to_be_bytes();
            frame(SETTINGS, 0, 0, &[0, 4, 0, 0, a, b])
        }),
        ("table sizes of SETTINGS", |number| {
            let [.., a, b] = number.to_be_bytes();
            frame(SETTINGS, 0, 0, &[0, 1, 0, 0, a, b])
        }),
        ("WINDOW_UPDATE", |_| window_update(0, 1)),
        ("PRIORITY", |number| frame(PRIORITY, 0, 2 * number + 1, &[0, 0, 0, 0, 15])),
        ("unknown frames", |number| frame(0xfa, 0, number, &[0; 100])),
    ]
}

fn batch(make: MakeFrame, number: u32) -> Vec<u8> {
    let numbers = number * BATCH..(number + 1) * BATCH;
    numbers.flat_map(make).collect()
}

/// Takes long: memory that a frame costs shows only after many, so there are 50,000 of each kind.
#[test]
fn frames_that_bring_nothing_cost_no_memory_and_are_read_on() {
    let target = Target::start("");
    for (what, make) in harmless() {
        let mut client = http2(target.server.address());
        for number in 0..BATCHES {
            client.send(&batch(make, number));
            assert_eq!(ping(&mut client), Some(()), "{what}");
        }
        target.bears(what);
        client.send(&get(1, "/"));
        let response = std::iter::from_fn(|| read_frame(&mut client));
        let mut heads = response.filter(|frame| frame.kind == HEADERS && frame.stream == 1);
        assert!(heads.next().is_some(), "{what}");
    }
    target.is_left();
}

/// Takes long: the server stops reading once the buffers of both ends are full of small frames, and then waits for its client. There are
/// three kinds of frames.
#[test]
fn a_flood_whose_responses_nobody_takes_ends_with_its_connection() {
    let target = Target::start("");
    for (what, make) in &harmless()[..3] {
        let mut client = http2(target.server.address());
        let before = closed(target.admin, "stalled");
        // The server stops to read while nobody takes what it has to send.
        let refused = (0..1_000_000).find(|number| {
            let sent = client.try_send_soon(&batch(*make, number % BATCHES));
            sent.is_err()
        });
        assert!(refused.is_some(), "{what}");
        target.bears(what);
        until(target.admin, "sluicegate_tcp_connections", 0.0);
        assert_eq!(closed(target.admin, "stalled"), before + 1.0, "{what}");
    }
    target.is_left();
}

#[test]
fn empty_and_padded_frames_of_a_body_end_their_connection() {
    let upstream = Upstream::start();
    let target = Target::start(&upstream.route());
    // PADDED, a length of the padding, and that much of it.
    let padding = [&[200][..], &[0; 200]].concat();
    for (what, data) in [("empty", frame(DATA, 0, 1, &[])), ("padded", frame(DATA, 8, 1, &padding))]
    {
        for path in ["/", "/app/never"] {
            let mut client = http2(target.server.address());
            let before = target.ends();
            client.send(&frame(HEADERS, END_HEADERS, 1, &section(path)));
            let many = data.repeat(BATCH as usize);
            while client.try_send_soon(&many).is_ok() && target.ends() == before {}
            client.rest();
            target.bears(what);
            assert_eq!(target.ends(), before + 1.0, "{what} frames to {path}");
        }
    }
    target.is_left();
}

#[test]
fn field_sections_that_grow_beyond_the_limit_are_refused_before_they_do() {
    let target = Target::start("");
    // A field for the dynamic table, and references to it: each byte stands for 3,900.
    let field = [&[0x40, 1, b'x', 0x7f, 0xbd, 0x1d][..], &[b'y'; 3900]].concat();
    let references = [0xbe; 4000];
    let mut client = http2(target.server.address());
    let first = [section("/"), field].concat();
    client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &first));
    for number in 1..BATCHES {
        let bomb = [section("/").as_slice(), &references].concat();
        let head = frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, &bomb);
        if client.try_send(&head).is_err() || ping(&mut client).is_none() {
            break;
        }
    }
    target.bears("references to a large field");
    // Over several frames.
    let mut client = http2(target.server.address());
    client.send(&frame(HEADERS, END_STREAM, 1, &first[..first.len() / 2]));
    client.send(&frame(CONTINUATION, 0, 1, &first[first.len() / 2..]));
    let _ = (0..BATCHES).try_for_each(|_| client.try_send(&frame(CONTINUATION, 0, 1, &references)));
    client.rest();
    target.bears("references in CONTINUATION");
    // A table larger than the server allows.
    let mut client = http2(target.server.address());
    client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0x3f, 0xe1, 0xff, 0xff, 0x03]));
    client.rest();
    target.is_left();
}

#[test]
fn streams_whose_bodies_never_come_end_with_their_connection() {
    let upstream = Upstream::start();
    let target = Target::start(&upstream.route());
    // As many as the server allows, and more.
    for (count, reason) in [(90, "stalled"), (1000, "protocol")] {
        for path in ["/", "/app/never"] {
            let mut client = http2(target.server.address());
            let before = closed(target.admin, reason);
            let heads = (0..count)
                .flat_map(|number| frame(HEADERS, END_HEADERS, 2 * number + 1, &section(path)));
            // The server may close the connection before it has read everything.
            let _ = client.try_send(&heads.collect::<Vec<_>>());
            target.bears(path);
            client.rest();
            target.is_left();
            let ended = closed(target.admin, reason) - before;
            assert_eq!(ended, 1.0, "{count} of {path}: {reason}");
        }
    }
}

#[test]
fn streams_that_the_server_must_reset_close_their_connection() {
    let upstream = Upstream::start();
    let target = Target::start(&upstream.route());
    let mut client = http2(target.server.address());
    // An increment of 0 is an error of the stream (RFC 9113 §6.9).
    let sent = (0..10_000).take_while(|number| {
        let stream = 2 * number + 1;
        let wrong = [get(stream, "/app/never"), window_update(stream, 0)].concat();
        client.try_send(&wrong).is_ok() && ping(&mut client).is_some()
    });
    let sent = sent.count();
    assert!(sent < 1000, "{sent}");
    client.rest();
    target.is_left();
    let reasons = ["protocol", "cancelled_requests"].map(|reason| closed(target.admin, reason));
    assert_eq!(reasons.iter().sum::<f64>(), 1.0, "{reasons:?}");
    target.bears("streams that the server resets");
}

#[test]
fn a_response_that_its_client_takes_byte_by_byte_ends_with_its_connection() {
    let target = Target::start("");
    let mut client = begin(Raw::open_with(target.server.address(), b"\x02h2"), &NO_WINDOW);
    client.send(&get(1, "/bytes/1000000"));
    while client.try_send(&window_update(1, 1)).is_ok() && closed(target.admin, "stalled") == 0.0 {
        run(async { tokio::time::sleep(Duration::from_millis(50)).await });
    }
    let frames = std::iter::from_fn(|| read_frame(&mut client));
    let taken: usize =
        frames.filter(|frame| frame.kind == DATA).map(|frame| frame.payload.len()).sum();
    assert!((1..1000).contains(&taken), "{taken}");
    until_closed(target.admin, "stalled", 1);
    target.is_left();
}
