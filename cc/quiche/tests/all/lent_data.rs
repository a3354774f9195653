//! Data that is encrypted from where its stream holds it arrives as it was sent, also if its packets are lost.

use std::time::Duration;

use sluicegate_test_support::{config, emit, Pair};

/// Length of the body, bytes.
const BODY: usize = 300_000;

/// Rounds of sending, at most.
const ROUNDS: usize = 1000;

/// Passes a short body on one stream, and then on another the body that the server writes in pieces of `piece` bytes, and drops each
/// `dropped`th of its datagrams. Returns what arrives on the second one.
fn received(piece: usize, dropped: usize) -> Vec<u8> {
    let (mut client, mut server) = (config(100), config(100));
    let mut pair = Pair::connect(&mut client, &mut server);
    for stream in [0, 4] {
        pair.client.stream_send(stream, b"?", true).expect("sent");
    }
    pair.settle();
    // Its end and the beginning of the other share a packet.
    assert_eq!(pair.server.stream_send(0, &body()[..300], true), Ok(300));
    let body = body();
    let (mut written, mut datagrams, mut whole) = (0, 0, Vec::new());
    for _ in 0..ROUNDS {
        while written < BODY {
            let end = (written + piece).min(BODY);
            match pair.server.stream_send(4, &body[written..end], end == BODY) {
                Ok(len) => written += len,
                Err(_) => break,
            }
        }
        for datagram in emit(&mut pair.server) {
            datagrams += 1;
            if datagrams % dropped != 0 {
                pair.client_receives(&datagram);
            }
        }
        let mut buffer = [0; 65_536];
        while let Ok((len, ended)) = pair.client.stream_recv(4, &mut buffer) {
            whole.extend_from_slice(&buffer[..len]);
            if ended {
                return whole;
            }
        }
        for datagram in emit(&mut pair.client) {
            pair.server_receives(&datagram);
        }
        pair.pass(Duration::from_millis(10));
    }
    panic!("{} bytes of {BODY} have arrived", whole.len());
}

/// Returns a body in which no place looks like another nearby.
fn body() -> Vec<u8> {
    (0..BODY).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn body_arrives_whole_whatever_its_pieces_and_losses() {
    for piece in [300, 1_171, 4_096, BODY] {
        for dropped in [usize::MAX, 7, 3] {
            assert!(received(piece, dropped) == body(), "{piece}, {dropped}");
        }
    }
}
