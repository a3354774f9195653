use std::time::Duration;

use super::*;

const MTU: u64 = 1_200;
const INITIAL_WINDOW: u64 = 10 * MTU;
/// Steps of 5 ms in a round trip of 100 ms.
const STEPS: usize = 20;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn sent(bytes: u64) -> Sent {
    Sent { packet_number: 0, bytes, in_flight_before: MTU, has_data: true }
}

/// A flow whose packets take 100 ms, and the amounts that it sent in each step of 5 ms.
struct Flow {
    search: Search,
    now: Time,
    sent: Vec<u64>,
    cwnd: u64,
}

impl Flow {
    fn new() -> Self {
        Self { search: Search::Waiting, now: Time::ZERO, sent: Vec::new(), cwnd: u64::MAX }
    }

    /// One step: an ACK of `acked` bytes, if there are any, and then `bytes` that leave.
    fn step(&mut self, acked: u64, bytes: u64, rtt: Duration) -> Step {
        self.now = self.now + ms(5);
        let mut step = Step::Continue;
        if acked > 0 {
            step = self.search.on_ack(&Ack {
                now: self.now,
                bytes: acked,
                sample: Some(rtt),
                latest_rtt: rtt,
                new_round: false,
                in_flight: self.cwnd,
                cwnd: self.cwnd,
                initial_window: INITIAL_WINDOW,
            });
        }
        self.sent.push(bytes);
        self.search.on_sent(self.now, &sent(bytes));
        step
    }

    /// A step in which a path delivers what was sent 100 ms before, at most `capacity` bytes.
    fn deliver(&mut self, capacity: u64, send: impl Fn(u64) -> u64) -> Step {
        let due = self.sent.len().checked_sub(STEPS);
        let acked = due.map_or(0, |due| self.sent[due].min(capacity));
        let bytes = if due.is_none() { 100 } else { send(acked) };
        self.step(acked, bytes, ms(100))
    }

