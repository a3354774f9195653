//! Prague: the response to shares of marked packets, and the classic response to losses and to classic queues.

use std::time::Duration;

use sluicegate_cc::{State, Value};

use crate::test_support::wire::Wire;
use crate::test_support::{MTU, init, ms, named, options};

const RTT: Duration = ms(40);

fn wire(name: &str) -> Wire {
    let algorithm = named(name);
    let options = options(&algorithm, &[("slow_start", Value::Choice("standard"))]);
    Wire::new(algorithm.controller(&init(1), &options), RTT)
}

/// Returns a flow of some 100 datagrams whose slow start a mark has ended, with nothing in flight.
fn marked() -> Wire {
    let mut wire = wire("prague");
    while wire.cwnd() < 200 * MTU {
        wire.round();
    }
    round_with_marks(&mut wire, 1);
    wire
}

/// One round trip; of the packets of its first ACK, some are marked.
fn round_with_marks(wire: &mut Wire, marks: u64) {
    wire.fill();
    wire.wait(wire.rtt);
    let first = usize::try_from(marks.max(2)).expect("small");
    wire.event(0, first, marks);
    for _ in 0..wire.packets().div_ceil(2) {
        wire.ack(2);
    }
}

/// Returns the part of the window that one mark takes away.
fn reduction(wire: &mut Wire) -> f64 {
    wire.fill();
    wire.wait(wire.rtt);
    let before = wire.cwnd();
    wire.event(0, 1, 1);
    let after = wire.cwnd();
    wire.ack(usize::MAX);
    1.0 - after as f64 / before as f64
}

#[test]
fn first_mark_halves_the_window_and_ends_slow_start() {
    let mut wire = wire("prague");
    wire.round();
    wire.fill();
    wire.wait(RTT);
    let before = wire.cwnd();
    wire.event(0, 1, 1);
    assert_eq!(wire.cwnd(), before / 2);
    assert_eq!(wire.controller.ssthresh(), Some(before / 2));
    assert_eq!(wire.state(), State::CongestionAvoidance);
}

#[test]
fn window_shrinks_by_half_the_average_share_of_marked_packets() {
    let mut wire = marked();
    let mut alpha = 1.0;
    // The first round had a mark, and slow start's last one as well.
    for round in 0..100 {
        let packets = (wire.cwnd() / MTU) as f64;
        wire.round();
        if round > 0 {
            alpha *= 15.0 / 16.0;
        } else {
            alpha = 15.0 / 16.0 + 1.0 / packets / 16.0;
        }
    }
    let found = reduction(&mut wire);
    assert!((found / (alpha / 2.0) - 1.0).abs() < 0.25, "{found} for {alpha}");
}

/// Has the first of the window's packets come back marked. Returns the windows before and after.
fn mark_one(wire: &mut Wire) -> (u64, u64) {
    wire.fill();
    wire.wait(RTT);
    let before = wire.cwnd();
    wire.event(0, 1, 1);
    let reduced = wire.cwnd();
    assert!(reduced < before);
    (before, reduced)
}

#[test]
fn two_marks_a_round_trip_hold_a_window_of_any_size() {
    for rounds in [50, 400] {
        let mut wire = marked();
        (0..rounds).for_each(|_| wire.round());
        (0..100).for_each(|_| round_with_marks(&mut wire, 2));
        let before = wire.cwnd() as f64;
        (0..100).for_each(|_| round_with_marks(&mut wire, 2));
        let change = wire.cwnd() as f64 / before;
        assert!((change - 1.0).abs() < 0.05, "{change} of {before}");
    }
}

#[test]
fn window_shrinks_once_in_a_round_trip_and_grows_meanwhile() {
    let mut wire = marked();
    let (_, reduced) = mark_one(&mut wire);
    let mut last = reduced;
    for _ in 0..10 {
        wire.event(0, 4, 2);
        assert!(wire.cwnd() > last, "two of four packets are not marked");
        last = wire.cwnd();
    }
    assert!(last - reduced <= MTU, "a datagram a round trip at most");
}

#[test]
fn marked_packets_earn_no_growth() {
    let mut wire = marked();
    let (_, reduced) = mark_one(&mut wire);
    wire.event(0, 4, 4);
    assert_eq!(wire.cwnd(), reduced);
}

#[test]
fn loss_cuts_as_cubic_does_and_covers_the_marks_of_its_round_trip() {
    let mut wire = marked();
    let (before, reduced) = mark_one(&mut wire);
    wire.event(1, 3, 1);
    assert_eq!(wire.state(), State::Recovery);
    // What the marks took away counts.
    let threshold = wire.controller.ssthresh().expect("was cut");
    assert!(threshold <= before * 7 / 10, "{threshold}");
    assert!(threshold <= reduced, "{threshold} after {reduced}");
    assert!(threshold >= before * 4 / 10, "{threshold}");
    wire.event(0, 4, 2);
    assert_eq!(wire.controller.ssthresh(), Some(threshold));
}

#[test]
fn without_marks_the_window_is_that_of_cubic() {
    let [mut prague, mut cubic] = ["prague", "cubic"].map(wire);
    for round in 0..300 {
        for wire in [&mut prague, &mut cubic] {
            wire.fill();
            wire.wait(RTT);
            wire.event(usize::from(round % 60 == 5), 4, 0);
            wire.ack(usize::MAX);
        }
        assert_eq!(prague.cwnd(), cubic.cwnd(), "round {round}");
        assert_eq!(prague.state(), cubic.state(), "round {round}");
    }
}

#[test]
fn short_round_trips_grow_as_slowly_as_long_ones_after_five_hundred() {
    let mut wire = marked();
    wire.rtt = ms(5);
    let growth = |wire: &mut Wire, rounds: u64| {
        let before = wire.cwnd();
        (0..rounds).for_each(|_| wire.round());
        (wire.cwnd() - before) as f64 / (rounds * MTU) as f64
    };
    assert!((growth(&mut wire, 100) - 1.0).abs() < 0.05);
    growth(&mut wire, 450);
    let slow = growth(&mut wire, 250);
    // (5/25)² of a datagram.
    assert!((slow - 0.04).abs() < 0.002, "{slow}");
}

#[test]
fn marks_with_the_delay_of_a_classic_queue_count_as_losses() {
    let mut wire = marked();
    wire.shortest = Some(RTT);
    wire.rtt = ms(46);
    for _ in 0..8 {
        assert_ne!(wire.state(), State::Recovery);
        round_with_marks(&mut wire, 1);
    }
    round_with_marks(&mut wire, 1);
    wire.fill();
    wire.wait(wire.rtt);
    wire.event(0, 1, 1);
    assert_eq!(wire.state(), State::Recovery);
    wire.ack(usize::MAX);
    // The queue is gone: the response becomes scalable again.
    wire.rtt = RTT;
    for _ in 0..9 {
        round_with_marks(&mut wire, 1);
    }
    wire.fill();
    wire.wait(wire.rtt);
    wire.event(0, 1, 1);
    assert_eq!(wire.state(), State::CongestionAvoidance);
}
