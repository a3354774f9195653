//! Contents and order of frames on request streams.

use super::{
    CANCEL_PUSH, DECOMPRESSION_FAILED, EXCESSIVE_LOAD, FRAME_ERROR, FRAME_UNEXPECTED, GET, GOAWAY,
    HEADER_BYTES, MAX_PUSH_ID, MESSAGE_ERROR, PING, PRIORITY_UPDATE, PRIORITY_UPDATE_PUSH,
    PUSH_PROMISE, REQUEST, REQUEST_INCOMPLETE, UNKNOWN, close_each, closes, get, get_with,
    requests, start,
};
use crate::raw::{Act, DATA, HEADERS, Outcome, Raw, SETTINGS, frame, headers, section, varint};
use crate::server::{Folder, total};

#[test]
fn a_request_stream_holds_frames_of_a_request_in_their_order() {
    let mut cases = vec![
        requests("DATA first", &[frame(DATA, b"x"), get()], FRAME_UNEXPECTED),
        requests(
            "HEADERS behind trailers",
            &[get(), headers(&[("x", "y")]), get()],
            FRAME_UNEXPECTED,
        ),
        requests(
            "DATA behind trailers",
            &[get(), frame(DATA, b"x"), headers(&[("x", "y")]), frame(DATA, b"x")],
            FRAME_UNEXPECTED,
        ),
        requests(
            "DATA behind trailers without a body",
            &[get(), headers(&[("x", "y")]), frame(DATA, b"x")],
            FRAME_UNEXPECTED,
        ),
        requests(
            "a header bomb",
            &[get_with(&[("x", &"y".repeat(2 * HEADER_BYTES))])],
            EXCESSIVE_LOAD,
        ),
        requests("a long HEADERS frame", &[varint(HEADERS), varint(1 << 40)], EXCESSIVE_LOAD),
    ];
    let push = [vec![0], section(&GET)].concat();
    for (kind, payload) in [
        (CANCEL_PUSH, &[0][..]),
        (SETTINGS, &[]),
        (PUSH_PROMISE, &push),
        (GOAWAY, &[0]),
        (MAX_PUSH_ID, &[0]),
        (PRIORITY_UPDATE, &[0]),
        (PRIORITY_UPDATE_PUSH, &[0]),
        (PING, &[0; 8]),
    ] {
        let misplaced = frame(kind, payload);
        cases.push(requests("misplaced", &[get(), misplaced.clone()], FRAME_UNEXPECTED));
        cases.push(requests("misplaced, in front", &[misplaced, get()], FRAME_UNEXPECTED));
    }
    close_each(cases, true);
}

#[test]
fn a_stream_must_not_end_within_a_frame() {
    let body = frame(DATA, b"five.");
    let mut cases = vec![
        requests("a type alone", &[get(), varint(DATA)], FRAME_ERROR),
        requests("half a type", &[get(), varint(UNKNOWN)[..1].to_vec()], FRAME_ERROR),
        requests("half of the first frame's type", &[varint(UNKNOWN)[..1].to_vec()], FRAME_ERROR),
        requests("half a length", &[get(), vec![0, 0x40]], FRAME_ERROR),
        requests("a length alone", &[get(), body[..2].to_vec()], FRAME_ERROR),
        requests("half a body", &[get(), body[..5].to_vec()], FRAME_ERROR),
        requests(
            "half a body that is as long as promised",
            &[get_with(&[("content-length", "3")]), body[..5].to_vec()],
            FRAME_ERROR,
        ),
        requests(
            "half of an unknown frame",
            &[get(), frame(UNKNOWN, b"12")[..4].to_vec()],
            FRAME_ERROR,
        ),
        requests(
            "half of the trailers",
            &[get(), body.clone(), headers(&[("x", "y")])[..4].to_vec()],
            FRAME_ERROR,
        ),
    ];
    let head = get();
    for end in [1, 2, 3, head.len() - 1] {
        cases.push(requests("half a head", &[head[..end].to_vec()], FRAME_ERROR));
    }
    // The end comes by itself.
    let late =
        [Act::Send(REQUEST, [get(), body[..4].to_vec()].concat()), Act::End(REQUEST, Vec::new())];
    cases.push(closes("half a body, and later the end", &late, FRAME_ERROR));
    close_each(cases, true);
}

#[test]
fn field_sections_refer_to_what_there_is() {
    let sections: [(&'static str, &[u8]); 11] = [
        ("nothing", &[]),
        ("half a prefix", &[0]),
        ("a required insertion", &[1, 0, 0xd1]),
        ("an index of the dynamic table", &[0, 0, 0x80]),
        ("an index behind the base", &[0, 0, 0x10]),
        ("a name of the dynamic table", &[0, 0, 0x40, 1, b'a']),
        ("a name behind the base", &[0, 0, 0x00, 1, b'a']),
        ("index 99 of the static table", &[0, 0, 0xff, 36]),
        ("a name that is cut", &[0, 0, 0x24, b'a', b'b']),
        ("a value that is cut", &[0, 0, 0x51, 5, b'/']),
        ("an integer without an end", &[0, 0, 0xff, 0x80]),
    ];
    let cases = sections
        .map(|(what, section)| requests(what, &[frame(HEADERS, section)], DECOMPRESSION_FAILED));
    close_each(cases.into(), true);
}

/// The server counts a frame before it has all of it, and a head or trailers once it has.
#[test]
fn heads_and_trailers_may_arrive_in_pieces() {
    let folder = Folder::new();
    let server = start(&folder);
    let mut raw = Raw::ready(server.address());
    let (head, trailers) = (get(), headers(&[("x", "y")]));
    let request = [&head[..], &trailers].concat();
    for cut in 1..request.len() {
        let stream = raw.open();
        let (first, rest) = request.split_at(cut);
        raw.act(&Act::Send(stream, first.to_vec()));
        assert!(raw.settle());
        raw.act(&Act::End(stream, rest.to_vec()));
        assert_eq!(raw.outcome(stream), Outcome::Status(200), "{cut}");
    }
}

#[test]
fn a_request_that_is_wrong_takes_its_stream_with_it_only() {
    let folder = Folder::new();
    let mut server = start(&folder);
    let mut raw = Raw::ready(server.address());
    let long = "y".repeat(HEADER_BYTES);
    let many = vec![("x", "y"); 60];
    for (what, frames, outcome) in [
        ("no frame", vec![], Outcome::Reset(REQUEST_INCOMPLETE)),
        ("no frame of a request", frame(UNKNOWN, b"x"), Outcome::Reset(REQUEST_INCOMPLETE)),
        ("no fields", frame(HEADERS, &[0, 0]), Outcome::Reset(MESSAGE_ERROR)),
        ("a large head", get_with(&[("x", &long)]), Outcome::Status(431)),
        ("many fields", get_with(&many), Outcome::Status(431)),
        (
            "large trailers",
            [get(), headers(&[("x", &long)])].concat(),
            Outcome::Reset(MESSAGE_ERROR),
        ),
    ] {
        assert_eq!(raw.exchange(&frames), outcome, "{what}");
        assert_eq!(raw.exchange(&get()), Outcome::Status(200), "after {what}");
    }
    drop(raw);
    let said = server.process.last_words();
    assert_eq!(total(&said, "requests", "errors"), 0);
    assert_eq!(total(&said, "requests", "malformed"), 4);
}