    fn bins(&self) -> &Bins {
        match &self.search {
            Search::Measuring(bins) => bins,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn window_that_doubles_every_round_trip_goes_on() {
    let mut flow = Flow::new();
    for _ in 0..30 * STEPS {
        assert_eq!(flow.deliver(u64::MAX, |acked| 2 * acked), Step::Continue);
    }
}

#[test]
fn path_is_found_full_about_two_round_trips_after_its_capacity_is_reached() {
    const CAPACITY: u64 = 100 << 10;
    let mut flow = Flow::new();
    let mut reached = None;
    for step in 0..40 * STEPS {
        let end = flow.deliver(CAPACITY, |acked| 2 * acked);
        let full = flow.sent[step] == 2 * CAPACITY;
        reached = reached.or(full.then_some(step));
        if end != Step::Continue {
            let after = (step - reached.expect("not before")) as f64 / STEPS as f64;
            assert!((1.0..=2.5).contains(&after), "{after} round trips");
            return;
        }
    }
    panic!("never found full");
}

#[test]
fn constant_rate_of_an_application_is_no_full_path() {
    let mut flow = Flow::new();
    for _ in 0..30 * STEPS {
        assert_eq!(flow.deliver(u64::MAX, |acked| acked), Step::Continue);
    }
}

#[test]
fn pauses_of_an_application_are_no_full_path() {
    for (busy, pause) in [(7, 3), (20, 20), (23, 60), (60, 7), (90, 150)] {
        let mut flow = Flow::new();
        for step in 0..200 * STEPS {
            let pauses = step % (busy + pause) >= busy;
            let bytes = if pauses { 0 } else { 2_000 };
            let due = step.checked_sub(STEPS).map_or(0, |due| flow.sent[due]);
            let end = flow.step(due, bytes, ms(100));
            assert_eq!(end, Step::Continue, "{busy}, {pause}: step {step}");
            if pauses {
                flow.search.on_app_limited(flow.now);
            }
        }
    }
}

#[test]
fn half_of_what_was_sent_is_judged_after_a_window_and_a_round_trip() {
    let mut bins = Bins::new(Time::ZERO, ms(100));
    let mut judged = Vec::new();
    for bin in 1..=16 {
        let end = Time::ZERO + bin * ms(35);
        bins.on_sent(end, 2_000);
        assert!(bins.on_acked(end, 1_000));
        if bins.is_path_full(ms(100)) {
            judged.push(bin);
        }
    }
    // Two bins and a part are a round trip; a window of ten and one more begin that much earlier.
    assert_eq!(judged.first(), Some(&13));
}

#[test]
fn threshold_is_26_hundredths_of_what_was_sent() {
    for (delivered, full) in [(7_400, true), (7_401, false), (20_000, false)] {
        let mut bins = Bins::new(Time::ZERO, ms(100));
        for bin in 1..=20 {
            let end = Time::ZERO + bin * ms(35);
            bins.on_acked(end, delivered);
            bins.on_sent(end, 10_000);
        }
        assert_eq!(bins.is_path_full(ms(100)), full, "{delivered}");
    }
}

#[test]
fn round_trip_of_fifteen_bins_is_not_judged() {
    for (rtt, full) in [(524, true), (525, false), (100_000, false)] {
        let mut bins = Bins::new(Time::ZERO, ms(100));
        for bin in 1..=40 {
            let end = Time::ZERO + bin * ms(35);
            bins.on_sent(end, 2_000);
            bins.on_acked(end, 1_000);
        }
        assert_eq!(bins.is_path_full(ms(rtt)), full, "{rtt} ms");
    }
}

#[test]
fn window_in_which_the_application_paused_is_not_judged() {
    for (paused, full) in [(17, true), (18, false), (30, false)] {
        let mut bins = Bins::new(Time::ZERO, ms(100));
        for bin in 1..=30 {
            if bin == paused {
                // The bin begins at this time.
                bins.on_app_limited(Time::ZERO + (bin - 1) * ms(35));
            }
            let end = Time::ZERO + bin * ms(35);
            bins.on_sent(end, 2_000);
            bins.on_acked(end, 1_000);
        }
        assert_eq!(bins.is_path_full(ms(100)), full, "{paused}");
    }
}

#[test]
fn bins_without_an_ack_hold_what_was_sent_in_them() {
    let mut bins = Bins::new(Time::ZERO, ms(100));
    for bin in 0..13 {
        bins.on_sent(Time::ZERO + bin * ms(35), 1_000);
    }
    // All that was sent so far arrives at once.
    assert!(bins.on_acked(Time::ZERO + 13 * ms(35), 13_000));
    assert!(!bins.is_path_full(ms(100)));
    assert!(!bins.on_acked(Time::ZERO + 13 * ms(35), 1_000));
    assert!(bins.on_acked(Time::ZERO + 14 * ms(35), 1_000));
}

#[test]
fn after_a_pause_longer_than_a_window_bins_begin_anew() {
    for (pause, restarts) in [(300, false), (400, true), (1_000_000, true)] {
        let mut flow = Flow::new();
        for _ in 0..10 * STEPS {
            flow.deliver(u64::MAX, |acked| acked);
        }
        let again = flow.now + ms(pause);
        let resumed = Sent { in_flight_before: 0, ..sent(MTU) };
        flow.search.on_sent(again, &resumed);
        let waits = matches!(flow.search, Search::Waiting);
        assert_eq!(waits, restarts, "{pause} ms");
        if restarts {
            flow.now = again;
            flow.step(MTU, MTU, ms(20));
            let expected = Bins::new(flow.now, ms(20));
            assert_eq!(flow.bins().width, expected.width);
        }
    }
}

#[test]
fn path_that_stalls_with_packets_in_flight_keeps_its_bins() {
    let mut flow = Flow::new();
    for _ in 0..10 * STEPS {
        flow.deliver(u64::MAX, |acked| acked);
    }
    flow.search.on_sent(flow.now + ms(5_000), &sent(MTU));
    assert_eq!(flow.bins().width, 35_000_000);
}

/// Returns a flow that has just found its path full, with the first window of the drain.
fn full() -> (Flow, u64) {
    let mut flow = Flow::new();
    flow.cwnd = 1_000_000;
    loop {
        match flow.deliver(5_000, |acked| 2 * acked) {
            Step::Continue => {}
            Step::Reduce(window) => return (flow, window),
            Step::End(window) => panic!("ended with {window}"),
        }
    }
}

#[test]
fn window_falls_by_two_thirds_of_what_is_acknowledged_to_the_bytes_of_a_round_trip() {
    let (mut flow, first) = full();
    assert_eq!(first, 1_000_000);
    assert!(flow.search.is_draining());
    assert_eq!(flow.search.growth(9_000), 0);
    let second = flow.step(9_000, 0, ms(300));
    assert_eq!(second, Step::Reduce(1_000_000 - 6_000));
    flow.cwnd = 120_000;
    let Step::End(target) = flow.step(90_000, 0, ms(300)) else {
        panic!("the target is larger than 60,000");
    };
    // A path of 5,000 bytes in 5 ms has 100,000 in a round trip; three bins are 105 ms.
    assert_eq!(target, 105_000);
}

#[test]
fn window_does_not_fall_below_the_initial_one_and_never_rises() {
    for (cwnd, end) in [(50_000, 12_000), (8_000, 8_000)] {
        let mut flow = Flow::new();
        flow.cwnd = cwnd;
        let mut window = None;
        while window.is_none() {
            // 100 bytes in 5 ms.
            match flow.deliver(100, |_| 400) {
                Step::Continue => {}
                Step::Reduce(smaller) => flow.cwnd = smaller,
                Step::End(last) => window = Some(last),
            }
        }
        assert_eq!(window, Some(end), "{cwnd}");
    }
}

#[test]
fn any_round_trip_and_any_time_are_taken() {
    let ends =
        [Duration::ZERO, Duration::from_nanos(1), Duration::from_secs(1 << 40), Duration::MAX];
    for rtt in ends {
        let mut bins = Bins::new(Time::ZERO, rtt);
        for nanos in [0, 1, 100, u64::MAX / 2, u64::MAX - 1, u64::MAX, u64::MAX] {
            let now = Time::from_nanos(nanos);
            bins.on_sent(now, u64::MAX / 4);
            bins.on_acked(now, u64::MAX / 4);
            for latest in ends {
                bins.is_path_full(latest);
            }
            bins.delivered_in_round_trip();
            bins.are_stale(Time::ZERO);
        }
    }
}
