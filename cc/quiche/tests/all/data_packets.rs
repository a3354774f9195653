//! Packets with data alone are the same by the short way, and by the way of all others, which those of a connection with a trace take.

use std::time::{Duration, Instant};

use sluicegate_test_support::{builtin, config, emit, set_algorithm, Pair, Trace};

/// Streams with their lengths, and whether they share the packets with others of their urgency.
const STREAMS: [(u64, usize, bool); 5] =
    [(0, 20_000, false), (4, 300, false), (8, 40_000, true), (12, 1, true), (16, 40_000, true)];

/// Each packet with such a number is lost.
const LOST: usize = 9;

/// Rounds of sending, at most.
const ROUNDS: usize = 1000;

/// Returns the lengths of the datagrams in which a server with a trace, or without one, sends some streams, and when they may leave.
fn datagrams(traced: bool) -> Vec<(usize, Duration)> {
    let (mut client, mut server) = (config(20), config(20));
    set_algorithm(&mut server, builtin("cubic"));
    let mut pair = Pair::connect(&mut client, &mut server);
    for (stream, ..) in STREAMS {
        pair.client.stream_send(stream, b"?", true).expect("sent");
    }
    pair.settle();
    let _trace = traced.then(|| Trace::of(&mut pair.server));
    for (stream, _, shares) in STREAMS {
        pair.server.stream_priority(stream, 3, shares).expect("a stream");
    }
    let (mut written, mut ended, mut sent, mut begun) = ([0; STREAMS.len()], 0, Vec::new(), None);
    for _ in 0..ROUNDS {
        for ((stream, len, _), written) in STREAMS.iter().zip(&mut written) {
            if *written < *len {
                let taken = pair.server.stream_send(*stream, &vec![7; len - *written], true);
                *written += taken.unwrap_or(0);
            }
        }
        let mut buffer = [0; 1_500];
        while let Ok((len, info)) = pair.server.send(&mut buffer) {
            let begun: Instant = *begun.get_or_insert(info.at);
            sent.push((len, info.at - begun));
            if sent.len() % LOST != 0 {
                pair.client_receives(&buffer[..len]);
            }
        }
        let mut buffer = [0; 65_536];
        for (stream, ..) in STREAMS {
            while let Ok((_, end)) = pair.client.stream_recv(stream, &mut buffer) {
                ended += usize::from(end);
            }
        }
        if ended == STREAMS.len() {
            return sent;
        }
        for datagram in emit(&mut pair.client) {
            pair.server_receives(&datagram);
        }
        pair.pass(Duration::from_millis(10));
    }
    panic!("{ended} streams have ended");
}

#[test]
fn datagrams_are_the_same_by_both_ways() {
    let short = datagrams(false);
    assert!(short.len() > 80, "{short:?}");
    assert_eq!(short, datagrams(true));
}
