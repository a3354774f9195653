//! Contents of control, QPACK and push streams.

use super::{
    CANCEL_PUSH, CLOSED_CRITICAL_STREAM, DECODER_STREAM_ERROR, ENCODER_STREAM_ERROR, FRAME_ERROR,
    FRAME_UNEXPECTED, GET, GOAWAY, ID_ERROR, MAX_PUSH_ID, MISSING_SETTINGS, OTHER, PRIORITY_UPDATE,
    PRIORITY_UPDATE_PUSH, PUSH_PROMISE, SETTINGS_ERROR, STREAM_CREATION_ERROR, STREAMS, UNKNOWN,
    close_each, closes, controls, get,
};
use crate::raw::{Act, CONTROL, DATA, DECODER, ENCODER, SETTINGS, control, frame, section, varint};

#[test]
fn critical_streams_are_there_once_and_stay() {
    let control = control(&[]);
    let typed = |kind| vec![kind];
    let mut cases = vec![
        closes("control ends", &[Act::End(CONTROL, control.clone())], CLOSED_CRITICAL_STREAM),
        closes(
            "control is reset",
            &[Act::Send(CONTROL, control.clone()), Act::Reset(CONTROL)],
            CLOSED_CRITICAL_STREAM,
        ),
        closes(
            "two control streams",
            &[Act::Send(CONTROL, control.clone()), Act::Send(OTHER, control)],
            STREAM_CREATION_ERROR,
        ),
        closes("a push stream", &[Act::Send(OTHER, vec![1, 0])], STREAM_CREATION_ERROR),
    ];
    for (kind, what) in [(2, "an encoder"), (3, "a decoder")] {
        cases.push(closes(what, &[Act::End(ENCODER, typed(kind))], CLOSED_CRITICAL_STREAM));
        cases.push(closes(
            what,
            &[Act::Send(ENCODER, typed(kind)), Act::Send(DECODER, typed(kind))],
            STREAM_CREATION_ERROR,
        ));
    }
    close_each(cases, false);
}

#[test]
fn settings_come_first_once_and_make_sense() {
    let first = |what, frame: Vec<u8>| {
        let bytes = [vec![0], frame].concat();
        closes(what, &[Act::Send(CONTROL, bytes)], MISSING_SETTINGS)
    };
    let mut cases = vec![
        first("GOAWAY first", frame(GOAWAY, &[0])),
        first("DATA first", frame(DATA, b"x")),
        first("an unknown frame first", frame(UNKNOWN, b"x")),
        closes(
            "SETTINGS twice",
            &[Act::Send(CONTROL, [control(&[]), frame(SETTINGS, &[])].concat())],
            FRAME_UNEXPECTED,
        ),
        closes(
            "a setting without a value",
            &[Act::Send(CONTROL, [vec![0], frame(SETTINGS, &[6])].concat())],
            FRAME_ERROR,
        ),
    ];
    // Those of HTTP/2, and values that are none.
    for pair in [(0, 0), (2, 1), (3, 1), (4, 1), (5, 1), (8, 2), (0x33, 2), (0x33, 1)] {
        let acts = [Act::Send(CONTROL, control(&[pair]))];
        cases.push(closes("a wrong setting", &acts, SETTINGS_ERROR));
    }
    close_each(cases, false);
}

#[test]
fn a_control_stream_holds_frames_of_its_own_only() {
    let mut cases = vec![
        controls("DATA", &[frame(DATA, b"x")], FRAME_UNEXPECTED),
        controls("HEADERS", &[get()], FRAME_UNEXPECTED),
        controls("PUSH_PROMISE", &[frame(PUSH_PROMISE, &section(&GET))], FRAME_UNEXPECTED),
        controls("CANCEL_PUSH", &[frame(CANCEL_PUSH, &[0])], ID_ERROR),
        controls(
            "MAX_PUSH_ID falls",
            &[frame(MAX_PUSH_ID, &[9]), frame(MAX_PUSH_ID, &[8])],
            ID_ERROR,
        ),
        controls("GOAWAY rises", &[frame(GOAWAY, &[4]), frame(GOAWAY, &[8])], ID_ERROR),
        controls(
            "priority of a stream that is no request",
            &[frame(PRIORITY_UPDATE, &[2, b'i'])],
            ID_ERROR,
        ),
        controls(
            "priority of a stream that cannot be",
            &[frame(PRIORITY_UPDATE, &varint(4 * STREAMS))],
            ID_ERROR,
        ),
        controls("priority of a push", &[frame(PRIORITY_UPDATE_PUSH, &[0])], ID_ERROR),
        controls("priority of a push", &[frame(PRIORITY_UPDATE_PUSH, &[1])], ID_ERROR),
        controls("priority of nothing", &[frame(PRIORITY_UPDATE, &[])], FRAME_ERROR),
    ];
    for kind in [2, 6, 8, 9] {
        cases.push(controls("HTTP/2", &[frame(kind, &[0; 4])], FRAME_UNEXPECTED));
    }
    for kind in [GOAWAY, MAX_PUSH_ID, CANCEL_PUSH] {
        for payload in [&[][..], &[0x40], &[0, 0], &[0xc0, 0, 0, 0, 0, 0, 0, 0, 0]] {
            cases.push(controls("a length that is wrong", &[frame(kind, payload)], FRAME_ERROR));
        }
    }
    close_each(cases, true);
}

#[test]
fn instructions_about_a_table_that_is_not_there_end_the_connection() {
    let mut cases = Vec::new();
    for bytes in [&[0x21][..], &[0x3f, 0x01], &[0xc0, 0], &[0x41, b'a', 0], &[0x00]] {
        let acts = [Act::Send(ENCODER, [&[2], bytes].concat())];
        cases.push(closes("insertions", &acts, ENCODER_STREAM_ERROR));
    }
    for bytes in [&[0x00][..], &[0x01], &[0x80], &[0x40, 0x84], &[0x7f, 0x80, 0x01, 0x01]] {
        let acts = [Act::Send(DECODER, [&[3], bytes].concat())];
        cases.push(closes("acknowledgements", &acts, DECODER_STREAM_ERROR));
    }
    close_each(cases, true);
}
