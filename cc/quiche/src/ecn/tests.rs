//! Tests of the rules of RFC 9000 §13.4.2.
//!
//! The build script places this file at `ecn/tests.rs` of the patched source.

use super::*;

fn counts(ect0: u64, ect1: u64, ce: u64) -> Option<EcnCounts> {
    Some(EcnCounts {
        ect0_count: ect0,
        ect1_count: ect1,
        ecn_ce_count: ce,
    })
}

/// A space in which ten packets were marked, of which the peer has counted six.
fn space() -> EcnSpace {
    let mut space = EcnSpace::default();
    (0..10).for_each(|_| space.on_marked(Ecn::Ect0));
    assert_eq!(space.on_ack(7, counts(4, 0, 2)), EcnReport::Increase { ect: 4, ce: 2 });
    space
}

#[test]
fn bits_are_those_of_the_ip_header() {
    for bits in 0..4 {
        assert_eq!(Ecn::from_bits(0b1010_1000 | bits).bits(), bits);
    }
}

#[test]
fn counts_are_reported_from_the_first_mark_on() {
    let mut space = EcnSpace::default();
    space.on_received(Ecn::NotCapable);
    assert_eq!(space.counts(), None);
    [Ecn::Ect0, Ecn::Ect0, Ecn::CongestionExperienced].map(|mark| space.on_received(mark));
    assert_eq!(space.counts(), counts(2, 0, 1));
    space.on_received(Ecn::NotCapable);
    assert_eq!(space.counts(), counts(2, 0, 1));
}

#[test]
fn frame_that_acknowledges_nothing_larger_is_not_evaluated() {
    let mut space = space();
    assert_eq!(space.on_ack(7, counts(1, 1, 1)), EcnReport::Outdated);
    assert_eq!(space.on_ack(6, None), EcnReport::Outdated);
    assert_eq!(space.on_ack(8, counts(5, 0, 2)), EcnReport::Increase { ect: 1, ce: 0 });
}

#[test]
fn count_that_falls_is_wrong() {
    for less in [counts(3, 0, 3), counts(5, 0, 1)] {
        assert_eq!(space().on_ack(8, less), EcnReport::Wrong(EcnFailure::Decreased));
    }
}

#[test]
fn mark_that_was_never_sent_is_wrong() {
    assert_eq!(space().on_ack(8, counts(5, 1, 2)), EcnReport::Wrong(EcnFailure::Changed));
}

#[test]
fn counts_of_ect1_are_those_of_a_sender_of_ect1() {
    let mut space = EcnSpace::default();
    (0..10).for_each(|_| space.on_marked(Ecn::Ect1));
    assert_eq!(space.on_ack(7, counts(0, 4, 2)), EcnReport::Increase { ect: 4, ce: 2 });
    let mut more = space;
    assert_eq!(more.on_ack(8, counts(0, 9, 2)), EcnReport::Wrong(EcnFailure::TooMany));
    assert_eq!(space.on_ack(8, counts(1, 5, 2)), EcnReport::Wrong(EcnFailure::Changed));
}

#[test]
fn more_counts_than_marks_are_wrong() {
    assert_eq!(space().on_ack(8, counts(8, 0, 2)), EcnReport::Increase { ect: 4, ce: 0 });
    for more in [counts(9, 0, 2), counts(5, 0, 6), counts(u64::MAX, 0, 9)] {
        assert_eq!(space().on_ack(8, more), EcnReport::Wrong(EcnFailure::TooMany));
    }
}

fn failure(path: &mut EcnPath) -> Option<EcnFailure> {
    match path.take_outcome().changed {
        Some(EcnState::Failed(failure)) => Some(failure),
        _ => None,
    }
}

/// Begins a datagram and returns whether it is marked.
fn marks(path: &mut EcnPath, is_probe: bool) -> bool {
    path.begin_datagram(is_probe) != Ecn::NotCapable
}

/// Sends a datagram of one packet, numbered by the marked ones before it, and returns whether it is marked.
fn sends(path: &mut EcnPath) -> bool {
    marks(path, false) && path.on_packet_sent(path.sent)
}

fn acked(packets: &[(u64, bool)]) -> EcnAcked {
    let mut acked = EcnAcked::default();
    packets.iter().for_each(|&(number, is_marked)| acked.add(number, is_marked));
    acked
}

/// The marked packets with these numbers.
fn marked(numbers: std::ops::Range<u64>) -> EcnAcked {
    acked(&numbers.map(|number| (number, true)).collect::<Vec<_>>())
}

/// The first marked packets of a path.
fn first(count: u64) -> EcnAcked {
    marked(0..count)
}

#[test]
fn datagram_gets_the_mark_of_its_path() {
    for mark in [Ecn::Ect0, Ecn::Ect1] {
        assert_eq!(EcnPath::new(mark).begin_datagram(false), mark);
    }
}

