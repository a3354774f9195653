//! What a full socket, a full buffer and a stalled client stop, and what they do not.

use sluicegate_dataplane::Egress;
use sluicegate_http::exchange::accounts::Accounts;
use sluicegate_http::exchange::message::{Envelope, ToFront, ToHandler, cost};
use sluicegate_http::exchange::ring::{WorkerRing, rings};
use sluicegate_quic::testing::FullSocket;

use super::*;

/// Bytes of a body that a handler may be sent at once.
const SHARE: u64 = 4096;
const ENOUGH: usize = 1000;

/// Returns a client with an HTTP/3 session, whose control streams have reached the server.
fn connect(bench: &mut Bench<Http3Session>) -> (Client, quiche::h3::Connection) {
    let client = bench.connect("192.0.2.1:5000");
    bench.with_session(client)
}

/// A turn without what a worker does around its endpoint.
fn turn(bench: &mut Bench<Http3Session>, out: &mut dyn Egress) {
    bench.endpoint.on_messages(ENOUGH, bench.now);
    bench.endpoint.service(ENOUGH, bench.now);
    bench.endpoint.emit(out, ENOUGH, bench.now);
}

#[test]
fn a_full_socket_stops_neither_requests_nor_uploads() {
    let route = "[[route]]\npath = \"/app/\"\nproxy = { upstreams = \"127.0.0.1:1\" }\n\
                 [[route]]\npath = \"/page\"\nfixed = { content_type = \"text/html\", body = \"x\" }\n";
    let mut bench = Bench::new(with_routes(route));
    let (origin_ring, mut worker_ring) = rings(64, Accounts::new(SHARE, u64::MAX));
    bench.endpoint.shared_mut().origin_ring = Some(origin_ring);
    let (mut client, mut h3) = connect(&mut bench);
    let upload = client.request(&mut h3, "POST", "/app/x");
    h3.send_body(&mut client.quic, upload, &[7; 10_000], false).unwrap();
    client.request(&mut h3, "GET", "/page");
    client.speak(&mut bench.endpoint, bench.now);
    turn(&mut bench, &mut FullSocket);
    assert_eq!(bench.endpoint.shared().counters.requests, 2);
    assert_eq!(bench.endpoint.shared().counters.responses.of(200), 1);
    let Envelope { exchange, message } = worker_ring.take().unwrap();
    assert!(matches!(message, ToHandler::Open { .. }));
    let taken = |worker_ring: &mut WorkerRing| {
        let mut bytes = 0;
        while let Some(Envelope { message: ToHandler::Data(block), .. }) = worker_ring.take() {
            bytes += block.len();
        }
        bytes
    };
    let first = taken(&mut worker_ring);
    assert!(first > 0 && (first as u64) < SHARE, "{first}");
    let message = ToFront::Credit(SHARE);
    let credit = Envelope { exchange, message };
    worker_ring.give(credit).unwrap();
    turn(&mut bench, &mut FullSocket);
    let second = taken(&mut worker_ring);
    assert!(second > 0, "the handler's credit came to nothing");
    // What was held back leaves once there is room.
    assert!(bench.endpoint.has_unsent() && !bench.endpoint.has_service());
    assert!(!bench.said().is_empty());
}

#[test]
fn a_response_larger_than_the_send_buffer_goes_on_as_it_is_sent() {
    const LENGTH: usize = 60_000;
    let mut settings = plain_settings(0, 1);
    settings.limits.connection_send_buffer = 16 << 10;
    settings.shared.site = Site::of_routes(BYTES, &settings.limits);
    let mut bench = Bench::new(settings);
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

#[test]
fn a_long_upload_arrives_whole() {
    const LENGTH: usize = 3_000_000;
    let route = "[[route]]\npath = \"/app/\"\nmax_request_body = \"8MiB\"\nproxy = { upstreams = \"127.0.0.1:1\" }\n";
    let mut bench = Bench::new(with_routes(route));
    let (origin_ring, mut worker_ring) = rings(64, Accounts::new(128 << 10, u64::MAX));
    bench.endpoint.shared_mut().origin_ring = Some(origin_ring);
    let (mut client, mut h3) = connect(&mut bench);
    let upload = client.request(&mut h3, "POST", "/app/x");
    let body = vec![7; LENGTH];
    let (mut sent, mut received, mut rounds) = (0, 0, 0);
    while received < LENGTH {
        rounds += 1;
        assert!(rounds < 5000, "{received} of {sent} sent of {LENGTH}");
        if sent < LENGTH {
            sent += h3.send_body(&mut client.quic, upload, &body[sent..], true).unwrap_or(0);
        }
        client.speak(&mut bench.endpoint, bench.now);
        bench.endpoint.service(ENOUGH, bench.now);
        let mut credit = Vec::new();
        while let Some(Envelope { exchange, message }) = worker_ring.take() {
            if let ToHandler::Data(block) = message {
                received += block.len();
                credit.push((exchange, cost(block.len())));
            }
        }
        for (exchange, cost) in credit {
            let message = ToFront::Credit(cost);
            worker_ring.give(Envelope { exchange, message }).unwrap();
        }
        bench.endpoint.on_messages(ENOUGH, bench.now);
        let said = bench.pass(Duration::from_millis(5));
        client.hear(said);
        if client.quic.timeout_instant().is_some_and(|at| at <= bench.now) {
            client.quic.on_timeout();
        }
    }
}

#[test]
fn a_stalled_response_is_ended_by_a_timer() {
    let mut bench = Bench::new(with_routes(BYTES));
    let (mut client, mut h3) = connect(&mut bench);
    // More than the client's window, of which it reads nothing.
    client.request(&mut h3, "GET", "/bytes/1000000");
    let begun = bench.now;
    let stalled = |bench: &Bench<Http3Session>| bench.endpoint.shared().counters.stalled_responses;
    while stalled(&bench) == 0 {
        client.quic.send_ack_eliciting().unwrap();
        client.speak(&mut bench.endpoint, bench.now);
        let said = bench.pass(Duration::from_secs(10));
        client.hear(said);
        assert!(bench.now < begun + Duration::from_secs(600));
    }
    // The bytes that the client took have saved time for it.
    assert!(bench.now >= begun + Duration::from_secs(300));
    assert_eq!(bench.endpoint.len(), 1);
}
