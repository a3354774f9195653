//! Service apart from emission: what a full socket stops, and what it does not.

use crate::h3::Session;
use sluicegate_dataplane::Egress;

use super::fixture::{Bench, Client, FullSocket, settings};
use super::*;
use crate::http::exchange::accounts::Accounts;
use crate::http::exchange::message::{Envelope, ToFront, ToHandler};
use crate::http::exchange::ring::rings;
use crate::http::route::Site;

/// Bytes of a body that a handler may be sent at once.
const SHARE: u64 = 4096;

pub(super) fn with_routes(text: &str) -> Settings<Session> {
    settings(|settings| {
        settings.shared.site = Site::of_routes(text, &settings.limits);
    })
}

/// Returns a client with an HTTP/3 session, whose control streams have reached the server.
fn connect(bench: &mut Bench) -> (Client, quiche::h3::Connection) {
    let client = bench.connect("192.0.2.1:5000");
    with_session(bench, client)
}

/// Adds an HTTP/3 session to a client, whose control streams have reached the server.
pub(super) fn with_session(
    bench: &mut Bench,
    mut client: Client,
) -> (Client, quiche::h3::Connection) {
    let plain = quiche::h3::Config::new().unwrap();
    let h3 = quiche::h3::Connection::with_transport(&mut client.quic, &plain).unwrap();
    client.speak(&mut bench.endpoint, bench.now);
    let said = bench.said();
    client.hear(said);
    (client, h3)
}

pub(super) fn request(
    client: &mut Client,
    h3: &mut quiche::h3::Connection,
    method: &str,
    path: &str,
) -> u64 {
    let head =
        [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)];
    let head = head.map(|(name, value)| quiche::h3::Header::new(name.as_bytes(), value.as_bytes()));
    h3.send_request(&mut client.quic, &head, method == "GET").unwrap()
}

/// A turn without what a worker does around its endpoint.
fn turn(bench: &mut Bench, out: &mut dyn Egress) {
    bench.endpoint.on_messages(ENOUGH, bench.now);
    bench.endpoint.service(ENOUGH, bench.now);
    bench.endpoint.emit(out, ENOUGH, bench.now);
}

const ENOUGH: usize = 1000;

#[test]
fn a_full_socket_stops_neither_requests_nor_uploads() {
    let route = "[[route]]\npath = \"/app/\"\nproxy = { upstreams = \"127.0.0.1:1\" }\n\
                 [[route]]\npath = \"/page\"\nfixed = { content_type = \"text/html\", body = \"x\" }\n";
    let mut bench = Bench::new(with_routes(route));
    let (origin_ring, mut worker_ring) = rings(64, Accounts::new(SHARE, u64::MAX));
    bench.endpoint.settings.shared.origin_ring = Some(origin_ring);
    let (mut client, mut h3) = connect(&mut bench);
    let upload = request(&mut client, &mut h3, "POST", "/app/x");
    h3.send_body(&mut client.quic, upload, &[7; 10_000], false).unwrap();
    request(&mut client, &mut h3, "GET", "/page");
    client.speak(&mut bench.endpoint, bench.now);
    turn(&mut bench, &mut FullSocket);
    assert_eq!(bench.endpoint.shared().counters.requests, 2);
    assert_eq!(bench.endpoint.shared().counters.responses.of(200), 1);
    let Envelope { exchange, message } = worker_ring.take().unwrap();
    assert!(matches!(message, ToHandler::Open { .. }));
    let taken = |worker_ring: &mut crate::http::exchange::ring::WorkerRing| {
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
    let mut settings =
        with_routes("[[route]]\npath = \"/bytes/\"\ngenerate = { max_size = \"1MiB\" }\n");
    settings.limits.connection_send_buffer = 16 << 10;
    let site = with_limits(&settings);
    settings.shared.site = site;
    let mut bench = Bench::new(settings);
    let (mut client, mut h3) = connect(&mut bench);
    request(&mut client, &mut h3, "GET", &format!("/bytes/{LENGTH}"));
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

fn with_limits(settings: &Settings<Session>) -> Arc<Site> {
    let config = sluicegate_config::Config::embedded();
    Arc::new(Site::compile(&config.routes, &settings.limits).unwrap())
}

/// Returns an endpoint that has sent a response, and whose client's acknowledgement has arrived but was not served yet, and when the
/// probe timer of the response is due.
fn acknowledged() -> (Bench, Instant) {
    let mut bench = Bench::new(Settings::plain(0, 1));
    let (mut client, mut h3) = connect(&mut bench);
    request(&mut client, &mut h3, "GET", "/");
    client.speak(&mut bench.endpoint, bench.now);
    let said = bench.said();
    let probe = bench.endpoint.next_deadline().unwrap();
    client.hear(said);
    client.speak(&mut bench.endpoint, bench.now);
    (bench, probe)
}

/// Checks that the next deadline is that of the connection's idle timeout.
fn waits_for_idle_timeout(bench: &mut Bench, probe: Instant) {
    let idle = bench.endpoint.connections[0].as_ref().unwrap().deadline();
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
    let mut settings =
        with_routes("[[route]]\npath = \"/bytes/\"\ngenerate = { max_size = \"1MiB\" }\n");
    settings.quic.retry_above = retry_above;
    let mut bench = Bench::new(settings);
    let (mut client, mut h3) = connect(&mut bench);
    for _ in 0..10 {
        request(&mut client, &mut h3, "GET", "/bytes/9000");
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

#[test]
fn a_long_upload_arrives_whole() {
    const LENGTH: usize = 3_000_000;
    let route = "[[route]]\npath = \"/app/\"\nmax_request_body = \"8MiB\"\nproxy = { upstreams = \"127.0.0.1:1\" }\n";
    let mut bench = Bench::new(with_routes(route));
    let (origin_ring, mut worker_ring) = rings(64, Accounts::new(128 << 10, u64::MAX));
    bench.endpoint.settings.shared.origin_ring = Some(origin_ring);
    let (mut client, mut h3) = connect(&mut bench);
    let upload = request(&mut client, &mut h3, "POST", "/app/x");
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
                credit.push((exchange, crate::http::exchange::message::cost(block.len())));
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
    let route = "[[route]]\npath = \"/bytes/\"\ngenerate = { max_size = \"1MiB\" }\n";
    let mut bench = Bench::new(with_routes(route));
    let (mut client, mut h3) = connect(&mut bench);
    // More than the client's window, of which it reads nothing.
    request(&mut client, &mut h3, "GET", "/bytes/1000000");
    let begun = bench.now;
    let stalled = |bench: &Bench| bench.endpoint.shared().counters.stalled_responses;
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