#[test]
fn ten_packets_are_marked_until_one_is_counted() {
    let mut path = EcnPath::new(Ecn::Ect0);
    for _ in 0..TEST_PACKETS {
        assert!(sends(&mut path));
    }
    assert!(!sends(&mut path));
    assert_eq!(path.on_ack(EcnReport::Increase { ect: 1, ce: 0 }, EcnShare::ALL, first(1)), (1, 0));
    assert_eq!(path.take_outcome().changed, Some(EcnState::Capable));
    assert!(sends(&mut path));
}

#[test]
fn packets_of_a_datagram_are_marked_alike() {
    let mut path = EcnPath::new(Ecn::Ect0);
    for _ in 1..TEST_PACKETS {
        sends(&mut path);
    }
    assert!(marks(&mut path, false));
    assert!((10..13).all(|number| path.on_packet_sent(number)));
    assert!(!marks(&mut path, false));
}

#[test]
fn probe_after_a_timeout_is_not_marked() {
    let mut path = EcnPath::new(Ecn::Ect0);
    assert!(!marks(&mut path, true) && !path.on_packet_sent(0));
    assert!(marks(&mut path, false));
}

#[test]
fn fewer_counts_than_acknowledged_marks_fail_the_path() {
    let mut path = EcnPath::new(Ecn::Ect0);
    assert_eq!(path.on_ack(EcnReport::Increase { ect: 2, ce: 1 }, EcnShare::ALL, first(3)), (2, 1));
    assert_eq!(path.on_ack(EcnReport::Increase { ect: 1, ce: 1 }, EcnShare::ALL, first(3)), (0, 0));
    assert_eq!(failure(&mut path), Some(EcnFailure::Cleared));
    assert!(!marks(&mut path, false));
    assert_eq!(path.on_ack(EcnReport::Increase { ect: 9, ce: 9 }, EcnShare::ALL, first(3)), (0, 0), "for good");
}

#[test]
fn frame_without_counts_fails_the_path_only_if_it_acknowledges_marks() {
    let mut path = EcnPath::new(Ecn::Ect0);
    assert_eq!(path.on_ack(EcnReport::NoCounts, EcnShare::ALL, first(0)), (0, 0));
    assert_eq!(failure(&mut path), None);
    assert_eq!(path.on_ack(EcnReport::NoCounts, EcnShare::ALL, first(1)), (0, 0));
    assert_eq!(failure(&mut path), Some(EcnFailure::NoCounts));
}

#[test]
fn test_whose_every_packet_met_congestion_fails_the_path() {
    let mut path = EcnPath::new(Ecn::Ect0);
    assert_eq!(path.on_ack(EcnReport::Increase { ect: 0, ce: 6 }, EcnShare::ALL, first(6)), (0, 6));
    assert_eq!(path.on_ack(EcnReport::Increase { ect: 0, ce: 4 }, EcnShare::ALL, first(4)), (0, 0));
    assert_eq!(failure(&mut path), Some(EcnFailure::AllCongested));
    let mut path = EcnPath::new(Ecn::Ect0);
    assert_eq!(path.on_ack(EcnReport::Increase { ect: 1, ce: 9 }, EcnShare::ALL, first(10)), (1, 9));
    assert_eq!(path.on_ack(EcnReport::Increase { ect: 0, ce: 50 }, EcnShare::ALL, first(50)), (0, 50), "later");
    assert_eq!(failure(&mut path), None);
}

/// Sends a flight of which the first packets are lost and all others meet congestion, and acknowledges these.
fn congested_flight(path: &mut EcnPath, packets: u64, lost: u64) {
    let begin = path.sent;
    for _ in 0..packets {
        sends(path);
    }
    let arrived = packets - lost;
    let last = path.sent - 1;
    path.on_ack(EcnReport::Increase { ect: 0, ce: arrived - 1 }, EcnShare::ALL, marked(begin + lost..last));
    path.on_ack(EcnReport::Increase { ect: 0, ce: 1 }, EcnShare::ALL, marked(last..last + 1));
}

#[test]
fn queue_of_l4s_may_mark_every_packet_of_three_round_trips() {
    let mut path = EcnPath::new(Ecn::Ect1);
    for packets in [10, 20, 10] {
        congested_flight(&mut path, packets, 0);
        assert_eq!(failure(&mut path), None);
    }
    congested_flight(&mut path, 5, 0);
    assert_eq!(failure(&mut path), Some(EcnFailure::AllCongested));
    let mut path = EcnPath::new(Ecn::Ect1);
    [10, 20, 10].map(|packets| congested_flight(&mut path, packets, 0));
    assert_eq!(path.on_ack(EcnReport::Increase { ect: 1, ce: 0 }, EcnShare::ALL, first(1)), (1, 0));
    [5, 3, 2, 2].map(|packets| congested_flight(&mut path, packets, 0));
    assert_eq!(failure(&mut path), None);
}

