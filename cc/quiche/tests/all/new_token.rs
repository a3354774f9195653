//! A server's NEW_TOKEN frame: once, again if it is lost, and without the token in traces.

use std::time::Duration;

use quiche::Error;
use sluicegate_test_support::{builtin, config, emit, set_algorithm, Pair, Trace};

const TOKEN: [u8; 82] = [0xab; 82];

/// Returns the number of NEW_TOKEN frames in a trace.
fn tokens(trace: &Trace) -> usize {
    trace.text().matches("\"new_token\"").count()
}

/// Returns two connections that have sent nothing, and their traces: the client's and the server's.
fn traced() -> (Pair, Trace, Trace) {
    let mut pair = Pair::new(&mut config(100), &mut config(100));
    let client = Trace::of(&mut pair.client);
    let server = Trace::of(&mut pair.server);
    (pair, client, server)
}

#[test]
fn token_is_sent_once_with_the_confirmed_handshake_and_stays_out_of_traces() {
    let (mut pair, received, sent) = traced();
    pair.server.send_new_token(&TOKEN).expect("a server");
    let first = emit(&mut pair.client);
    first.iter().for_each(|d| pair.server_receives(d));
    let flight = emit(&mut pair.server);
    assert!(!pair.server.is_established() && tokens(&sent) == 0);
    flight.iter().for_each(|d| pair.client_receives(d));
    pair.settle();
    pair.pass(Duration::from_secs(5));
    pair.settle();
    assert_eq!((tokens(&sent), tokens(&received)), (1, 1));
    for trace in [received.text(), sent.text()] {
        assert!(!trace.contains("abab"), "{trace}");
        assert!(trace.contains("\"length\":82"), "{trace}");
    }
}

#[test]
fn lost_token_is_sent_again_until_it_is_acknowledged() {
    let (mut pair, received, sent) = traced();
    pair.settle();
    pair.server.send_new_token(&TOKEN).expect("a server");
    for times in 1..4 {
        assert!(!emit(&mut pair.server).is_empty(), "lost");
        assert_eq!((tokens(&sent), tokens(&received)), (times, 0));
        pair.pass(Duration::from_secs(5));
        // Probes arrive; their acknowledgement shows what was lost.
        let probes = emit(&mut pair.server);
        probes.iter().for_each(|d| pair.client_receives(d));
        let acks = emit(&mut pair.client);
        acks.iter().for_each(|d| pair.server_receives(d));
    }
    pair.settle();
    assert_eq!(tokens(&received), 1);
    let before = tokens(&sent);
    for _ in 0..5 {
        pair.pass(Duration::from_secs(5));
        pair.settle();
    }
    assert_eq!(tokens(&sent), before);
}

#[test]
fn probe_after_a_timeout_repeats_data_and_no_token() {
    for algorithm in [None, Some("cubic")] {
        let mut server = config(100);
        if let Some(name) = algorithm {
            set_algorithm(&mut server, builtin(name));
        }
        let mut pair = Pair::connect(&mut config(100), &mut server);
        let sent = Trace::of(&mut pair.server);
        pair.server.send_new_token(&TOKEN).expect("a server");
        assert_eq!(pair.server.stream_send(1, &[7; 100], true), Ok(100));
        let late = emit(&mut pair.server);
        pair.pass(Duration::from_secs(5));
        let probes = emit(&mut pair.server);
        assert!(probes.concat().len() > 100, "with the data");
        for datagram in late.iter().chain(&probes) {
            pair.client_receives(datagram);
        }
        pair.settle();
        assert_eq!(tokens(&sent), 1, "{algorithm:?}");
    }
}

#[test]
fn token_that_waits_is_replaced_by_a_newer_one() {
    let (mut pair, _, sent) = traced();
    pair.server.send_new_token(&[1; 40]).expect("a server");
    pair.server.send_new_token(&[2; 41]).expect("a server");
    pair.settle();
    assert_eq!(tokens(&sent), 1);
    assert!(sent.text().contains("\"length\":41"));
}

#[test]
fn clients_send_no_token_and_servers_none_that_is_no_token() {
    let mut pair = Pair::connect(&mut config(100), &mut config(100));
    assert_eq!(pair.client.send_new_token(&TOKEN), Err(Error::InvalidState));
    assert_eq!(pair.server.send_new_token(&[]), Err(Error::InvalidFrame));
    assert_eq!(pair.server.send_new_token(&[1; 513]), Err(Error::InvalidFrame));
    assert_eq!(pair.server.send_new_token(&[1; 512]), Ok(()));
    pair.settle();
    assert!(emit(&mut pair.client).is_empty());
}
