//! Each rule alone, and all of them under messages and events in any order.

mod causes;
mod orders;

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use sluicegate_base::clock;

use super::*;
use crate::exchange::lent::test_source::Source;
use crate::exchange::test_front::{head, request, tunnel};

/// Most bytes that a body may have here.
const LIMIT: u64 = 1000;
/// Credit for a body at first.
const CREDIT: u64 = 4096;

fn fields() -> Fields {
    vec![(HeaderName::from_static("x-sum"), HeaderValue::from_static("9"))]
}

/// Returns the exchange of a request with a body, which a handler works on.
fn handed_over(method: &str, content_length: Option<u64>) -> FrontExchange {
    let mut exchange = FrontExchange::new(method == "HEAD", clock::now());
    exchange.prepare(&request(head(method, "/", &[]), content_length, true), LIMIT, CREDIT);
    exchange.hand_over(true, Wait::Application);
    exchange
}

fn of_status(status: u16, length: Option<u64>, end: bool) -> ToFront {
    ToFront::Head(Head { status, fields: Vec::new(), length, end })
}

/// Returns an exchange whose response has begun.
fn begun(length: Option<u64>) -> FrontExchange {
    let mut exchange = handed_over("POST", None);
    let action = exchange.on_message(of_status(200, length, false));
    assert!(matches!(action, FrontAction::Begin(Head { end: false, .. })));
    exchange
}

fn data(text: &'static str) -> ToFront {
    ToFront::Data(Bytes::from_static(text.as_bytes()))
}

/// Takes what waits of the body, and describes it.
fn take(exchange: &mut FrontExchange) -> String {
    let mut seen = String::new();
    loop {
        let (count, is_last) = match exchange.next_part() {
            Next::Block(block, is_last) => {
                let block = std::mem::take(block);
                seen += std::str::from_utf8(&block).unwrap();
                (block.len() as u64, is_last)
            }
            Next::End(trailers) => {
                seen += if trailers.is_some() { " trailers" } else { " end" };
                exchange.complete();
                return seen;
            }
            Next::Wait => return seen + " wait",
            Next::WrongLength => return seen + " wrong length",
            Next::Cut => return seen + " cut",
        };
        exchange.on_taken(count);
        if is_last {
            exchange.complete();
            return seen + " last";
        }
    }
}

#[test]
fn a_response_is_taken_in_order_and_once() {
    let mut exchange = handed_over("GET", None);
    assert!(matches!(
        exchange.on_message(ToFront::Interim(103, fields())),
        FrontAction::Inform(103, _)
    ));
    assert_eq!(exchange.take_credit(0), Some(cost(6)));
    assert!(!exchange.has_head());
    // What came before the head would wait for it.
    assert!(matches!(exchange.on_message(data("one ")), FrontAction::GoOn));
    assert_eq!(take(&mut exchange), " wait");
    assert!(matches!(exchange.on_message(of_status(200, Some(7), false)), FrontAction::Begin(_)));
    assert!(matches!(exchange.on_message(of_status(201, None, true)), FrontAction::Nothing));
    assert!(matches!(exchange.on_message(ToFront::Interim(103, fields())), FrontAction::Nothing));
    assert!(matches!(exchange.on_message(data("two")), FrontAction::GoOn));
    assert_eq!(take(&mut exchange), "one two wait");
    assert_eq!(exchange.take_credit(0), Some(cost(6) + cost(4) + cost(3)));
    assert!(matches!(exchange.on_message(ToFront::End(Some(fields()))), FrontAction::GoOn));
    assert_eq!(take(&mut exchange), " trailers");
    assert_eq!((exchange.end(), exchange.end()), (Some(Outcome::Complete), None));
}

#[test]
fn the_end_goes_with_the_last_block_unless_trailers_follow() {
    for (length, trailers, expected) in [
        (None, None, "text last"),
        (Some(4), None, "text last"),
        (Some(4), Some(Fields::new()), "text last"),
        (Some(4), Some(fields()), "text trailers"),
    ] {
        let mut exchange = begun(length);
        exchange.on_message(data("text"));
        exchange.on_message(ToFront::End(trailers));
        assert_eq!(take(&mut exchange), expected, "{length:?}");
    }
}

