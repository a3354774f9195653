//! Tests when a drain closes connections.

use sluicegate_base::tls::{Alternatives, Identity, ListenerTls};

use super::super::super::transport::server_config;
use super::*;
use crate::testing::{Bench, Client, FullSocket, settings};

/// Length of a response, bytes: more than a packet, less than the first window.
pub(super) const LENGTH: usize = 9000;

/// H3_REQUEST_REJECTED (RFC 9114 §8.1).
pub(super) const REJECTED: u64 = 0x10b;

/// Turns and datagrams of a test are far fewer.
const ENOUGH: usize = 1000;

/// Time between two responses of the client.
pub(super) const STEP: Duration = Duration::from_millis(20);

pub(super) fn head(length: usize) -> [quiche::h3::Header; 4] {
    let path = format!("/bytes/{length}");
    let head =
        [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", &path)];
    head.map(|(name, value)| quiche::h3::Header::new(name.as_bytes(), value.as_bytes()))
}

/// Returns a client that has asked for a response of [`LENGTH`], and what the server said to that.
fn asked(bench: &mut Bench) -> (Client, quiche::h3::Connection, Vec<Vec<u8>>) {
    let asked = asked_for(bench, LENGTH);
    assert!(asked.2.iter().map(Vec::len).sum::<usize>() > LENGTH);
    asked
}

fn asked_for(bench: &mut Bench, length: usize) -> (Client, quiche::h3::Connection, Vec<Vec<u8>>) {
    let mut client = bench.connect("192.0.2.1:5000");
    let plain = quiche::h3::Config::new().unwrap();
    let mut h3 = quiche::h3::Connection::with_transport(&mut client.quic, &plain).unwrap();
    h3.send_request(&mut client.quic, &head(length), true).unwrap();
    client.speak(&mut bench.endpoint, bench.now);
    let said = bench.said();
    (client, h3, said)
}

/// Asks for that many bytes.
pub(super) fn begin(client: &mut Client, length: usize) -> quiche::h3::Connection {
    let plain = quiche::h3::Config::new().unwrap();
    let mut h3 = quiche::h3::Connection::with_transport(&mut client.quic, &plain).unwrap();
    h3.send_request(&mut client.quic, &head(length), true).unwrap();
    h3
}

/// Lets the server take a turn, and the client respond to it.
pub(super) fn step(bench: &mut Bench, client: &mut Client) {
    client.speak(&mut bench.endpoint, bench.now);
    let said = bench.pass(STEP);
    client.hear(said);
    client.speak(&mut bench.endpoint, bench.now);
}

/// Returns the time until the client receives CONNECTION_CLOSE.
pub(super) fn until_closed(bench: &mut Bench, client: &mut Client) -> Duration {
    let mut waited = Duration::ZERO;
    while client.quic.peer_error().is_none() {
        assert!(waited < Duration::from_secs(60), "never closed");
        step(bench, client);
        waited += STEP;
    }
    waited
}

/// Returns the bytes of the body that arrived, and whether it ended.
pub(super) fn body(client: &mut Client, h3: &mut quiche::h3::Connection) -> (usize, bool) {
    let (mut length, mut over) = (0, false);
    let mut buffer = [0; LENGTH];
    while let Ok((stream, event)) = h3.poll(&mut client.quic) {
        match event {
            quiche::h3::Event::Data => {
                while let Ok(count) = h3.recv_body(&mut client.quic, stream, &mut buffer) {
                    length += count;
                }
            }
            quiche::h3::Event::Finished => over = true,
            _ => {}
        }
    }
    (length, over)
}

/// Returns a bench with early data.
fn bench() -> Bench {
    bench_with(|_| {})
}

/// Returns the same with other limits.
pub(super) fn bench_with(change: impl FnOnce(&mut sluicegate_config::Limits)) -> Bench {
    Bench::new(settings(|settings| {
        change(&mut settings.limits);
        settings.shared.most_requests = settings.limits.requests_per_connection;
        settings.quic.early_data = true;
        let identity = Identity::self_signed().unwrap();
        let tls = ListenerTls {
            listener: "main",
            secrets: &settings.secrets,
            quic: &settings.quic,
            limits: &settings.limits,
        };
        let quic = server_config::<PageSession>(&tls, &identity, &Alternatives::default());
        let listener = settings.listeners.get_mut(&ListenerId(0));
        listener.unwrap().config = quic.unwrap();
    }))
}

/// A moment in which nothing is in flight: losses were noticed, and nothing was sent again yet.
#[test]
fn what_was_lost_is_sent_again_first() {
    let mut bench = bench();
    let (mut client, mut h3, mut said) = asked(&mut bench);
    bench.endpoint.drain(bench.now);
    said.extend(bench.said());
    // All but one from the middle.
    said.remove(2);
    client.hear(said);
    client.speak(&mut bench.endpoint, bench.now);
    let connection = bench.endpoint.connections.get(0).unwrap();
    assert!(connection.quic().has_unacked());
    for _ in 0..10 {
        let said = bench.said();
        client.hear(said);
        client.speak(&mut bench.endpoint, bench.now);
    }
    assert_eq!(body(&mut client, &mut h3), (LENGTH, true));
    assert!(client.quic.peer_error().is_none());
}

/// The client is behind a NAT, which gives it another port before anything has arrived.
#[test]
fn what_a_former_port_lost_is_sent_again_first() {
    let mut bench = bench();
    let (mut client, mut h3, _) = asked(&mut bench);
    bench.endpoint.drain(bench.now);
    bench.said();
    client.quic.send_ack_eliciting().unwrap();
    let own = client.meta.peer;
    let mut waited = Duration::ZERO;
    while client.quic.peer_error().is_none() {
        assert!(waited < Duration::from_secs(5), "never closed");
        client.meta.peer.set_port(own.port() + 1);
        client.speak(&mut bench.endpoint, bench.now);
        let connection = bench.endpoint.connections.get(0).unwrap();
        assert!(waited > Duration::ZERO || connection.quic().has_unacked());
        let said = bench.pass(STEP);
        client.meta.peer = own;
        client.hear(said);
        waited += STEP;
    }
    assert_eq!(body(&mut client, &mut h3), (LENGTH, true));
}

/// The last packet of the last flight: its data arrives in a probe, whose acknowledgement shows it lost. Nothing is left to
/// be sent again, nor to be waited for.
#[test]
fn what_was_lost_and_arrived_after_all_is_not_waited_for() {
    const LONGER: usize = 4 * LENGTH;
    let mut bench = bench();
    let (mut client, mut h3, mut said) = asked_for(&mut bench, LONGER);
    let mut sent = said.iter().map(Vec::len).sum::<usize>();
    assert!(sent < LONGER, "one flight");
    bench.endpoint.drain(bench.now);
    for _ in 0..10 {
        client.hear(said);
        client.speak(&mut bench.endpoint, bench.now);
        said = bench.said();
        sent += said.iter().map(Vec::len).sum::<usize>();
        if sent > LONGER {
            break;
        }
    }
    said.pop();
    client.hear(said);
    client.speak(&mut bench.endpoint, bench.now);
    let waited = until_closed(&mut bench, &mut client);
    assert!(waited < Duration::from_secs(5), "{waited:?}");
    assert_eq!(body(&mut client, &mut h3), (LONGER, true));
}

/// The request ends before the handshake is done, or after that.
#[test]
fn a_request_in_early_data_is_answered_first() {
    let mut bench = bench();
    let mut earlier = bench.connect("192.0.2.1:5000");
    let session = earlier.quic.session().unwrap().to_vec();
    earlier.quic.close(true, 0x100, b"").unwrap();
    earlier.speak(&mut bench.endpoint, bench.now);
    let mut client = Client::new("192.0.2.1:5001");
    client.quic.set_session(&session).unwrap();
    let mut first = [0; 1500];
    let (length, _) = client.quic.send(&mut first).unwrap();
    assert!(client.quic.is_in_early_data());
    let mut h3 = begin(&mut client, LENGTH);
    let meta = client.meta;
    bench.endpoint.ingest(&meta, &mut first[..length], bench.now, UNIX);
    client.speak(&mut bench.endpoint, bench.now);
    let mut said = bench.said();
    bench.endpoint.drain(bench.now);
    said.extend(bench.said());
    assert_eq!(bench.endpoint.half_open.len(), 1);
    client.hear(said);
    until_closed(&mut bench, &mut client);
    assert_eq!(body(&mut client, &mut h3), (LENGTH, true));
}

/// As when another process leaves the service to this one again.
#[test]
fn an_endpoint_that_resumes_ends_the_connections_that_it_has_told_and_takes_others() {
    let mut bench = bench();
    let (mut client, mut h3, said) = asked(&mut bench);
    bench.endpoint.drain(bench.now);
    client.hear(said);
    step(&mut bench, &mut client);
    bench.endpoint.resume();
    assert!(!bench.endpoint.is_draining() && !bench.endpoint.is_drained());
    until_closed(&mut bench, &mut client);
    assert_eq!(body(&mut client, &mut h3), (LENGTH, true));
    let mut other = bench.connect("192.0.2.1:5001");
    for _ in 0..200 {
        step(&mut bench, &mut other);
    }
    assert!(other.quic.peer_error().is_none());
    bench.endpoint.drain(bench.now);
    until_closed(&mut bench, &mut other);
    bench.endpoint.close_all(bench.now);
    bench.endpoint.resume();
    assert!(bench.endpoint.is_draining(), "it was told to close all");
}

/// It asks again and again, whatever it was told.
#[test]
fn a_client_that_is_refused_gets_no_more_time() {
    let mut bench = bench();
    let (mut client, mut h3, said) = asked(&mut bench);
    bench.endpoint.drain(bench.now);
    client.hear(said);
    let mut waited = Duration::ZERO;
    while client.quic.peer_error().is_none() {
        assert!(waited < Duration::from_secs(5), "never closed");
        // quiche's client keeps to GOAWAY once it was read, and so it is left unread.
        let _ = h3.send_request(&mut client.quic, &head(LENGTH), true);
        step(&mut bench, &mut client);
        waited += STEP;
    }
    assert!(bench.endpoint.shared().counters.rejected > 0);
}

/// Either GOAWAY alone or a whole response is never acknowledged.
#[test]
fn a_client_that_has_vanished_is_not_waited_for_long() {
    for (acknowledges, least) in [(true, 1), (false, 5)] {
        let mut bench = bench();
        let (mut client, _, said) = asked(&mut bench);
        client.hear(said);
        if acknowledges {
            client.speak(&mut bench.endpoint, bench.now);
        }
        bench.pass(Duration::from_secs(2));
        bench.endpoint.drain(bench.now);
        let mut waited = Duration::ZERO;
        while !bench.endpoint.is_drained() {
            assert!(waited < Duration::from_secs(10), "never closed");
            waited += STEP;
            bench.pass(STEP);
            bench.said();
        }
        assert!(waited >= Duration::from_secs(least), "{waited:?}");
    }
}

/// A client's stack has it, but who knows whether anybody has read it.
#[test]
fn a_client_has_time_to_read_its_last_response() {
    let mut bench = bench();
    let (mut client, mut h3, said) = asked(&mut bench);
    bench.endpoint.drain(bench.now);
    client.hear(said);
    client.speak(&mut bench.endpoint, bench.now);
    let waited = until_closed(&mut bench, &mut client);
    assert!(waited >= Duration::from_secs(1), "{waited:?}");
    let error = client.quic.peer_error().unwrap();
    assert_eq!((error.is_app, error.error_code), (true, 0x100));
    assert_eq!(body(&mut client, &mut h3), (LENGTH, true));
}

/// The client's stack has acknowledged GOAWAY, and the request was on its way before anybody has read that.
#[test]
fn a_request_that_crosses_goaway_is_rejected_even_of_who_asked_nothing_for_a_while() {
    for asks in [false, true] {
        let mut bench = bench();
        let (mut client, mut h3) = if asks {
            let (mut client, h3, said) = asked(&mut bench);
            client.hear(said);
            (client, h3)
        } else {
            let client = bench.connect("192.0.2.1:5000");
            bench.with_session(client)
        };
        client.speak(&mut bench.endpoint, bench.now);
        let said = bench.pass(Duration::from_secs(2));
        client.hear(said);
        body(&mut client, &mut h3);
        bench.endpoint.drain(bench.now);
        let said = bench.said();
        client.hear(said);
        client.speak(&mut bench.endpoint, bench.now);
        let said = bench.pass(STEP);
        client.hear(said);
        let stream = h3.send_request(&mut client.quic, &head(LENGTH), true).unwrap();
        step(&mut bench, &mut client);
        assert_eq!(client.quic.peer_error(), None);
        let rejected = (stream, quiche::h3::Event::Reset(REJECTED));
        assert!(std::iter::from_fn(|| h3.poll(&mut client.quic).ok()).any(|one| one == rejected));
        let waited = until_closed(&mut bench, &mut client);
        assert!(waited < Duration::from_secs(2), "{waited:?}");
    }
}

#[test]
fn a_drain_does_not_spin_while_the_socket_is_full() {
    let mut bench = bench();
    let (mut client, _, said) = asked(&mut bench);
    client.hear(said);
    client.speak(&mut bench.endpoint, bench.now);
    bench.endpoint.drain(bench.now);
    // GOAWAY is to arrive.
    step(&mut bench, &mut client);
    bench.said();
    let connection = bench.endpoint.connections.get(0).unwrap();
    bench.now = connection.deadline().expect("it is to be closed later");
    quiche::clock::set(Some(bench.now));
    bench.endpoint.on_deadline(ENOUGH, bench.now);
    assert!(!bench.endpoint.emit(&mut FullSocket, ENOUGH, bench.now));
    assert!(bench.endpoint.next_deadline() > Some(bench.now));
    // With room it is closed at once.
    let said = bench.said();
    client.hear(said);
    assert!(client.quic.peer_error().is_some());
}

#[test]
fn a_shutdown_reaches_connections_in_steps() {
    let mut bench = bench();
    let mut client = bench.connect("192.0.2.1:5000");
    // As if many had come and gone.
    bench.endpoint.connections.enlarge(3000);
    bench.endpoint.close_all(bench.now);
    let mut steps = 1;
    bench.endpoint.service(1, bench.now);
    while bench.endpoint.has_service() {
        steps += 1;
        assert!(!bench.endpoint.is_drained());
        bench.endpoint.service(1, bench.now);
    }
    assert_eq!(steps, 3);
    let said = bench.said();
    client.hear(said);
    assert!(client.quic.peer_error().is_some());
    assert!(bench.endpoint.is_drained());
}
