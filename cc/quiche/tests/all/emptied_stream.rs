//! A stream in the queue of those that can send, whose data is acknowledged before it is sent again.

use std::time::Duration;

use sluicegate_test_support::{config, emit, Pair};

/// Streams of the server.
const EMPTIED: u64 = 3;
const OTHER: u64 = 7;

#[test]
fn stream_that_was_acknowledged_before_it_was_sent_again_blocks_no_other() {
    let (mut client, mut server) = (config(1000), config(1000));
    let mut pair = Pair::connect(&mut client, &mut server);
    pair.server.stream_priority(EMPTIED, 0, false).expect("priority");
    pair.server.stream_send(EMPTIED, &[7; 2000], false).expect("room");
    let delayed = emit(&mut pair.server);
    assert_eq!(delayed.len(), 2);
    // After the timeout both packets are to be sent again, and one of them is.
    pair.pass(Duration::from_secs(2));
    let probe = pair.server.send(&mut [0; 1200]);
    assert!(probe.is_ok_and(|(len, _)| len > 1000));
    for datagram in &delayed {
        pair.client_receives(datagram);
    }
    for datagram in emit(&mut pair.client) {
        pair.server_receives(&datagram);
    }
    pair.server.stream_send(OTHER, b"next", false).expect("room");
    for datagram in emit(&mut pair.server) {
        pair.client_receives(&datagram);
    }
    assert_eq!(pair.client.stream_recv(OTHER, &mut [0; 9]), Ok((4, false)));
}