#[test]
fn a_body_of_another_length_than_the_head_says_cuts_the_response() {
    for (length, text, expected) in
        [(Some(5), "text", "text wrong length"), (Some(3), "text", " wrong length")]
    {
        let mut exchange = begun(length);
        exchange.on_message(data(text));
        exchange.on_message(ToFront::End(None));
        assert_eq!(take(&mut exchange), expected);
        assert_eq!(take(&mut exchange), " cut");
        assert!(!exchange.has_handler);
        assert_eq!(exchange.end(), Some(Outcome::Reset));
    }
}

#[test]
fn responses_without_content_end_with_their_head() {
    for (method, status) in [("HEAD", 200), ("GET", 204), ("GET", 304)] {
        let mut exchange = handed_over(method, None);
        let action = exchange.on_message(of_status(status, Some(10), false));
        let FrontAction::Begin(begun) = action else { panic!("{action:?}") };
        assert!(begun.end && begun.length == Some(10) && exchange.is_bare());
        // The handler may say so, too, but not go on.
        let mut other = handed_over(method, None);
        other.on_message(of_status(status, Some(10), false));
        assert!(matches!(other.on_message(ToFront::End(None)), FrontAction::Nothing));
        assert!(matches!(exchange.on_message(data("text")), FrontAction::Cancel));
        assert!(!exchange.has_handler);
        assert_eq!(take(&mut exchange), " end");
    }
}

#[test]
fn a_handler_that_goes_on_behind_the_end_is_cancelled_and_the_response_is_whole() {
    let mut exchange = begun(None);
    exchange.on_message(data("text"));
    exchange.on_message(ToFront::End(None));
    assert!(matches!(exchange.on_message(data("more")), FrontAction::Cancel));
    assert!(matches!(exchange.on_message(ToFront::Abort(502)), FrontAction::Nothing));
    assert_eq!(take(&mut exchange), "text last");
    // HTTP/1.1 asks for nothing behind the length.
    let mut exchange = begun(Some(4));
    exchange.on_message(data("text"));
    take(&mut exchange);
    exchange.complete();
    assert!(matches!(exchange.on_message(data("more")), FrontAction::Cancel));
    assert_eq!(exchange.end(), Some(Outcome::Complete));
}

#[test]
fn a_handler_that_fails_or_is_lost_gets_a_reply_or_a_reset_in_its_place() {
    for (message, status) in [(ToFront::Abort(504), 504), (ToFront::Closed, 502)] {
        let mut exchange = handed_over("GET", None);
        let action = exchange.on_message(message);
        assert!(
            matches!(action, FrontAction::Fail(s, Instead::Reply) if s == status),
            "{action:?}"
        );
        assert!(exchange.is_own() && !exchange.has_handler);
        exchange.complete();
        assert_eq!(exchange.end(), Some(Outcome::Complete));
    }
    for message in [ToFront::Abort(502), ToFront::Closed] {
        let mut exchange = begun(None);
        exchange.on_message(data("text"));
        let action = exchange.on_message(message);
        assert!(matches!(action, FrontAction::Fail(502, Instead::Reset)), "{action:?}");
        assert_eq!(take(&mut exchange), " cut");
        assert_eq!(exchange.end(), Some(Outcome::Reset));
    }
    let mut exchange = begun(None);
    exchange.on_message(ToFront::End(None));
    assert!(matches!(exchange.on_message(ToFront::Closed), FrontAction::LeaveBody));
    assert_eq!(take(&mut exchange), " end");
}

/// Stages in which an exchange is ended.
const STAGES: [&str; 5] = ["discarded", "awaited", "begun", "ended", "taken"];

fn at(stage: &str) -> FrontExchange {
    let mut exchange = match stage {
        "discarded" => FrontExchange::new(false, clock::now()),
        "awaited" => handed_over("POST", None),
        _ => begun(None),
    };
    match stage {
        "discarded" => exchange.discard(None, LIMIT),
        "ended" => {
            exchange.on_message(data("text"));
            exchange.on_message(ToFront::End(None));
        }
        "taken" => {
            exchange.on_message(ToFront::End(None));
        }
        _ => {}
    }
    if stage == "taken" {
        exchange.complete();
    }
    exchange
}

