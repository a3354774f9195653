//! Faults of upstreams that speak HTTP/1.1.

use std::io;

use super::peer::Peer;
use super::{Expected, Fault, MALFORMED, TERMINATED, TOO_LARGE, TOO_SLOW, fault};

pub(super) const FAULTS: &[Fault] = &[
    fault("no_response", |peer| after(peer, "")?.end(), TERMINATED),
    fault("cut_in_head", |peer| after(peer, PART)?.end(), TERMINATED),
    fault("reset", |peer| after(peer, "")?.reset(), TERMINATED),
    fault("reset_in_head", |peer| after(peer, PART)?.reset(), TERMINATED),
    fault("reset_in_body", |peer| after(peer, HALF)?.reset(), Expected::Broken),
    fault("cut_in_body", |peer| after(peer, HALF)?.end(), Expected::Broken),
    fault("cut_in_chunk", |peer| after(peer, CHUNK)?.end(), Expected::Broken),
    fault("cut_between_chunks", |peer| after(peer, CHUNKS)?.end(), Expected::Broken),
    fault("cut_in_trailers", |peer| after(peer, TRAILERS)?.end(), Expected::Broken),
    fault("garbage_for_a_chunk", |peer| after(peer, NO_CHUNK)?.end(), Expected::Broken),
    fault("reset_without_length", |peer| after(peer, ENDLESS)?.reset(), Expected::Broken),
    fault("surplus", |peer| after(peer, SURPLUS)?.wait(), Expected::Whole("whole")),
    fault("until_the_end", |peer| after(peer, ENDLESS)?.end(), Expected::Whole("half")),
    fault("garbage", |peer| after(peer, "\x16\x03\x01 no HTTP\r\n\r\n")?.end(), MALFORMED),
    fault("http2", |peer| after(peer, "\0\0\0\x04\0\0\0\0\0")?.wait(), MALFORMED),
    fault("two_lengths", |peer| after(peer, TWO_LENGTHS)?.wait(), MALFORMED),
    fault("length_and_chunks", |peer| after(peer, BOTH)?.wait(), MALFORMED),
    fault("unasked_switch", |peer| after(peer, SWITCH)?.wait(), SWITCHED),
    fault("hints_without_end", hints, MALFORMED),
    fault("large_head", large_head, TOO_LARGE),
    fault("slow_head", |peer| after(peer, PART)?.wait(), TOO_SLOW),
    fault("slow_body", |peer| after(peer, HALF)?.wait(), Expected::Broken),
    fault("slow_chunks", |peer| after(peer, CHUNKS)?.wait(), Expected::Broken),
];

const SWITCHED: Expected = Expected::Status(502, "http_upgrade_failed");
const PART: &str = "HTTP/1.1 200 OK\r\ncontent-le";
const HALF: &str = "HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nhalf";
const CHUNK: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n8\r\nhalf";
const CHUNKS: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n";
const TRAILERS: &str =
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\nx: y\r\n";
const NO_CHUNK: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\nz\r\n";
const ENDLESS: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhalf";
const SURPLUS: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nwhole and more";
const TWO_LENGTHS: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nwhole!";
const BOTH: &str =
    "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
const SWITCH: &str =
    "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";

/// Reads the head of a request, and sends the beginning of a response.
fn after<'a>(peer: &'a mut Peer, response: &str) -> io::Result<&'a mut Peer> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        peer.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    peer.send(response)?;
    Ok(peer)
}

/// Sends informational responses and no other.
fn hints(peer: &mut Peer) -> io::Result<()> {
    after(peer, "")?;
    loop {
        peer.send("HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n")?;
    }
}

/// Sends a head without end.
fn large_head(peer: &mut Peer) -> io::Result<()> {
    after(peer, "HTTP/1.1 200 OK\r\nx: ")?;
    loop {
        peer.send([b'y'; 4096])?;
    }
}
