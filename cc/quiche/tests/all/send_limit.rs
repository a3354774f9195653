//! What blocks a connection's data.

use quiche::SendLimit;
use sluicegate_test_support::{builtin, config, emit, set_algorithm, Pair};

/// Packets of the initial congestion window.
const WINDOW: usize = 10;

/// Returns a pair whose client has asked on a stream and allows so many bytes on the connection.
fn asked(data: u64) -> Pair {
    let (mut client, mut server) = (config(WINDOW), config(WINDOW));
    client.set_initial_max_data(data);
    set_algorithm(&mut server, builtin("cubic"));
    let mut pair = Pair::connect(&mut client, &mut server);
    pair.client.stream_send(0, b"?", true).expect("sent");
    pair.settle();
    pair
}

#[test]
fn nothing_limits_a_connection_that_has_sent_little() {
    let mut pair = asked(1 << 24);
    assert_eq!(pair.server.send_limit(), None);
    pair.server.stream_send(0, b"!", true).expect("sent");
    emit(&mut pair.server);
    assert_eq!(pair.server.send_limit(), None);
}

#[test]
fn full_congestion_window_is_named_until_an_acknowledgement() {
    let mut pair = asked(1 << 24);
    pair.server.stream_send(0, &[7; 100_000], true).expect("sent");
    let flight = emit(&mut pair.server);
    assert_eq!(pair.server.send_limit(), Some(SendLimit::CongestionWindow));
    flight.iter().for_each(|datagram| pair.client_receives(datagram));
    let acks = emit(&mut pair.client);
    acks.iter().for_each(|datagram| pair.server_receives(datagram));
    assert_eq!(pair.server.send_limit(), None);
}

#[test]
fn flow_control_of_the_connection_is_named_until_the_client_reads() {
    let mut pair = asked(5000);
    assert!(pair.server.stream_send(0, &[7; 100_000], true).expect("sent") <= 5000);
    pair.settle();
    assert_eq!(pair.server.send_limit(), Some(SendLimit::ConnectionFlowControl));
    let mut buffer = [0; 5000];
    pair.client.stream_recv(0, &mut buffer).expect("received");
    pair.settle();
    assert_eq!(pair.server.send_limit(), None);
}

/// A client that acknowledges everything and reads nothing.
#[test]
fn limit_of_the_connection_is_told_once_unless_that_packet_is_lost() {
    fn try_again(pair: &mut Pair) -> u64 {
        for _ in 0..5 {
            let _ = pair.server.stream_send(0, &[7; 100_000], true);
            pair.settle();
        }
        pair.server.stats().data_blocked_sent_count
    }
    let mut pair = asked(5000);
    assert_eq!(try_again(&mut pair), 1);
    // A new limit, told in the first packet of a flight that is lost.
    pair.client.stream_recv(0, &mut [0; 5000]).expect("received");
    pair.settle();
    pair.server.stream_send(0, &[7; 100_000], true).expect("sent");
    let flight = emit(&mut pair.server);
    assert!(flight.len() > 3, "{}", flight.len());
    flight[1..].iter().for_each(|datagram| pair.client_receives(datagram));
    assert_eq!(pair.server.stats().data_blocked_sent_count, 2);
    assert_eq!(try_again(&mut pair), 3);
}

#[test]
fn amplification_is_named_until_the_client_proves_its_address() {
    let (mut client, mut server) = (config(WINDOW), config(WINDOW));
    let mut pair = Pair::new(&mut client, &mut server);
    assert_eq!(pair.server.send_limit(), Some(SendLimit::Amplification));
    pair.settle();
    assert_eq!(pair.server.send_limit(), None);
}