#[test]
fn packets_that_are_never_acknowledged_make_no_round_trip_longer() {
    let mut path = EcnPath::new(Ecn::Ect1);
    for packets in [10, 20, 10] {
        congested_flight(&mut path, packets, 4);
        assert_eq!(failure(&mut path), None);
    }
    congested_flight(&mut path, 5, 0);
    assert_eq!(failure(&mut path), Some(EcnFailure::AllCongested));
}

#[test]
fn congestion_of_a_packet_that_is_acknowledged_late_does_not_fail_the_test() {
    let mut path = EcnPath::new(Ecn::Ect0);
    assert_eq!(path.on_ack(EcnReport::Increase { ect: 1, ce: 10 }, EcnShare::ALL, first(10)), (1, 10));
    assert_eq!(failure(&mut path), None);
}

#[test]
fn counts_of_a_frame_are_those_of_the_path_of_the_newest_marked_packet() {
    let first = acked(&[(1, true), (4, true)]);
    let second = acked(&[(2, true), (3, true), (5, false)]);
    let all = first.join(second);
    let shares = [all.share(first), all.share(second)];
    assert_eq!(shares, [EcnShare { others: 2, has_newest: true }, EcnShare { others: 2, has_newest: false }]);
    let report = EcnReport::Increase { ect: 3, ce: 1 };
    let counted = shares.map(|share| EcnPath::new(Ecn::Ect0).on_ack(report, share, marked(0..2)));
    assert_eq!(counted, [(3, 1), (0, 0)]);
}

#[test]
fn counts_must_cover_the_marked_packets_of_all_paths() {
    for (ect, expected) in [(4, None), (3, Some(EcnFailure::Cleared))] {
        let share = EcnShare { others: 2, has_newest: true };
        let mut path = EcnPath::new(Ecn::Ect0);
        path.on_ack(EcnReport::Increase { ect, ce: 0 }, share, first(2));
        assert_eq!(failure(&mut path), expected, "{ect}");
        let mut unmarked = EcnPath::new(Ecn::Ect0);
        unmarked.on_ack(EcnReport::Increase { ect, ce: 0 }, EcnShare { others: 4, has_newest: true }, first(0));
        assert_eq!(failure(&mut unmarked), None, "{ect}: none of its packets");
    }
}

#[test]
fn marks_of_another_path_that_were_kept_count_for_the_test() {
    let mut path = EcnPath::new(Ecn::Ect0);
    let share = EcnShare { others: 3, has_newest: false };
    assert_eq!(path.on_ack(EcnReport::Increase { ect: 3, ce: 10 }, share, first(10)), (0, 0));
    assert_eq!(failure(&mut path), None, "one of the three may be this path's");
}

#[test]
fn path_that_marks_nothing_ignores_counts() {
    let mut path = EcnPath::new(Ecn::NotCapable);
    assert!(!marks(&mut path, false));
    for report in [EcnReport::NoCounts, EcnReport::Wrong(EcnFailure::TooMany), EcnReport::Increase { ect: 1, ce: 1 }] {
        assert_eq!(path.on_ack(report, EcnShare::ALL, first(0)), (0, 0));
        assert_eq!(path.take_outcome(), EcnOutcome::default());
    }
}

/// Sends marked datagrams, and then a probe after a timeout.
fn send_until_timeout(path: &mut EcnPath) {
    for _ in 0..3 {
        sends(path);
    }
    for _ in 0..2 {
        assert!(!marks(path, true), "the probes of one timeout");
    }
}

#[test]
fn path_that_begins_to_drop_marked_packets_fails_at_the_second_timeout() {
    let mut path = EcnPath::new(Ecn::Ect0);
    path.on_ack(EcnReport::Increase { ect: 1, ce: 0 }, EcnShare::ALL, first(1));
    path.take_outcome();
    send_until_timeout(&mut path);
    assert_eq!(failure(&mut path), None, "it may be an outage");
    send_until_timeout(&mut path);
    assert_eq!(failure(&mut path), Some(EcnFailure::Dropped));
    assert!(!marks(&mut path, false));
}

#[test]
fn outages_with_marked_packets_acknowledged_between_them_fail_no_path() {
    let mut path = EcnPath::new(Ecn::Ect0);
    for _ in 0..5 {
        path.on_ack(EcnReport::Increase { ect: 1, ce: 0 }, EcnShare::ALL, first(1));
        path.take_outcome();
        send_until_timeout(&mut path);
        assert_eq!(failure(&mut path), None);
    }
    assert!(marks(&mut path, false));
}

#[test]
fn test_ends_at_the_first_timeout() {
    let mut path = EcnPath::new(Ecn::Ect0);
    send_until_timeout(&mut path);
    assert!(!marks(&mut path, false));
    assert_eq!(failure(&mut path), None);
}
