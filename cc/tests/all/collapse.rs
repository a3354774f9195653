//! Heavy loss at the start, then none: the window falls to two packets and must come back, with every option. Every
//! algorithm at its defaults is tried with 100 seeds in the matrix of `benches/src/matrix/`.
//!
//! The second half re-creates the defect that keeps the window there, to show that the scenario detects it.

use std::time::Duration;

use sluicegate_cc::{Controller, Event, PacketState, PathChange, Sent, Snapshot, State, Time};
use sluicegate_sim::{Bottleneck, FlowOutcome, LossWindow, Source};

use crate::test_support::{MBIT, MTU, algorithms, init, ms, run_one, secs, variants};

const SEEDS: u64 = 100;
const LIMIT: Duration = secs(10);

fn collapse(controller: Box<dyn Controller>, seed: u64) -> FlowOutcome {
    let loss = vec![LossWindow { from: ms(0), until: secs(2), probability: 0.3 }];
    let bottleneck = Bottleneck { loss, ..Bottleneck::new(100 * MBIT, ms(10), 1.0) };
    run_one(controller, &bottleneck, Source::Bulk(10_000_000), LIMIT, seed)
}

#[test]
fn every_option_at_either_end_of_its_range_recovers_too() {
    for algorithm in algorithms() {
        let mut floors = Vec::new();
        for (variant, options) in variants(&algorithm) {
            for seed in 0..5 {
                let controller = algorithm.controller(&init(seed), &options);
                let outcome = collapse(controller, seed);
                let name = algorithm.name;
                assert!(outcome.completed.is_some(), "{name}, {variant}, seed {seed}");
                assert_eq!(outcome.unexplained_recoveries, 0, "{name}, {variant}, seed {seed}");
                floors.push(outcome.min_cwnd);
            }
        }
        let floor = floors.iter().min();
        assert_eq!(floor, Some(&(2 * MTU)), "the loss must reach the smallest window");
    }
}

/// A loss-based controller whose recovery period is bounded by a time, which it moves by the time since the last
/// packet whenever a packet leaves with nothing in flight.
#[derive(Debug)]
struct TimeShifted {
    shifts: bool,
    cwnd: u64,
    ssthresh: u64,
    recovery_start: Option<Time>,
    last_sent: Time,
    in_recovery: bool,
    cuts: u64,
}

impl TimeShifted {
    fn boxed(shifts: bool) -> Box<dyn Controller> {
        Box::new(Self {
            shifts,
            cwnd: 12_000,
            ssthresh: u64::MAX,
            recovery_start: None,
            last_sent: Time::ZERO,
            in_recovery: false,
            cuts: 0,
        })
    }

    fn covers(&self, sent: Time) -> bool {
        self.recovery_start.is_some_and(|start| sent <= start)
    }
}

impl Controller for TimeShifted {
    fn on_sent(&mut self, now: Time, sent: &Sent) -> PacketState {
        if self.shifts && sent.in_flight_before == 0 {
            let since_last = now.saturating_since(self.last_sent);
            self.recovery_start = self.recovery_start.map(|start| start + since_last);
        }
        self.last_sent = now;
        PacketState::default()
    }

    fn on_event(&mut self, event: &Event<'_>) {
        if event.lost.iter().any(|l| !self.covers(l.time_sent)) {
            self.cwnd = (self.cwnd * 7 / 10).max(2_400);
            self.ssthresh = self.cwnd;
            self.recovery_start = Some(event.now);
            self.cuts += 1;
        }
        for acked in event.acked {
            self.in_recovery = self.covers(acked.time_sent);
            if self.in_recovery {
                continue;
            }
            let growth = if self.cwnd < self.ssthresh {
                acked.bytes
            } else {
                1_200 * acked.bytes / self.cwnd
            };
            self.cwnd += growth;
        }
        self.in_recovery |= !event.lost.is_empty();
    }

    fn on_app_limited(&mut self, _now: Time, _in_flight: u64) {}
    fn on_persistent_congestion(&mut self, _now: Time) {
        self.cwnd = 2_400;
    }
    fn on_discarded(&mut self, _now: Time, _packet_number: u64) {}
    fn on_path_changed(&mut self, _now: Time, _change: PathChange) {}
    fn on_mtu(&mut self, _mtu: u64) {}
    fn cwnd(&self) -> u64 {
        self.cwnd
    }
    fn pacing_rate(&self) -> Option<u64> {
        None
    }
    fn send_quantum(&self) -> u64 {
        12_000
    }
    fn state(&self) -> State {
        if self.in_recovery { State::Recovery } else { State::CongestionAvoidance }
    }
    fn ssthresh(&self) -> Option<u64> {
        Some(self.ssthresh)
    }
    fn snapshot(&self) -> Snapshot {
        Snapshot {
            cwnd: self.cwnd,
            ssthresh: Some(self.ssthresh),
            pacing_rate: None,
            state: self.state(),
            epoch: None,
            idle_excluded: Duration::ZERO,
            congestion_events: self.cuts,
            model: None,
        }
    }
}

#[test]
fn recovery_bounded_by_a_shifted_time_is_caught() {
    let failures = |shifts| {
        let runs = (0..SEEDS).map(|seed| collapse(TimeShifted::boxed(shifts), seed));
        runs.filter(|run| run.completed.is_none()).count()
    };
    let (with, without) = (failures(true), failures(false));
    println!("shifted: {with} of {SEEDS} not done; the same without the shift: {without}");
    assert!(with >= 20, "the scenario misses the defect: {with} of {SEEDS} failed");
    assert_eq!(without, 0, "something other than the shift fails");
}

#[test]
fn shifted_recovery_shows_as_recovery_without_end_and_a_pinned_window() {
    let stuck = (0..SEEDS)
        .map(|seed| collapse(TimeShifted::boxed(true), seed))
        .find(|run| run.completed.is_none())
        .expect("some seed gets stuck");
    let last = stuck.samples.last().expect("sampled");
    let early = stuck.samples.iter().find(|s| s.at >= secs(4)).expect("sampled");
    println!("stuck at {} bytes, {}", last.snapshot.cwnd, last.snapshot.state.name());
    assert_eq!(last.lost_packets, early.lost_packets);
    assert_eq!(last.snapshot.state, State::Recovery);
    assert_eq!(last.snapshot.cwnd, early.snapshot.cwnd);
    assert!(last.snapshot.cwnd < 6_000);
}
