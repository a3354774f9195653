//! Connection IDs that a peer has retired, while the packet that offered them counts as lost, or packets under them are late.

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

/// The offer is on its way twice, in a packet and in the probe for it, and both count as lost.
#[test]
fn an_id_whose_offer_was_lost_twice_is_forgotten_once_it_was_retired() {
    let mut server = config(10);
    set_algorithm(&mut server, builtin("cubic"));
    let mut pair = Pair::connect(&mut config(10), &mut server);
    pair.settle();
    assert_eq!(pair.server.stream_send(1, b"?", false), Ok(1));
    let id = ConnectionId::from_ref(&[9; 16]);
    let seq = pair.server.new_scid(&id, 7, false).expect("room for one");
    emit(&mut pair.server).iter().for_each(|datagram| pair.client_receives(datagram));
    for _ in 0..3 {
        pair.pass(Duration::from_secs(1));
        drop(emit(&mut pair.server));
    }
    drop(emit(&mut pair.client));
    pair.client.retire_dcid(seq).expect("another one");
    pair.client_at = SocketAddr::new(client_address().ip(), 40_000);
    emit(&mut pair.client).iter().for_each(|datagram| pair.server_receives(datagram));
    for _ in 0..5 {
        pair.pass(Duration::from_secs(1));
        pair.settle();
    }
    assert!(pair.server.local_error().is_none() && !pair.server.is_closed());
}

/// The retirement comes again, as after a lost acknowledgement, when the server has one ID left.
#[test]
fn an_id_may_be_retired_again_when_one_is_left() {
    let mut pair = Pair::connect(&mut config(10), &mut config(10));
    let id = ConnectionId::from_ref(&[9; 16]);
    pair.server.new_scid(&id, 7, false).expect("room for one");
    pair.settle();
    pair.client.retire_dcid(0).expect("another one");
    emit(&mut pair.client).iter().for_each(|datagram| pair.server_receives(datagram));
    // Its acknowledgement is lost.
    drop(emit(&mut pair.server));
    for _ in 0..3 {
        pair.pass(Duration::from_secs(1));
        emit(&mut pair.client).iter().for_each(|datagram| pair.server_receives(datagram));
    }
    assert_eq!(pair.server.active_scids(), 1);
    assert!(pair.server.local_error().is_none());
}

/// Packets of two addresses overtake each other easily.
#[test]
fn a_late_packet_under_an_id_that_was_retired_closes_nothing() {
    let mut pair = Pair::connect(&mut config(10), &mut config(10));
    let id = ConnectionId::from_ref(&[9; 16]);
    pair.server.new_scid(&id, 7, false).expect("room for one");
    pair.settle();
    assert_eq!(pair.client.stream_send(0, b"?", true), Ok(1));
    let late = emit(&mut pair.client);
    pair.client.retire_dcid(0).expect("another one");
    emit(&mut pair.client).iter().for_each(|datagram| pair.server_receives(datagram));
    late.iter().for_each(|datagram| pair.server_receives(datagram));
    assert!(pair.server.local_error().is_none());
    for _ in 0..3 {
        pair.pass(Duration::from_secs(1));
        pair.settle();
    }
    let mut buffer = [0; 8];
    assert_eq!(pair.server.stream_recv(0, &mut buffer), Ok((1, true)));
}
