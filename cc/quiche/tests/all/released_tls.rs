//! A server without the state of TLS, which it frees when a connection has nothing to do after the handshake.

use std::time::Duration;

use sluicegate_test_support::{config, config_with_chain, emit, Pair};

/// Bidirectional stream of the client.
const STREAM: u64 = 0;

#[test]
fn a_server_frees_tls_when_the_client_has_its_last_messages() {
    let (mut client, mut server) = (config(10), config(10));
    let mut pair = Pair::new(&mut client, &mut server);
    // The server has confirmed the handshake, and does not know that the client knows.
    let hello = emit(&mut pair.client);
    hello.iter().for_each(|datagram| pair.server_receives(datagram));
    while !pair.server.is_established() {
        emit(&mut pair.server).iter().for_each(|datagram| pair.client_receives(datagram));
        emit(&mut pair.client).iter().for_each(|datagram| pair.server_receives(datagram));
    }
    emit(&mut pair.server).iter().for_each(|datagram| pair.client_receives(datagram));
    pair.server.release_memory();
    assert!(pair.server.ssl_mut().is_some());
    pair.settle();
    pair.pass(Duration::from_secs(1));
    pair.settle();
    pair.server.release_memory();
    assert!(pair.server.ssl_mut().is_none());
}

/// Where the rest of a long flight is late, the client acknowledges a part of the certificates, which ends Initial before the handshake is done.
#[test]
fn the_spaces_of_the_handshake_are_freed_whichever_ends_last() {
    for is_late in [false, true] {
        let (mut client, mut server) = (config(10), config_with_chain(10, 4));
        let mut pair = Pair::new(&mut client, &mut server);
        emit(&mut pair.client).iter().for_each(|datagram| pair.server_receives(datagram));
        let flight = emit(&mut pair.server);
        let (last, others) = flight.split_last().expect("a flight");
        assert!(others.len() > 1, "it has several datagrams");
        others.iter().for_each(|datagram| pair.client_receives(datagram));
        if is_late {
            emit(&mut pair.client).iter().for_each(|datagram| pair.server_receives(datagram));
        }
        pair.client_receives(last);
        emit(&mut pair.client).iter().for_each(|datagram| pair.server_receives(datagram));
        assert!(pair.server.is_established());
        assert_eq!(pair.server.has_handshake_spaces(), is_late, "the last packet is counted");
        pair.pass(Duration::from_secs(1));
        pair.settle();
        pair.server.release_memory();
        assert!(!pair.server.has_handshake_spaces());
    }
}

#[test]
fn a_connection_without_tls_goes_on_and_tells_what_was_negotiated() {
    let (mut client, mut server) = (config(10), config(10));
    let mut pair = Pair::connect(&mut client, &mut server);
    let facts = |pair: &Pair| {
        let server = &pair.server;
        let name = server.server_name().map(str::to_owned);
        (name, server.is_resumed(), server.early_data_reason(), server.is_in_early_data())
    };
    let before = facts(&pair);
    assert_eq!(before.0.as_deref(), Some("localhost"));
    pair.server.release_memory();
    assert!(pair.server.ssl_mut().is_none());
    assert_eq!(facts(&pair), before);
    assert_eq!((pair.server.peer_cert(), pair.server.peer_cert_chain()), (None, None));
    assert!(pair.server.set_session(b"none").is_err());
    // Again there is nothing to free.
    pair.server.release_memory();
    pair.client.stream_send(STREAM, b"question", true).expect("room");
    pair.settle();
    assert_eq!(pair.server.stream_recv(STREAM, &mut [0; 9]), Ok((8, true)));
    pair.server.stream_send(STREAM, &[7; 5000], true).expect("room");
    pair.settle();
    assert_eq!(pair.client.stream_recv(STREAM, &mut [0; 6000]), Ok((5000, true)));
    pair.client.close(true, 7, b"").expect("open");
    pair.settle();
    assert_eq!(pair.server.peer_error().map(|error| error.error_code), Some(7));
}

#[test]
fn a_client_keeps_tls_for_tickets_to_come() {
    let (mut client, mut server) = (config(10), config(10));
    let mut pair = Pair::connect(&mut client, &mut server);
    pair.client.release_memory();
    assert!(pair.client.ssl_mut().is_some());
    assert!(pair.client.session().is_some());
}

#[test]
fn an_error_of_transport_is_sent_without_tls() {
    let (mut client, mut server) = (config(10), config(10));
    let mut pair = Pair::connect(&mut client, &mut server);
    pair.server.release_memory();
    pair.server.close(false, 1, b"end").expect("open");
    pair.settle();
    assert_eq!(pair.client.peer_error().map(|error| error.error_code), Some(1));
}
