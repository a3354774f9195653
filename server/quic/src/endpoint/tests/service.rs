//! Service apart from emission: what a full socket stops, and what it does not.

use super::*;
use crate::testing::{Bench, Client, FullSocket, settings};

/// Returns a client with an HTTP/3 session, whose control streams have reached the server.
fn connect(bench: &mut Bench) -> (Client, quiche::h3::Connection) {
    let client = bench.connect("192.0.2.1:5000");
    bench.with_session(client)
}

const ENOUGH: usize = 1000;

#[test]
fn a_full_socket_stops_no_requests() {
    let mut bench = Bench::new(Settings::plain(0, 1));
    let (mut client, mut h3) = connect(&mut bench);
    client.request(&mut h3, "GET", "/bytes/100");
    client.speak(&mut bench.endpoint, bench.now);
    bench.endpoint.service(ENOUGH, bench.now);
    bench.endpoint.emit(&mut FullSocket, ENOUGH, bench.now);
    assert_eq!(bench.endpoint.shared().counters.served, 1);
    // What was held back leaves once there is room.
    assert!(bench.endpoint.has_unsent() && !bench.endpoint.has_service());
    assert!(!bench.said().is_empty());
}

#[test]
fn a_response_larger_than_the_send_buffer_goes_on_as_it_is_sent() {
    const LENGTH: usize = 60_000;
    let mut bench = Bench::new(settings(|settings| settings.shared.send_buffer = 16 << 10));
    let (mut client, mut h3) = connect(&mut bench);
    client.request(&mut h3, "GET", &format!("/bytes/{LENGTH}"));
    let mut received = 0;
    let mut buffer = [0; 4096];
    for _ in 0..50 {
        client.speak(&mut bench.endpoint, bench.now);
        let said = bench.pass(Duration::from_millis(10));
        client.hear(said);
        while let Ok((stream, event)) = h3.poll(&mut client.quic) {
            if event == quiche::h3::Event::Data {
                while let Ok(count) = h3.recv_body(&mut client.quic, stream, &mut buffer) {
                    received += count;
                }
            }
        }
    }
    assert_eq!(received, LENGTH);
}

/// Returns an endpoint that has sent a response, and whose client's acknowledgement has arrived but was not served yet, and when the
/// probe timer of the response is due.
fn acknowledged() -> (Bench, Instant) {
    let mut bench = Bench::new(Settings::plain(0, 1));
    let (mut client, mut h3) = connect(&mut bench);
    client.request(&mut h3, "GET", "/bytes/100");
    client.speak(&mut bench.endpoint, bench.now);
    let said = bench.said();
    let probe = bench.endpoint.next_deadline().unwrap();
    client.hear(said);
    client.speak(&mut bench.endpoint, bench.now);
    (bench, probe)
}

/// Checks that the next deadline is that of the connection's idle timeout.
fn waits_for_idle_timeout(bench: &mut Bench, probe: Instant) {
    let idle = bench.endpoint.connections.get(0).unwrap().deadline();
    assert!(idle > Some(probe), "the probe timer is still set");
    assert_eq!(bench.endpoint.next_deadline(), idle);
}

#[test]
fn an_acknowledgement_postpones_the_next_deadline() {
    let (mut bench, probe) = acknowledged();
    bench.said();
    waits_for_idle_timeout(&mut bench, probe);
}

#[test]
fn a_probe_timer_that_is_stopped_in_the_turn_in_which_it_is_due_sends_nothing() {
    let (mut bench, probe) = acknowledged();
    bench.endpoint.on_deadline(ENOUGH, probe);
    assert!(bench.said().is_empty());
    waits_for_idle_timeout(&mut bench, probe);
}

/// Takes a turn of `TURN` datagrams with ten responses to a client and, if there is one, a flood of `stranger`. Returns the
/// datagrams that the client and the strangers get.
fn turn_with(stranger: Option<Vec<u8>>, retry_above: Option<u64>) -> (usize, usize) {
    const TURN: usize = 64;
    let mut bench = Bench::new(settings(|settings| settings.quic.retry_above = retry_above));
    let (mut client, mut h3) = connect(&mut bench);
    for _ in 0..10 {
        client.request(&mut h3, "GET", "/bytes/9000");
    }
    client.speak(&mut bench.endpoint, bench.now);
    if let Some(mut datagram) = stranger {
        let from = meta_of("198.51.100.1:9");
        for _ in 0..10 * MAX_STATELESS {
            bench.endpoint.ingest(&from, &mut datagram, bench.now, UNIX);
        }
    }
    let mut out = SentDatagrams::new(Budget::of_datagrams(TURN));
    bench.endpoint.service(ENOUGH, bench.now);
    bench.endpoint.emit(&mut out, TURN / 8, bench.now);
    let (to_client, to_strangers): (Vec<_>, Vec<_>) =
        out.datagrams.iter().partition(|(_, meta, _)| meta.peer == client.meta.peer);
    assert!(to_strangers.len() <= TURN / 8);
    (to_client.len(), to_strangers.len())
}

#[test]
fn stateless_packets_get_an_eighth_of_a_turn() {
    let mut initial = vec![0; 1500];
    let mut stranger = Client::new("198.51.100.1:9");
    let (length, _) = stranger.quic.send(&mut initial).unwrap();
    initial.truncate(length);
    for (flood, retry_above) in [(unknown_version(), None), (initial, Some(0))] {
        let (alone, _) = turn_with(None, retry_above);
        let (with_flood, stateless) = turn_with(Some(flood), retry_above);
        assert_eq!(stateless, 8);
        assert!(alone > 5 && with_flood * 10 >= alone * 8, "{alone} {with_flood}");
    }
}