#[test]
fn who_ends_an_exchange_decides_what_its_client_gets() {
    use Instead::{Nothing, Reply, Reset};
    type End = fn(&mut FrontExchange) -> Instead;
    let ways: [(End, Outcome, [Instead; 5]); 3] = [
        (FrontExchange::refuse, Outcome::Reset, [Reply, Reply, Reset, Nothing, Nothing]),
        (FrontExchange::revoke, Outcome::Reset, [Reply, Reply, Reset, Reset, Nothing]),
        (FrontExchange::stall, Outcome::Stalled, [Reply, Reply, Reset, Reset, Reset]),
    ];
    for (end, outcome, expected) in ways {
        for (stage, expected) in STAGES.into_iter().zip(expected) {
            let mut exchange = at(stage);
            assert_eq!(end(&mut exchange), expected, "{stage} {outcome:?}");
            assert!(!exchange.has_handler);
            assert!(matches!(exchange.on_message(data("late")), FrontAction::Nothing));
            // The reply, or what is left of the response.
            exchange.complete();
            let expected = if expected == Reset { outcome } else { Outcome::Complete };
            assert_eq!(exchange.end(), Some(expected), "{stage}");
        }
    }
    for stage in STAGES {
        let [mut lost, mut cut] = [at(stage), at(stage)];
        cut.cut(Outcome::Cancelled);
        let expected = if stage == "taken" { Outcome::Complete } else { Outcome::Cancelled };
        assert_eq!((lost.end(), cut.end()), (Some(expected), Some(expected)), "{stage}");
    }
}

#[test]
fn a_reply_for_a_stalled_body_that_stalls_itself_is_a_stall() {
    let mut exchange = handed_over("POST", None);
    assert_eq!(exchange.stall(), Instead::Reply);
    assert_eq!(exchange.stall(), Instead::Reset);
    assert_eq!(exchange.end(), Some(Outcome::Stalled));
}

#[test]
fn a_body_keeps_to_its_length_and_its_limit() {
    use Received::{Accepted, Malformed, TooLarge, Unneeded};
    let mut exchange = handed_over("POST", Some(5));
    assert_eq!((exchange.on_data(5), exchange.on_data(1)), (Accepted, Malformed));
    let mut exchange = handed_over("POST", None);
    assert_eq!((exchange.on_data(1000), exchange.on_data(1)), (Accepted, TooLarge));
    for discards in [true, false] {
        for (sent, expected) in [(4, Malformed), (5, Accepted)] {
            let mut exchange = handed_over("POST", Some(5));
            if discards {
                exchange = FrontExchange::new(false, clock::now());
                exchange.discard(Some(5), LIMIT);
            }
            exchange.on_data(sent);
            assert_eq!(exchange.on_end(), expected);
            assert_eq!(exchange.is_own(), discards && expected == Accepted);
            assert_eq!(exchange.on_end(), Unneeded);
            assert_eq!(exchange.on_data(1), Unneeded);
        }
    }
}

#[test]
fn a_body_is_passed_on_as_far_as_its_credit_goes() {
    let mut exchange = handed_over("POST", None);
    let most = CREDIT - cost(0);
    assert_eq!(exchange.room(), most);
    exchange.on_data(900);
    assert_eq!(exchange.room(), CREDIT - cost(900) - cost(0));
    assert!(matches!(exchange.on_message(ToFront::Credit(cost(900))), FrontAction::ReadOn));
    assert_eq!(exchange.room(), most);
    // A block larger than the credit is paid for later.
    let mut exchange = handed_over("POST", None);
    exchange.limit = u64::MAX;
    exchange.on_data(2 * most);
    exchange.on_message(ToFront::Credit(CREDIT));
    assert_eq!(exchange.room(), 0);
    exchange.on_message(ToFront::Credit(CREDIT));
    assert!(exchange.room() > 0);
}

#[test]
fn a_body_is_left_once() {
    let mut exchange = handed_over("POST", None);
    assert!(matches!(exchange.on_message(ToFront::StopBody), FrontAction::LeaveBody));
    assert!(exchange.leave_body() && !exchange.passes() && !exchange.is_over());
    assert!(matches!(exchange.on_message(ToFront::StopBody), FrontAction::Nothing));
    assert!(!exchange.leave_body());
    exchange.on_message(of_status(200, None, true));
    exchange.complete();
    assert!(exchange.is_over());
    assert!(FrontExchange::new(false, clock::now()).leave_body());
}

