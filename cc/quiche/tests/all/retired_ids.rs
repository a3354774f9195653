//! Connection IDs that a peer has retired, while the packet that offered them counts as lost, or packets under them are late.

use std::net::SocketAddr;
use std::time::Duration;

use quiche::ConnectionId;
use sluicegate_test_support::{builtin, client_address, config, emit, set_algorithm, Pair};

/// Connects, and has the server offer another ID. Returns its number.
fn offered(is_taken: bool) -> (Pair, u64) {
    let mut server = config(10);
    set_algorithm(&mut server, builtin("cubic"));
    let mut pair = Pair::connect(&mut config(10), &mut server);
    pair.settle();
    let id = ConnectionId::from_ref(&[9; 16]);
    let seq = pair.server.new_scid(&id, 7, false).expect("room for one");
    if is_taken {
        pair.settle();
    }
    (pair, seq)
}

fn to_client(pair: &mut Pair) {
    emit(&mut pair.server).iter().for_each(|datagram| pair.client_receives(datagram));
}

fn to_server(pair: &mut Pair) {
    emit(&mut pair.client).iter().for_each(|datagram| pair.server_receives(datagram));
}

/// Has the client retire an ID at another address.
fn retire_elsewhere(pair: &mut Pair, seq: u64) {
    pair.client.retire_dcid(seq).expect("another one");
    pair.client_at = SocketAddr::new(client_address().ip(), 40_000);
    to_server(pair);
}

/// Lets time pass, after which the connection must still work in both directions.
fn assert_goes_on(mut pair: Pair) {
    for _ in 0..5 {
        pair.pass(Duration::from_secs(1));
        pair.settle();
    }
    assert!(pair.server.local_error().is_none() && !pair.server.is_closed());
    assert_eq!(pair.client.stream_send(4, b"?", true), Ok(1));
    pair.settle();
    assert_eq!(pair.server.stream_recv(4, &mut [0; 8]), Ok((1, true)));
    assert_eq!(pair.server.stream_send(4, b"!", true), Ok(1));
    pair.settle();
    assert_eq!(pair.client.stream_recv(4, &mut [0; 8]), Ok((1, true)));
}

/// A client that moves acknowledges nothing from its former port, so what was sent to it is sent again.
#[test]
fn an_id_that_was_retired_is_not_offered_again() {
    let (mut pair, seq) = offered(false);
    to_client(&mut pair);
    assert!(!emit(&mut pair.client).is_empty(), "an acknowledgement, which is lost");
    retire_elsewhere(&mut pair, seq);
    assert_goes_on(pair);
}

/// The packet with the retirement comes behind the one that repeats it, as it counts as lost, when the server has one ID left.
#[test]
fn an_id_may_be_retired_again_when_one_is_left() {
    let (mut pair, _) = offered(true);
    pair.client.retire_dcid(0).expect("another one");
    let late = emit(&mut pair.client);
    for _ in 0..5 {
        pair.client.stream_send(0, b"?", false).expect("room");
        to_server(&mut pair);
        to_client(&mut pair);
    }
    to_server(&mut pair);
    assert_eq!(pair.server.active_scids(), 1);
    late.iter().for_each(|datagram| pair.server_receives(datagram));
    assert_goes_on(pair);
}

/// Packets of two addresses overtake each other easily.
#[test]
fn a_late_packet_under_an_id_that_was_retired_closes_nothing() {
    let (mut pair, _) = offered(true);
    assert_eq!(pair.client.stream_send(0, b"?", true), Ok(1));
    let late = emit(&mut pair.client);
    pair.client.retire_dcid(0).expect("another one");
    to_server(&mut pair);
    late.iter().for_each(|datagram| pair.server_receives(datagram));
    assert!(pair.server.local_error().is_none());
    for _ in 0..3 {
        pair.pass(Duration::from_secs(1));
        pair.settle();
    }
    assert_eq!(pair.server.stream_recv(0, &mut [0; 8]), Ok((1, true)));
    assert_goes_on(pair);
}
