//! ECN marks: received ones are reported to the peer, and packets are marked on paths that keep the marks (RFC 9000 §13.4).

mod fixture;

use std::net::SocketAddr;
use std::time::Duration;

use quiche::cc::Factory;
use quiche::{Ecn, EcnFailure, EcnStats};
use sluicegate_test_support::{builtin, client_address, config, Pair, Trace};

use self::fixture::*;

#[test]
fn packets_are_marked_on_a_path_that_keeps_marks() {
    let mut test = Test::over(kept);
    test.round(50);
    assert_eq!(test.marked, test.sent, "all packets");
    let stats = test.stats();
    assert_eq!((stats.capable, stats.failed, stats.ce_reported), (1, 0, 0));
    let counted = COUNTED.take();
    let ect0: u64 = counted.iter().map(|counts| counts.ect0).sum();
    // A coalesced datagram of the handshake has several packets.
    assert!(ect0 >= test.marked as u64, "{ect0} of {}", test.marked);
    assert!(counted.iter().all(|counts| counts.ce == 0 && counts.ect1 == 0));
}

/// The peer may yet count the mark of before, which would end the validation of another one.
#[test]
fn packets_lose_their_mark_where_another_algorithm_needs_another_one() {
    let mut test = Test::over(kept);
    for (name, is_marked) in [("cubic", true), ("prague", false), ("cubic", false)] {
        let next = builtin(name);
        let factory = Factory::new(next, next.defaults());
        assert!(test.pair.server.switch_controller(factory));
        let (sent, marked) = (test.sent, test.marked);
        test.round(20);
        let expected = if is_marked { test.sent - sent } else { 0 };
        assert_eq!(test.marked - marked, expected, "{name}");
    }
    assert_eq!(test.stats().failed, 0);
}

/// ECT(1) promises a scalable response (RFC 9331 §4.1), on a path that the client left and returns to as well.
#[test]
fn all_paths_lose_their_mark_where_another_algorithm_needs_another_one() {
    let mut test = Test::scalable_over(kept);
    assert!(test.marks());
    test.move_to(SocketAddr::from(([127, 0, 0, 2], 1234)));
    assert!(test.marks());
    let next = builtin("cubic");
    assert!(test.pair.server.switch_controller(Factory::new(next, next.defaults())));
    assert!(!test.marks());
    COUNTED.take();
    test.move_to(client_address());
    assert!(!test.marks());
    test.round(50);
    assert!(COUNTED.take().is_empty(), "the former controller is gone");
    assert_eq!(test.pair.server.path_stats().count(), 2);
}

#[test]
fn nothing_is_marked_unless_enabled() {
    let mut test = Test::begun(false, kept).settled();
    test.round(50);
    assert_eq!(test.marked, 0);
    assert_eq!(test.stats(), EcnStats::default());
}

