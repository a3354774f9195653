//! Requests that wait for their client, and those that wait for something else.

use std::time::Duration;

use bytes::Bytes;
use sluicegate_config::Limits;
use sluicegate_http::exchange::message::{ToFront, ToHandler, cost};
use sluicegate_http::route::Site;
use sluicegate_quic::application::Application as _;

use super::fixture::Bench;
use super::transport::{carry, connected_to_window, connected_with_window};
use super::{Pair, counters, limits};

/// H3_REQUEST_CANCELLED.
const CANCELLED: u64 = 0x10c;

/// Returns a connection whose client takes no byte of any response.
fn with_zero_windows() -> Pair {
    Pair::of(connected_with_window(0))
}

impl Pair {
    /// Lets a second pass, in which the client sends a PING.
    pub(super) fn ping(&mut self) {
        self.passed += Duration::from_secs(1);
        self.client.send_ack_eliciting().unwrap();
        self.step();
        self.step();
    }

    /// Lets seconds pass with a PING in each, until the server has reset the stream. Returns the number of seconds, at most `most`.
    fn ping_until_reset(&mut self, stream: u64, most: u64) -> u64 {
        let reset =
            |pair: &Pair| pair.streams.get(&stream).is_some_and(|seen| seen.reset.is_some());
        (0..most)
            .find(|_| {
                reset(self) || {
                    self.ping();
                    false
                }
            })
            .unwrap_or(most)
    }

    pub(super) fn stalled(&self) -> (u64, u64) {
        let counters = &self.context.counters;
        (counters.stalled_responses, counters.stalled_bodies)
    }
}

impl Bench {
    fn is_cancelled(&mut self) -> bool {
        let mut messages = std::iter::from_fn(|| self.worker_ring.take().map(|e| e.message));
        messages.any(|message| matches!(message, ToHandler::Cancel))
    }
}

#[test]
fn pings_keep_no_response_that_the_client_does_not_take() {
    let mut bench = Bench::of(with_zero_windows());
    let (handled, exchange) = bench.ask("GET", "/app/x");
    bench.head(exchange, Some(9), false);
    let whole = bench.pair.request("GET", "/bytes/1000", &[], true);
    bench.pair.settle();
    let seconds = bench.pair.ping_until_reset(handled, 100);
    assert!((60..=75).contains(&seconds), "{seconds}");
    for stream in [handled, whole] {
        assert_eq!(bench.pair.streams[&stream].reset, Some(CANCELLED));
    }
    assert_eq!(bench.pair.stalled(), (2, 0));
    assert!(bench.is_cancelled() && bench.pair.session.is_idle());
    assert!(bench.pair.server.local_error().is_none());
    // Nothing is planned without requests.
    for _ in 0..10 {
        bench.pair.ping();
    }
    assert_eq!(bench.pair.session.deadline(), None);
}

/// Reads some bytes a second of a response of 1,000,000 bytes. Returns the seconds until it is whole, or until it is reset.
fn read_slowly(rate: usize) -> (u64, bool) {
    let mut pair = Pair::new();
    let stream = pair.request("GET", "/bytes/1000000", &[], true);
    let mut buffer = vec![0; rate];
    for second in 0.. {
        pair.passed += Duration::from_secs(1);
        pair.client.send_ack_eliciting().unwrap();
        for _ in 0..2 {
            carry(&mut pair.client, &mut pair.server);
            pair.turn();
            carry(&mut pair.server, &mut pair.client);
        }
        while let Ok((_, event)) = pair.h3.poll(&mut pair.client) {
            match event {
                quiche::h3::Event::Finished => return (second, true),
                quiche::h3::Event::Reset(_) => return (second, false),
                _ => {}
            }
        }
        let read = pair.h3.recv_body(&mut pair.client, stream, &mut buffer);
        if matches!(read, Err(quiche::h3::Error::TransportError(quiche::Error::StreamReset(_)))) {
            return (second, false);
        }
    }
    unreachable!()
}

#[test]
fn a_slow_reader_is_served_and_a_nearly_dead_one_is_not() {
    let (seconds, whole) = read_slowly(500);
    assert!(whole, "reset after {seconds} s");
    let (seconds, whole) = read_slowly(50);
    assert!(!whole && (300..=400).contains(&seconds), "{seconds}");
}

#[test]
fn a_response_that_waits_for_the_congestion_window_is_not_ended() {
    let mut pair = Pair::new();
    let streams = [(); 4].map(|()| pair.request("GET", "/bytes/20000", &[], true));
    carry(&mut pair.client, &mut pair.server);
    pair.turn();
    // A link of 9,600 baud: a packet each second.
    let mut buffer = [0; 1500];
    for _ in 0..600 {
        pair.passed += Duration::from_secs(1);
        if let Ok((count, info)) = pair.server.send(&mut buffer[..1200]) {
            let (from, to) = (info.from, info.to);
            let info = quiche::RecvInfo { from, to };
            pair.client.recv(&mut buffer[..count], info).unwrap();
        }
        pair.watch();
        carry(&mut pair.client, &mut pair.server);
        pair.turn();
    }
    for stream in streams {
        assert!(pair.streams[&stream].body == counters(20_000));
    }
    assert_eq!(pair.stalled(), (0, 0));
}