#[test]
fn a_tunnel_is_open_from_its_head_to_the_end_of_its_handler() {
    for (status, end, opens) in [(200, false, true), (403, false, false), (200, true, false)] {
        let mut exchange = FrontExchange::new(false, clock::now());
        exchange.prepare(&request(tunnel(None), Some(0), true), u64::MAX, CREDIT);
        exchange.hand_over(true, Wait::Application);
        assert_eq!(exchange.on_data(1), Received::Accepted);
        exchange.on_message(of_status(status, None, end));
        assert_eq!((exchange.is_tunnel(), exchange.has_tunnel()), (opens, opens), "{status}");
        exchange.on_message(ToFront::End(None));
        exchange.on_message(ToFront::Closed);
        assert_eq!((exchange.is_tunnel(), exchange.has_tunnel()), (opens, false));
    }
}

#[test]
fn facts_for_the_log_count_whoever_responds() {
    let mut exchange = handed_over("GET", None);
    exchange.refuse();
    let report = Box::new(HandlerReport { attempts: 1, ..HandlerReport::default() });
    assert!(matches!(exchange.on_message(ToFront::Report(report)), FrontAction::Report(_)));
    assert!(matches!(exchange.on_message(ToFront::Credit(1)), FrontAction::Nothing));
}

#[test]
fn lent_ranges_take_no_credit_and_go_back_once() {
    let mut exchange = begun(Some(10));
    exchange.on_message(data("01"));
    let source = Source::new(b"0123456789", 8);
    exchange.on_message(ToFront::Range(Box::new(source.lend(2..10, true))));
    // Of the eight bytes, all are asked for at once, and not all are in memory.
    assert_eq!(take(&mut exchange), "01 wait");
    assert_eq!((exchange.take_range_read(), exchange.take_range_read()), (Some(0), None));
    assert_eq!(exchange.take_credit(0), Some(cost(2)));
    exchange.on_message(ToFront::Range(Box::new(source.lend(2..8, false))));
    assert!(!exchange.take_range_moved());
    assert_eq!(take(&mut exchange), "234567 wait");
    assert!(exchange.take_range_moved() && !exchange.take_range_moved());
    assert_eq!((exchange.take_range_read(), exchange.take_credit(0)), (Some(6), None));
    source.cached.store(10, std::sync::atomic::Ordering::SeqCst);
    exchange.on_message(ToFront::Range(Box::new(source.lend(8..10, true))));
    assert_eq!(take(&mut exchange), "89 last");
}

#[test]
fn credit_goes_back_in_batches_or_before_the_handler_has_to_wait() {
    let mut exchange = begun(None);
    exchange.on_message(data("one"));
    exchange.on_message(data("two"));
    let Next::Block(block, false) = exchange.next_part() else { panic!("no block") };
    let _ = block.split_to(2);
    exchange.on_taken(2);
    assert_eq!(exchange.take_credit(0), None);
    let Next::Block(block, false) = exchange.next_part() else { panic!("no block") };
    let _ = block.split_to(1);
    exchange.on_taken(1);
    assert_eq!(exchange.take_credit(1000), None);
    take(&mut exchange);
    assert_eq!(exchange.take_credit(1000), Some(2 * cost(3)));
}

/// HTTP/1.1 is done with the bytes that the head has announced.
#[test]
fn end_behind_a_response_that_was_taken_leaves_the_handler_at_work() {
    let mut exchange = begun(Some(3));
    assert!(matches!(exchange.on_message(data("abc")), FrontAction::GoOn));
    let Next::Block(block, _) = exchange.next_part() else { panic!("a block waits") };
    let count = std::mem::take(block).len() as u64;
    exchange.on_taken(count);
    exchange.complete();
    assert!(matches!(exchange.on_message(ToFront::End(None)), FrontAction::Nothing));
    assert!(exchange.passes(), "it still gets the request's body");
    assert!(matches!(exchange.on_message(ToFront::Credit(5)), FrontAction::ReadOn));
    assert!(matches!(exchange.on_message(ToFront::Closed), FrontAction::LeaveBody));
}

#[test]
fn more_than_a_response_that_was_taken_cancels_the_handler() {
    let mut exchange = begun(Some(0));
    exchange.complete();
    assert!(matches!(exchange.on_message(data("x")), FrontAction::Cancel));
}

#[test]
fn memory_is_taken_from_responses_that_hold_some() {
    let mut exchange = handed_over("GET", None);
    exchange.on_message(of_status(200, Some(0), true));
    assert_eq!(exchange.revoke(), Instead::Nothing);
    let mut exchange = begun(None);
    assert_eq!(exchange.revoke(), Instead::Reset);
}