#[test]
fn received_marks_are_counted_by_packet_and_reported() {
    let (mut client, mut server) = (config(WINDOW), config(WINDOW));
    let mut pair = Pair::connect(&mut client, &mut server);
    let trace = Trace::of(&mut pair.client);
    let marks = [Ecn::Ect0, Ecn::CongestionExperienced, Ecn::NotCapable, Ecn::Ect1, Ecn::Ect0];
    pair.client.stream_send(0, &[7; 4500], true).expect("data");
    let sent = emit(&mut pair.client);
    assert_eq!(sent.len(), 4, "{sent:?}");
    for ((datagram, info, _), mark) in sent.into_iter().zip(marks) {
        let marked = (datagram, info, mark);
        deliver(&mut pair.server, &marked);
        // A copy counts once.
        let _ = pair.server.recv_with_ecn(&mut marked.0.clone(), info, mark);
    }
    pair.settle();
    assert_eq!(pair.server.ecn_stats().ce_received, 1);
    let text = trace.text();
    assert!(text.contains(r#""ect1":1,"ect0":1,"ce":1"#), "{text}");
}

#[test]
fn ack_frames_have_no_counts_before_a_mark_is_seen() {
    let (mut client, mut server) = (config(WINDOW), config(WINDOW));
    let mut pair = Pair::connect(&mut client, &mut server);
    let trace = Trace::of(&mut pair.client);
    pair.client.stream_send(0, b"data", true).expect("data");
    pair.settle();
    let text = trace.text();
    assert!(text.contains("acked_ranges") && !text.contains("ect0"), "{text}");
}

#[test]
fn path_that_clears_all_marks_fails() {
    let mut test = Test::over(|_, _| Some(Ecn::NotCapable));
    let stats = test.stats();
    assert_eq!((stats.capable, stats.failed), (0, 1));
    assert_eq!(stats.failure, Some(EcnFailure::NoCounts));
    assert!(!test.marks());
}

#[test]
fn path_that_begins_to_clear_marks_fails() {
    let mut test =
        Test::over(|number, mark| Some(if number < 20 { mark } else { Ecn::NotCapable }));
    test.round(10);
    assert_eq!((test.stats().capable, test.stats().failed), (1, 0));
    test.round(30);
    let stats = test.stats();
    assert_eq!((stats.capable, stats.failed), (1, 1));
    assert_eq!(stats.failure, Some(EcnFailure::Cleared));
    assert!(!test.marks());
}

#[test]
fn path_that_changes_marks_fails() {
    let to_ect1 = Test::over(|_, _| Some(Ecn::Ect1));
    let to_ect0 = Test::scalable_over(|_, _| Some(Ecn::Ect0));
    for mut test in [to_ect1, to_ect0] {
        assert_eq!(test.stats().failure, Some(EcnFailure::Changed));
        assert!(!test.marks());
    }
}

#[test]
fn packets_of_a_scalable_algorithm_are_marked_ect1() {
    let mut test = Test::scalable_over(|_, mark| (mark != Ecn::Ect0).then_some(mark));
    test.round(50);
    assert_eq!(test.marked, test.sent, "all packets");
    let stats = test.stats();
    assert_eq!((stats.capable, stats.failed), (1, 0));
    let counted = COUNTED.take();
    let ect1: u64 = counted.iter().map(|counts| counts.ect1).sum();
    assert!(ect1 >= test.marked as u64, "{ect1} of {}", test.marked);
    assert!(counted.iter().all(|counts| counts.ect0 == 0));
}

#[test]
fn path_that_marks_all_first_packets_as_congested_fails() {
    let mut test = Test::over(|_, mark| Some(congested(mark)));
    test.round(20);
    assert_eq!(test.stats().failure, Some(EcnFailure::AllCongested));
    assert!(!test.marks());
    // The window grows as if there were no marks.
    let before = test.window();
    for _ in 0..5 {
        test.round(before / 1000 - 1);
    }
    assert!(test.window() > before);
}

#[test]
fn queue_of_l4s_that_marks_the_first_flight_does_not_fail() {
    let all_congested = || Test::scalable_over(|_, mark| Some(congested(mark)));
    let mut test = all_congested();
    test.round(12);
    test.path = kept;
    (0..5).for_each(|_| test.round(1));
    let stats = test.stats();
    assert_eq!((stats.capable, stats.failed), (1, 0));
    assert!(test.marks());
    let mut test = all_congested();
    (0..3).for_each(|_| test.round(1));
    assert_eq!(test.stats().failed, 0, "three round trips");
    (0..7).for_each(|_| test.round(1));
    assert_eq!(test.stats().failure, Some(EcnFailure::AllCongested));
    assert!(!test.marks());
}

#[test]
fn path_that_drops_marked_packets_stays_usable() {
    let mut test = Test::begun(true, |_, mark| (mark == Ecn::NotCapable).then_some(mark));
    for _ in 0..20 {
        test.settle();
        test.pair.pass(Duration::from_secs(2));
    }
    let mut test = test.settled();
    for _ in 0..10 {
        test.round(2);
        test.pair.pass(Duration::from_secs(2));
        test.settle();
    }
    assert!(test.marked <= 12, "{} marked", test.marked);
    for _ in 0..10 {
        test.round(2);
        assert!(!test.pair.server.has_unacked(), "arrived within a round trip");
    }
    assert_eq!((test.stats().capable, test.stats().failed), (0, 0));
}

#[test]
fn congestion_experienced_reduces_the_window_once_a_round_trip() {
    let mut test = Test::over(|number, mark| {
        let congested = (100..103).contains(&number);
        Some(if congested { Ecn::CongestionExperienced } else { mark })
    });
    while test.sent < 90 {
        test.round(10);
    }
    let before = test.window();
    COUNTED.take();
    // All three in one round trip, acknowledged one by one.
    let data = [7; 20_000];
    test.pair.server.stream_send(1, &data, false).expect("data");
    for datagram in emit(&mut test.pair.server) {
        let mark = (test.path)(test.sent, datagram.2).expect("kept");
        test.sent += 1;
        test.pair.pass(Duration::from_millis(1));
        deliver(&mut test.pair.client, &(datagram.0, datagram.1, mark));
        for ack in emit(&mut test.pair.client) {
            deliver(&mut test.pair.server, &ack);
        }
    }
    assert_eq!(test.stats().ce_reported, 3);
    let counted = COUNTED.take();
    let ce: Vec<u64> = counted.iter().map(|counts| counts.ce).filter(|ce| *ce > 0).collect();
    assert_eq!(ce, [1, 1, 1]);
    let after = test.window();
    // Reno's half; the packets behind the marked ones let it grow a little.
    assert!(after < before * 6 / 10 && after >= before / 2, "{before} to {after}");
    assert!(test.marks(), "the path is still capable");
}

#[test]
fn one_frame_for_packets_of_two_paths_reports_congestion_on_one() {
    let mut test = Test::over(kept);
    test.round(50);
    COUNTED.take();
    let pair = &mut test.pair;
    let data = [7; 10_000];
    pair.server.stream_send(1, &data, false).expect("data");
    let mut sent = emit(&mut pair.server);
    assert!(sent.len() > 5);
    sent[2..5].iter_mut().for_each(|(_, _, mark)| *mark = Ecn::CongestionExperienced);
    // The client's address changes while they are on their way, and the server sends to the new one.
    pair.client_at = SocketAddr::from(([127, 0, 0, 2], 1234));
    pair.client.send_ack_eliciting().expect("established");
    for (datagram, ..) in emit(&mut pair.client) {
        pair.server_receives(&datagram);
    }
    pair.server.stream_send(1, &data, false).expect("data");
    let to_new = emit(&mut pair.server);
    assert!(to_new.iter().all(|(_, info, mark)| info.to == pair.client_at && *mark == Ecn::Ect0));
    sent.extend(to_new);
    for (datagram, mut info, mark) in sent {
        info.to = client_address();
        deliver(&mut pair.client, &(datagram, info, mark));
    }
    for (datagram, ..) in emit(&mut pair.client) {
        pair.server_receives(&datagram);
    }
    let ce: u64 = COUNTED.take().iter().map(|counts| counts.ce).sum();
    assert_eq!((ce, test.stats().ce_reported), (3, 3));
    assert_eq!((test.stats().capable, test.stats().failed), (2, 0));
}

#[test]
fn acknowledgements_out_of_order_do_not_fail_validation() {
    let mut test = Test::over(kept);
    for _ in 0..5 {
        test.pair.server.stream_send(1, &[7; 10_000], false).expect("data");
        let mut acks = Vec::new();
        for datagram in emit(&mut test.pair.server) {
            deliver(&mut test.pair.client, &datagram);
            acks.extend(emit(&mut test.pair.client));
        }
        test.pair.pass(STEP);
        for ack in acks.iter().rev() {
            deliver(&mut test.pair.server, ack);
        }
    }
    assert_eq!((test.stats().capable, test.stats().failed), (1, 0));
    assert!(test.marks());
}

#[test]
fn validation_is_traced() {
    let mut test =
        Test::begun(true, |number, mark| Some(if number < 20 { mark } else { Ecn::NotCapable }));
    let trace = Trace::of(&mut test.pair.server);
    let mut test = test.settled();
    test.round(30);
    let text = trace.text();
    assert!(text.contains("ecn_state_updated"), "{text}");
    assert!(text.contains(r#""new":"capable""#) && text.contains(r#""new":"failed""#), "{text}");
}
