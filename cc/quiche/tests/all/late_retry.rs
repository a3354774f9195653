//! Retry packets that come too late.

use quiche::ConnectionId;
use sluicegate_test_support::{config, Pair};

/// Anyone on the path can make one: the key of its tag is public.
#[test]
fn a_retry_after_the_handshake_changes_nothing() {
    let mut pair = Pair::connect(&mut config(10), &mut config(10));
    pair.settle();
    let (client, server) =
        (pair.client.source_id().into_owned(), pair.client.destination_id().into_owned());
    let stranger = ConnectionId::from_ref(&[9; 16]);
    let mut packet = [0; 200];
    let version = quiche::PROTOCOL_VERSION;
    let length =
        quiche::retry(&client, &server, &stranger, b"token", version, &mut packet).expect("room");
    pair.client_receives(&packet[..length]);
    assert_eq!(pair.client.destination_id(), server);
    assert_eq!(pair.client.stream_send(0, b"?", true), Ok(1));
    pair.settle();
    assert_eq!(pair.server.stream_recv(0, &mut [0; 8]), Ok((1, true)));
}