/// Serves requests over a link that carries so many packets of 1200 bytes each second, or one in so many seconds. Returns the
/// number of responses that arrived in full within a time. With the `priority` `i` they share the link, otherwise one follows the
/// other (RFC 9218 §4.2).
fn serve_slowly(
    priority: &str,
    requests: usize,
    bytes: u32,
    packets: usize,
    each: u64,
    seconds: u64,
) -> (Pair, usize) {
    let mut pair = Pair::new();
    let path = format!("/bytes/{bytes}");
    for _ in 0..requests {
        pair.request("GET", &path, &[("priority", priority)], true);
    }
    let mut buffer = [0; 1500];
    for second in 0..seconds {
        carry(&mut pair.client, &mut pair.server);
        pair.turn();
        for _ in 0..if second % each == 0 { packets } else { 0 } {
            if let Ok((count, info)) = pair.server.send(&mut buffer[..1200]) {
                let (from, to) = (info.from, info.to);
                let info = quiche::RecvInfo { from, to };
                let _ = pair.client.recv(&mut buffer[..count], info);
            }
        }
        pair.watch();
        pair.passed += Duration::from_secs(1);
    }
    let whole = pair.streams.values().filter(|seen| seen.finished).count();
    (pair, whole)
}

/// At 96 kbit/s the last of the responses waits seven minutes for its turn.
#[test]
fn a_slow_link_serves_twenty_large_responses_one_after_the_other() {
    let (pair, whole) = serve_slowly("u=3", 20, 300_000, 10, 1, 600);
    assert_eq!((pair.stalled(), whole), ((0, 0), 20));
}

#[test]
fn a_packet_now_and_then_does_not_keep_all_requests_of_a_connection() {
    let (pair, whole) = serve_slowly("u=3", 64, 100_000, 1, 3, 420);
    assert!(pair.stalled().0 >= 60, "{:?}, {whole}", pair.stalled());
}

/// At 58 kbit/s each of the responses gets 56 bytes a second, for nine minutes. A minimum rate of its own would end them all.
#[test]
fn a_modem_serves_as_many_responses_at_a_time_as_a_client_may_have() {
    let (pair, whole) = serve_slowly("i", 128, 30_000, 6, 1, 650);
    assert_eq!((pair.stalled(), whole), ((0, 0), 128));
}

/// A packet of 1200 bytes each second keeps as many responses as get 48 bytes of it: the minimum rate, of which a fifth counts on a
/// slow link. The others end.
#[test]
fn a_packet_each_second_keeps_at_most_25_responses() {
    let (pair, whole) = serve_slowly("i", 128, 30_000, 1, 1, 480);
    let kept = 128 - pair.stalled().0;
    assert!(kept <= 1200 / 48, "{:?}, {whole}", pair.stalled());
}

#[test]
fn a_client_that_acknowledges_nothing_keeps_no_response() {
    let mut pair = Pair::new();
    pair.settle();
    pair.request("GET", "/bytes/500000", &[], true);
    let mut buffer = [0; 1500];
    let mut seconds = 0;
    while !{
        carry(&mut pair.client, &mut pair.server);
        pair.turn();
        pair.session.is_idle()
    } {
        seconds += 1;
        assert!(seconds < 200);
        pair.passed += Duration::from_secs(1);
        // What is sent is lost.
        while pair.server.send(&mut buffer).is_ok() {}
        pair.client.send_ack_eliciting().unwrap();
    }
    // The initial window has saved 50 seconds.
    assert!((100..=150).contains(&seconds), "{seconds}");
    assert_eq!(pair.stalled(), (1, 0));
}

#[test]
fn a_quiet_handler_counts_for_nothing() {
    let mut bench = Bench::new();
    let (poll, exchange) = bench.ask("GET", "/app/x");
    let (events, stream) = bench.ask("GET", "/app/events");
    bench.head(stream, None, false);
    for second in 0..3600 {
        bench.pair.ping();
        if second % 30 == 0 {
            bench.give(stream, ToFront::Data(Bytes::from_static(b"event")));
        }
    }
    bench.head(exchange, Some(0), true);
    bench.give(stream, ToFront::End(None));
    bench.pair.settle();
    for stream in [poll, events] {
        assert!(bench.pair.streams[&stream].finished);
    }
    assert_eq!(bench.pair.stalled(), (0, 0));
}

