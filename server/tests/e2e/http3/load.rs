//! Frames and requests that the server ignores, tolerates, or tolerates up to a limit.

use super::{
    CANCELLED, EXCESSIVE_LOAD, GOAWAY, MAX_PUSH_ID, OTHER, PRIORITY_UPDATE, STREAMS, UNKNOWN, get,
    start,
};
use crate::raw::{
    Act, CONTROL, DATA, DECODER, ENCODER, Outcome, Raw, control, frame, headers, varint,
};
use crate::server::{Folder, total};

#[test]
fn what_is_unknown_or_harmless_is_ignored() {
    let folder = Folder::new();
    let mut server = start(&folder);
    let mut raw = Raw::connect(server.address());
    let unknown = frame(UNKNOWN, &[0x55; 3000]);
    let control = control(&[(UNKNOWN, 1), (6, 100), (1, 4096), (7, 10), (8, 1), (0x33, 0)]);
    let control = [control, unknown.clone(), frame(MAX_PUSH_ID, &[9]), frame(MAX_PUSH_ID, &[9])];
    let goaway = [frame(GOAWAY, &[9]), frame(GOAWAY, &[9]), frame(GOAWAY, &[1])].concat();
    for act in [
        Act::Send(CONTROL, control.concat()),
        Act::Send(CONTROL, goaway),
        // A table of no bytes, and requests whose sections are not wanted.
        Act::Send(ENCODER, vec![2, 0x20, 0x20]),
        Act::Send(DECODER, vec![3, 0x40, 0x7f, 0x80, 0x01, 0x44]),
        Act::Send(OTHER, [varint(UNKNOWN), vec![1; 5000]].concat()),
        Act::End(OTHER + 4, varint(UNKNOWN)),
        // Over before the type is known (RFC 9114 §6.2).
        Act::End(OTHER + 8, Vec::new()),
        Act::End(OTHER + 12, vec![0x40]),
        Act::Send(OTHER + 16, vec![0x40]),
        Act::Reset(OTHER + 16),
    ] {
        raw.act(&act);
    }
    let trailers = headers(&[("x", "y")]);
    for frames in [
        vec![get()],
        vec![unknown.clone(), get(), unknown.clone()],
        vec![
            get(),
            frame(DATA, b""),
            frame(UNKNOWN, b""),
            frame(DATA, b"x"),
            trailers.clone(),
            unknown,
        ],
        vec![get(), trailers],
    ] {
        assert_eq!(raw.exchange(&frames.concat()), Outcome::Status(200), "{frames:x?}");
    }
    drop(raw);
    let said = server.process.last_words();
    assert_eq!(total(&said, "requests", "errors"), 0);
}

#[test]
fn a_flood_of_priorities_is_borne() {
    let folder = Folder::new();
    let mut server = start(&folder);
    let mut raw = Raw::ready(server.address());
    for round in 0..50_u64 {
        let updates = (0..200).flat_map(|step| {
            let stream = (round + step) % STREAMS * 4;
            let value = [varint(stream), format!("u={}, i", step % 8).into_bytes()].concat();
            frame(PRIORITY_UPDATE, &value)
        });
        raw.act(&Act::Send(CONTROL, updates.collect()));
    }
    for _ in 0..STREAMS {
        assert_eq!(raw.exchange(&get()), Outcome::Status(200));
    }
    drop(raw);
    let said = server.process.last_words();
    assert_eq!(total(&said, "requests", "errors"), 0);
}

/// Ways to have the server work for nothing.
fn wastes(raw: &mut Raw, stream: u64, way: usize) {
    let whole = get();
    let acts = match way {
        // Reset with and without a head, responses refused, malformed heads, heads that never come.
        0 => vec![Act::Send(stream, whole), Act::Reset(stream)],
        1 => vec![Act::Send(stream, whole[..3].to_vec()), Act::Reset(stream)],
        2 => vec![Act::SendStopped(stream, whole), Act::Reset(stream)],
        3 => vec![Act::End(stream, headers(&[("x", "y")]))],
        _ => vec![Act::End(stream, Vec::new())],
    };
    for act in acts {
        raw.act(&act);
    }
}

#[test]
fn a_client_that_wastes_requests_is_closed() {
    const ATTEMPTS: u64 = 2000;
    for way in 0..5 {
        let folder = Folder::new();
        let mut server = start(&folder);
        let mut raw = Raw::ready(server.address());
        // The budget alone is no crime.
        for _ in 0..CANCELLED {
            let stream = raw.open();
            wastes(&mut raw, stream, way);
            assert!(raw.settle(), "way {way}");
        }
        assert_eq!(raw.exchange(&get()), Outcome::Status(200), "way {way}");
        let mut wasted = CANCELLED;
        while raw.settle() && wasted < ATTEMPTS {
            let stream = raw.open();
            wastes(&mut raw, stream, way);
            wasted += 1;
        }
        assert_eq!(raw.closed(), EXCESSIVE_LOAD, "way {way} after {wasted}");
        // Half of what was asked comes on top of the budget, and a response that left before its client refused it is no waste.
        assert!(wasted <= 8 * CANCELLED, "way {way}: {wasted}");
        let mut raw = Raw::ready(server.address());
        assert_eq!(raw.exchange(&get()), Outcome::Status(200), "way {way}");
        drop(raw);
        let said = server.process.last_words();
        assert_eq!(total(&said, "requests", "errors"), 1, "way {way}");
    }
}
