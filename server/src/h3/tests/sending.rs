//! Responses that wait for room in the send buffer, and those that must not wait.

use super::transport::carry;
use super::{Pair, SEND_BUFFER, counters};

/// The window would take all of it, and whatever the client says lets the session work again.
#[test]
fn no_more_than_the_send_buffer_waits_while_nothing_can_be_sent() {
    let mut pair = Pair::new();
    let streams = [(); 8].map(|()| pair.request("GET", "/bytes/60000", &[], true));
    let mut most = 0;
    for _ in 0..200 {
        pair.client.send_ack_eliciting().unwrap();
        carry(&mut pair.client, &mut pair.server);
        pair.turn();
        most = most.max(pair.server.unsent());
    }
    // Heads come on top.
    let bound = SEND_BUFFER + streams.len() * 200;
    assert!((SEND_BUFFER / 2..=bound).contains(&most), "{most}");
    pair.settle();
    for stream in streams {
        assert!(pair.streams[&stream].body == counters(60_000));
    }
}

#[test]
fn an_acknowledgement_that_is_due_is_urgent_and_data_is_not() {
    let mut pair = Pair::new();
    pair.settle();
    assert!(!pair.server.is_urgent());
    pair.client.send_ack_eliciting().unwrap();
    carry(&mut pair.client, &mut pair.server);
    assert!(pair.server.is_urgent());
    let mut buffer = [0; 1500];
    pair.server.send(&mut buffer).unwrap();
    assert!(!pair.server.is_urgent());
    let stream = pair.request("GET", "/bytes/60000", &[], true);
    while let Ok((count, info)) = pair.client.send(&mut buffer) {
        let (from, to) = (info.from, info.to);
        let info = quiche::RecvInfo { from, to };
        pair.server.recv(&mut buffer[..count], info).unwrap();
    }
    pair.turn();
    pair.server.send(&mut buffer).unwrap();
    assert!(pair.server.unsent() > 0 && !pair.server.is_urgent());
    pair.settle();
    assert!(pair.streams[&stream].finished);
}
