//! Ranges that a handler lends for the session to read; the test is the handler.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use sluicegate_http::exchange::lent::test_source::Source;
use sluicegate_http::exchange::message::{ToFront, ToHandler, cost};
use sluicegate_quic::application::Application as _;

use super::counters;
use super::fixture::Bench;

const LENGTH: u64 = 300_000;

/// Returns the handler's next message.
fn next(bench: &mut Bench) -> Option<ToHandler> {
    bench.worker_ring.take().map(|envelope| envelope.message)
}

/// Requests a file of which the first bytes are in memory, and lends a range of it behind the head.
fn begin(cached: u64, range: std::ops::Range<u64>, ends: bool) -> (Bench, (u64, u64), Source) {
    let mut bench = Bench::new();
    let stream = bench.pair.request("GET", "/app/x", &[], true);
    bench.pair.settle();
    let (exchange, request) = bench.opened();
    assert!(request.reads_ranges);
    let source = Source::new(&counters(LENGTH), cached);
    bench.head(exchange, Some(LENGTH), false);
    bench.give(exchange, ToFront::Range(Box::new(source.lend(range, ends))));
    (bench, (stream, exchange), source)
}

#[test]
fn a_range_that_is_in_memory_is_a_whole_response() {
    let (mut bench, (stream, exchange), source) = begin(LENGTH, 0..LENGTH, true);
    bench.pair.settle();
    let seen = &bench.pair.streams[&stream];
    assert!(seen.finished && seen.body == counters(LENGTH));
    assert!(source.is_returned());
    let returned = next(&mut bench);
    assert!(matches!(returned, Some(ToHandler::RangeRead(LENGTH))));
    bench.give(exchange, ToFront::Closed);
    bench.pair.settle();
    assert!(bench.pair.session.is_idle());
}

#[test]
fn the_handler_sends_what_is_not_in_memory() {
    for (cached, ends) in [(0, true), (20_000, true), (LENGTH - 1, false)] {
        let (mut bench, (stream, exchange), source) = begin(cached, 0..LENGTH, ends);
        bench.pair.settle();
        assert!(source.is_returned());
        let Some(ToHandler::RangeRead(read)) = next(&mut bench) else {
            panic!("the range comes back");
        };
        assert!(read <= cached && !bench.pair.streams[&stream].finished);
        let rest = &counters(LENGTH)[usize::try_from(read).unwrap()..];
        for block in rest.chunks(10_000) {
            bench.give(exchange, ToFront::Data(Bytes::copy_from_slice(block)));
        }
        bench.give(exchange, ToFront::End(None));
        bench.pair.settle();
        bench.give(exchange, ToFront::Closed);
        bench.pair.settle();
        let seen = &bench.pair.streams[&stream];
        assert!(seen.finished && seen.body == counters(LENGTH));
        assert!(bench.pair.session.is_idle());
        // The blocks of the handler have taken credit, those of the session none.
        let credit = std::iter::from_fn(|| next(&mut bench)).map(|message| match message {
            ToHandler::Credit(amount) => amount,
            other => panic!("{other:?}"),
        });
        let spent = rest.chunks(10_000).map(|block| cost(block.len()));
        assert_eq!(credit.sum::<u64>(), spent.sum::<u64>());
    }
}

#[test]
fn ranges_follow_one_another_and_blocks() {
    let (mut bench, (stream, exchange), source) = begin(LENGTH, 0..100_000, false);
    let blocks = [100_000..100_001, 100_001..250_000];
    for range in blocks {
        bench.pair.settle();
        assert!(!bench.pair.streams[&stream].finished);
        assert!(matches!(next(&mut bench), Some(ToHandler::RangeRead(_))));
        bench.give(exchange, ToFront::Range(Box::new(source.lend(range, false))));
    }
    bench.pair.settle();
    assert!(matches!(next(&mut bench), Some(ToHandler::RangeRead(_))));
    let rest = Bytes::copy_from_slice(&counters(LENGTH)[250_000..]);
    bench.give(exchange, ToFront::Data(rest));
    bench.give(exchange, ToFront::End(None));
    bench.pair.settle();
    let seen = &bench.pair.streams[&stream];
    assert_eq!((seen.body.len() as u64, seen.finished), (LENGTH, true));
    assert!(seen.body == counters(LENGTH));
}

/// The file has become shorter: the handler finds that out, and fails.
#[test]
fn a_handler_that_fails_with_the_rest_resets_the_stream() {
    let (mut bench, (stream, exchange), _) = begin(100_000, 0..LENGTH, true);
    bench.pair.settle();
    bench.give(exchange, ToFront::Abort(502));
    bench.give(exchange, ToFront::Closed);
    bench.pair.settle();
    let seen = &bench.pair.streams[&stream];
    assert_eq!((seen.reset, seen.finished), (Some(0x102), false));
    assert!(bench.pair.session.is_idle());
}

#[test]
fn a_range_of_another_length_than_promised_does_not_look_whole() {
    for range in [0..LENGTH - 1, 1..LENGTH] {
        let (mut bench, (stream, _), source) = begin(LENGTH, range, true);
        bench.pair.settle();
        let seen = &bench.pair.streams[&stream];
        assert_eq!((seen.reset, seen.finished), (Some(0x102), false));
        assert!(source.is_returned());
    }
}

#[test]
fn a_client_that_leaves_has_the_source_dropped_before_its_handler_learns_of_it() {
    let (mut bench, (stream, _), source) = begin(LENGTH, 0..LENGTH, true);
    bench.pair.step();
    assert!(!source.is_returned());
    bench.pair.stop(stream);
    bench.pair.settle();
    assert!(source.is_returned());
    let mut messages = std::iter::from_fn(|| next(&mut bench));
    assert!(messages.all(|message| matches!(message, ToHandler::Cancel)));
    assert!(bench.pair.session.is_idle());
}

#[test]
fn no_more_is_read_than_a_block_ahead_of_the_stream() {
    let (mut bench, (stream, _), source) = begin(LENGTH, 0..LENGTH, true);
    // The client acknowledges nothing, and the window takes less than the file.
    for _ in 0..10 {
        bench.pair.turn();
    }
    let read = source.read.load(Ordering::SeqCst);
    let sent = bench.pair.server.unsent() as u64;
    assert!(read > 0 && read <= sent + 64 * 1024, "{read} of {sent}");
    bench.pair.settle();
    assert!(bench.pair.streams[&stream].body == counters(LENGTH));
}
