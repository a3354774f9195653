//! Connection IDs that a peer has retired, while the packet that offered them counts as lost.

use std::net::SocketAddr;
use std::time::Duration;

use quiche::ConnectionId;
use sluicegate_test_support::{builtin, client_address, config, emit, set_algorithm, Pair};

/// A client that moves acknowledges nothing from its former port, so what was sent to it is sent again.
#[test]
fn an_id_that_was_retired_is_not_offered_again() {
    let mut server = config(10);
    set_algorithm(&mut server, builtin("cubic"));
    let mut pair = Pair::connect(&mut config(10), &mut server);
    pair.settle();
    let id = ConnectionId::from_ref(&[9; 16]);
    let seq = pair.server.new_scid(&id, 7, false).expect("room for one");
    emit(&mut pair.server).iter().for_each(|datagram| pair.client_receives(datagram));
    assert!(!emit(&mut pair.client).is_empty(), "an acknowledgement, which is lost");
    pair.client.retire_dcid(seq).expect("another one");
    pair.client_at = SocketAddr::new(client_address().ip(), 40_000);
    emit(&mut pair.client).iter().for_each(|datagram| pair.server_receives(datagram));
    for _ in 0..5 {
        pair.pass(Duration::from_secs(1));
        pair.settle();
    }
    assert!(pair.server.local_error().is_none() && !pair.server.is_closed());
    assert_eq!(pair.server.stream_send(1, b"?", true), Ok(1));
    pair.settle();
    let mut buffer = [0; 8];
    assert_eq!(pair.client.stream_recv(1, &mut buffer), Ok((1, true)));
}