#[test]
fn an_upload_that_stops_gets_408_or_a_reset_if_the_response_has_begun() {
    for begun in [false, true] {
        let mut bench = Bench::new();
        let stream = bench.begin(&[]);
        bench.send(stream, b"a beginning", false);
        bench.pair.settle();
        let (exchange, _) = bench.opened();
        assert!(matches!(bench.worker_ring.take().unwrap().message, ToHandler::Data(_)));
        bench.give(exchange, ToFront::Credit(cost(11)));
        if begun {
            bench.head(exchange, None, false);
        }
        (0..59).for_each(|_| bench.pair.ping());
        assert_eq!(bench.pair.stalled(), (0, 0));
        (59..75).for_each(|_| bench.pair.ping());
        let seen = &bench.pair.streams[&stream];
        let expected = if begun { ("200", Some(CANCELLED)) } else { ("408", None) };
        assert_eq!((seen.status(), seen.reset), expected);
        assert_eq!(bench.pair.stalled(), (0, 1));
        assert!(bench.is_cancelled());
        // Time in which the client may still finish its upload.
        (0..30).for_each(|_| bench.pair.ping());
        assert!(bench.pair.session.is_idle());
    }
}

#[test]
fn a_body_that_is_discarded_must_arrive_too() {
    let mut pair = Pair::new();
    let stream = pair.upload(&[], b"a beginning", false);
    for _ in 0..75 {
        pair.ping();
    }
    assert_eq!(pair.streams[&stream].status(), "408");
    assert_eq!(pair.stalled(), (0, 1));
}

/// The body is larger than the handler's credit.
#[test]
fn an_upload_that_its_handler_does_not_read_is_not_ended() {
    let mut bench = Bench::new();
    let stream = bench.begin(&[]);
    bench.send(stream, &[1; 10_000], false);
    for _ in 0..600 {
        bench.pair.ping();
    }
    assert_eq!(bench.pair.stalled(), (0, 0));
    assert!(!bench.pair.session.is_idle() && !bench.pair.streams.contains_key(&stream));
}

/// Other uploads, whose handler does not read, fill the connection's window.
#[test]
fn an_upload_that_the_connections_window_stops_waits_for_the_server() {
    let mut bench = Bench::of(Pair::of(connected_to_window(150_000)));
    let stream = bench.begin(&[]);
    bench.send(stream, b"a beginning", false);
    bench.pair.settle();
    let (exchange, _) = bench.opened();
    assert!(bench.worker_ring.take().is_some());
    bench.give(exchange, ToFront::Credit(cost(11)));
    let mut unread = Vec::new();
    let mut left = 0;
    while left == 0 {
        assert!(unread.len() < 3);
        let other = bench.begin(&[]);
        left = 59_000;
        while let sent @ 1.. = bench.send(other, &[1; 59_000][..left], false) {
            left -= sent;
            bench.pair.settle();
            while bench.worker_ring.take().is_some() {}
        }
        unread.push(other);
    }
    for _ in 0..600 {
        bench.pair.ping();
    }
    assert_eq!(bench.pair.stalled(), (0, 0));
    for stream in unread {
        let end = quiche::Shutdown::Write;
        bench.pair.client.stream_shutdown(stream, end, CANCELLED).unwrap();
    }
    for _ in 0..80 {
        bench.pair.ping();
    }
    assert_eq!(bench.pair.streams[&stream].status(), "408");
    assert_eq!(bench.pair.stalled(), (0, 1));
}

#[test]
fn without_a_client_timeout_a_response_waits_for_ever() {
    let mut pair = with_zero_windows();
    let limits = Limits { client_timeout: Duration::ZERO, ..limits() };
    let routes = "[[route]]\npath = \"/bytes/\"\ngenerate = { max_size = \"1MiB\" }\n";
    pair.context.site = Site::of_routes(routes, &limits);
    pair.request("GET", "/bytes/1000", &[], true);
    for _ in 0..600 {
        pair.ping();
    }
    assert_eq!((pair.stalled(), pair.session.is_idle()), ((0, 0), false));
}

/// Each is the beginning of a HEADERS frame of 100 bytes.
#[test]
fn a_head_that_never_ends_is_rejected() {
    let mut pair = Pair::new();
    pair.settle();
    for stream in [0, 4] {
        pair.client.stream_send(stream, &[1, 0x40, 100, 0, 0], false).unwrap();
    }
    for _ in 0..59 {
        pair.ping();
    }
    assert_eq!(pair.context.counters.stalled_heads, 0);
    for _ in 59..80 {
        pair.ping();
        // Each further byte comes too late for the whole.
        let _ = pair.client.stream_send(4, &[0], false);
    }
    assert_eq!(pair.context.counters.stalled_heads, 2);
    assert_eq!(pair.client.stats().reset_stream_count_remote, 2);
    for _ in 0..20 {
        pair.ping();
    }
    assert_eq!(pair.session.deadline(), None);
    assert_eq!(pair.stalled(), (0, 0));
}
