//! Faults of upstreams that speak HTTP/2.

use std::io;

use super::peer::Peer;
use super::{Expected, Fault, MALFORMED, TERMINATED, TOO_SLOW, fault};
use crate::tcp::frames::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, SETTINGS, frame,
};

pub(super) const FAULTS: &[Fault] = &[
    fault("closed_at_once", |peer| peer.end(), TERMINATED),
    fault(
        "garbage",
        |peer| {
            peer.send("nothing like HTTP/2 at all\r\n\r\n")?;
            peer.wait()
        },
        NO_HTTP2,
    ),
    fault(
        "http1",
        |peer| {
            peer.send("HTTP/1.1 400 Bad Request\r\n\r\n")?;
            peer.wait()
        },
        NO_HTTP2,
    ),
    fault(
        "no_response",
        |peer| {
            request(peer)?;
            peer.end()
        },
        TERMINATED,
    ),
    fault(
        "reset",
        |peer| {
            request(peer)?;
            peer.reset()
        },
        TERMINATED,
    ),
    fault(
        "cut_in_head",
        |peer| {
            part_of_head(peer)?;
            peer.end()
        },
        TERMINATED,
    ),
    fault("garbage_for_a_head", garbage_for_a_head, MALFORMED),
    fault(
        "stream_reset",
        |peer| {
            let stream = request(peer)?;
            reset(peer, stream, INTERNAL_ERROR)
        },
        TERMINATED,
    ),
    fault(
        "stream_refused",
        |peer| {
            let stream = request(peer)?;
            reset(peer, stream, REFUSED_STREAM)
        },
        TERMINATED,
    ),
    fault(
        "goaway",
        |peer| {
            request(peer)?;
            goaway(peer, 0)?;
            peer.end()
        },
        TERMINATED,
    ),
    fault(
        "goaway_and_no_response",
        |peer| {
            let stream = request(peer)?;
            goaway(peer, stream)?;
            peer.end()
        },
        TERMINATED,
    ),
    fault("goaway_within_a_whole_response", goaway_within, Expected::Whole("halfhalf")),
    fault(
        "goaway_and_cut_in_body",
        |peer| {
            let stream = half(peer)?;
            goaway(peer, stream)?;
            peer.end()
        },
        Expected::Broken,
    ),
    fault(
        "reset_in_body",
        |peer| {
            half(peer)?;
            peer.reset()
        },
        Expected::Broken,
    ),
    fault(
        "cut_in_body",
        |peer| {
            half(peer)?;
            peer.end()
        },
        Expected::Broken,
    ),
    fault(
        "stream_reset_in_body",
        |peer| {
            let stream = half(peer)?;
            reset(peer, stream, INTERNAL_ERROR)
        },
        Expected::Broken,
    ),
    fault(
        "stream_reset_without_error_in_body",
        |peer| {
            let stream = half(peer)?;
            reset(peer, stream, NO_ERROR)
        },
        Expected::Broken,
    ),
    fault(
        "short",
        |peer| {
            let stream = half(peer)?;
            data(peer, END_STREAM, stream, "")
        },
        Expected::Broken,
    ),
    fault(
        "long",
        |peer| {
            let stream = half(peer)?;
            data(peer, END_STREAM, stream, "half more")
        },
        Expected::Broken,
    ),
    fault(
        "cut_without_length",
        |peer| {
            endless(peer)?;
            peer.end()
        },
        Expected::Broken,
    ),
    fault("slow_settings", |peer| peer.wait(), Expected::Status(504, "connection_timeout")),
    fault(
        "slow_head",
        |peer| {
            part_of_head(peer)?;
            peer.wait()
        },
        TOO_SLOW,
    ),
    fault(
        "slow_body",
        |peer| {
            half(peer)?;
            peer.wait()
        },
        Expected::Broken,
    ),
];

const NO_HTTP2: Expected = MALFORMED;

const PREFACE: usize = 24;
const SETTINGS_FRAME: [u8; 9] = [0, 0, 0, SETTINGS, 0, 0, 0, 0, 0];
const GOAWAY: u8 = 7;
const NO_ERROR: u8 = 0;
const INTERNAL_ERROR: u8 = 2;
const REFUSED_STREAM: u8 = 7;

/// `:status` of 200, in HPACK.
const OK: &[u8] = &[0x88];
/// The same and a `content-length` of 8.
const OK_EIGHT: &[u8] = &[0x88, 0x0f, 0x0d, 1, b'8'];

/// Waits for a request and returns its stream; exchanges settings before the first one.
fn request(peer: &mut Peer) -> io::Result<u32> {
    if peer.is_new {
        peer.read_exact(&mut [0; PREFACE])?;
        peer.send(SETTINGS_FRAME)?;
    }
    loop {
        let mut head = [0; 9];
        peer.read_exact(&mut head)?;
        let [a, b, c, kind, flags, stream @ ..] = head;
        peer.read_exact(&mut vec![0; u32::from_be_bytes([0, a, b, c]) as usize])?;
        match kind {
            SETTINGS if flags & ACK == 0 => peer.send(frame(SETTINGS, ACK, 0, &[]))?,
            HEADERS => return Ok(u32::from_be_bytes(stream)),
            _ => {}
        }
    }
}

fn data(peer: &mut Peer, flags: u8, stream: u32, bytes: &str) -> io::Result<()> {
    peer.send(frame(DATA, flags, stream, bytes.as_bytes()))
}

/// Sends the head of a response and half of its body.
fn half(peer: &mut Peer) -> io::Result<u32> {
    let stream = request(peer)?;
    peer.send(frame(HEADERS, END_HEADERS, stream, OK_EIGHT))?;
    data(peer, 0, stream, "half")?;
    Ok(stream)
}

/// Sends the head of a response that has no length, and a part of its body.
fn endless(peer: &mut Peer) -> io::Result<()> {
    let stream = request(peer)?;
    peer.send(frame(HEADERS, END_HEADERS, stream, OK))?;
    data(peer, 0, stream, "half")
}

fn part_of_head(peer: &mut Peer) -> io::Result<()> {
    let stream = request(peer)?;
    peer.send(frame(HEADERS, 0, stream, OK))?;
    // Not the end of it either.
    peer.send(frame(CONTINUATION, 0, stream, &OK_EIGHT[1..]))
}

fn garbage_for_a_head(peer: &mut Peer) -> io::Result<()> {
    let stream = request(peer)?;
    peer.send(frame(HEADERS, END_HEADERS, stream, &[0xff; 20]))?;
    peer.wait()
}

fn reset(peer: &mut Peer, stream: u32, code: u8) -> io::Result<()> {
    peer.send(frame(RST_STREAM, 0, stream, &[0, 0, 0, code]))
}

fn goaway(peer: &mut Peer, last: u32) -> io::Result<()> {
    let payload = [last.to_be_bytes(), [0; 4]].concat();
    peer.send(frame(GOAWAY, 0, 0, &payload))
}

fn goaway_within(peer: &mut Peer) -> io::Result<()> {
    let stream = half(peer)?;
    goaway(peer, stream)?;
    data(peer, END_STREAM, stream, "half")?;
    peer.wait()
}
