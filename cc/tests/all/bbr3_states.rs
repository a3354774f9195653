//! The draft's example test cases (draft-ietf-ccwg-bbr-06, "BBR Example Test Cases"), by its names: transitions.

use std::time::Duration;

use sluicegate_cc::{State, Value};
use sluicegate_sim::{Bottleneck, LossWindow, Source};

use crate::test_support::record::{Entry, enters, leaves, limited_from, record, record_with};
use crate::test_support::{MBIT, MTU, ms, secs};

/// 10 Mbit/s: 1.25 million bytes per second.
const RATE: u64 = 10 * MBIT;

fn path() -> Bottleneck {
    Bottleneck::new(RATE, ms(40), 4.0)
}

fn near(value: u64, expected: u64, percent: u64) -> bool {
    value.abs_diff(expected) * 100 <= expected * percent
}

/// Returns the most bytes in flight that leave no queue.
fn fits(entry: &Entry) -> u64 {
    entry.bdp().max(entry.rate / 1_000).max(4 * MTU)
}

/// DOWN, or CRUISE where the same ACK finds nothing to drain.
fn is_slow(state: State) -> bool {
    matches!(state, State::ProbeBwDown | State::ProbeBwCruise)
}

#[test]
fn exiting_startup_on_bandwidth_plateau() {
    let (outcome, log) = record(&path(), Source::Endless, secs(3));
    let drain = enters(&log, State::Drain, ms(0));
    let model = log[drain].model;
    assert!(near(model.max_bw, RATE / 8, 2), "{}", model.max_bw);
    assert!(model.full_bw_reached && !log[drain - 1].model.full_bw_reached);
    let three_rounds_before = log[..drain]
        .iter()
        .rfind(|e| e.model.round_count + 3 <= model.round_count)
        .expect("three rounds");
    assert!(three_rounds_before.model.max_bw * 5 / 4 > model.max_bw);
    assert_eq!(outcome.lost_packets, 0);
}

#[test]
fn exiting_startup_on_loss_when_application_limited() {
    let source = Source::Periodic { bytes: 60 * MTU, every: ms(80), times: 50 };
    let loss = vec![LossWindow { from: secs(1), until: secs(5), probability: 0.2 }];
    let bottleneck = Bottleneck { loss, ..Bottleneck::new(100 * MBIT, ms(40), 1.0) };
    let (_, log) = record(&bottleneck, source, secs(3));
    let exit = leaves(&log, 0);
    assert!(log[exit].at > secs(1), "stays until the loss");
    // The little in flight fits the path: the ACK that enters Drain ends it.
    assert!(is_slow(log[exit].state), "{:?}", log[exit].state);
    assert!(log[exit].model.app_limited && log[exit].model.full_bw_reached);
    assert!(log[exit].model.inflight_longterm.is_some());
}

#[test]
fn exiting_drain_based_on_inflight() {
    let (_, log) = record(&path(), Source::Endless, secs(3));
    let drain = enters(&log, State::Drain, ms(0));
    let down = leaves(&log, drain);
    assert!((log[drain].model.pacing_gain - 0.5).abs() < f64::EPSILON);
    assert!(log[drain].in_flight > fits(&log[drain]), "a queue to drain");
    assert!(is_slow(log[down].state));
    assert!(log[down].in_flight <= fits(&log[down]));
    assert!(log[down - 1].in_flight > fits(&log[down - 1]));
}

#[test]
fn exiting_drain_based_on_time() {
    let (_, log) = record(&path(), Source::Endless, secs(3));
    let at = log[enters(&log, State::Drain, ms(0))].at;
    let mut bottleneck = path();
    bottleneck.rate.push((at, RATE * 45 / 100));
    let (_, log) = record(&bottleneck, Source::Endless, secs(5));
    let drain = enters(&log, State::Drain, ms(0));
    let down = leaves(&log, drain);
    let rounds = log[down].model.round_count - log[drain].model.round_count;
    assert_eq!((log[down].state, rounds), (State::ProbeBwDown, 4));
    assert!(log[down].in_flight > fits(&log[down]), "too many bytes still in flight");
}

#[test]
fn exiting_probe_up_on_bandwidth_plateau() {
    let (outcome, log) = record(&path(), Source::Endless, secs(8));
    let up = enters(&log, State::ProbeBwUp, ms(0));
    let down = leaves(&log, up);
    let rounds = log[down].model.round_count - log[up].model.round_count;
    assert_eq!(log[down].state, State::ProbeBwDown);
    assert!((3..=4).contains(&rounds), "{rounds}");
    assert!(near(log[down].model.max_bw, RATE / 8, 2));
    assert_eq!(outcome.lost_packets, 0);
}

/// Returns the time at which an endless flow first enters a state on a bottleneck.
fn first(state: State, bottleneck: &Bottleneck) -> Duration {
    let (_, log) = record(bottleneck, Source::Endless, secs(20));
    log[enters(&log, state, ms(0))].at
}

#[test]
fn exiting_probe_up_on_loss_when_application_limited() {
    let mut bottleneck = path();
    let at = first(State::ProbeBwUp, &bottleneck);
    let source = limited_from(&bottleneck, at, 4 * MTU, ms(10));
    bottleneck.loss =
        vec![LossWindow { from: at + ms(200), until: at + ms(300), probability: 0.5 }];
    let (_, log) = record(&bottleneck, source, at + secs(3));
    let up = enters(&log, State::ProbeBwUp, ms(0));
    let down = leaves(&log, up);
    assert!(log[down].at > at + ms(200), "stays until the loss");
    assert!(is_slow(log[down].state));
    assert!(log[down].model.app_limited);
    assert_eq!(log[up].model.inflight_longterm, None);
    let longterm = log[down].model.inflight_longterm.expect("updated");
    assert!(longterm >= log[down].bdp().min(log[down].cwnd) * 99 / 100, "{longterm}");
}

#[test]
fn never_exiting_probe_up_or_startup_when_application_limited_with_no_loss() {
    let rarely = [("probe_rtt_interval", Value::Integer(60_000))];
    let source = Source::Periodic { bytes: 10 * MTU, every: ms(100), times: 300 };
    let (_, log) = record_with(&rarely, &path(), source, secs(30));
    let other = log.iter().find(|e| e.state != State::Startup);
    assert!(other.is_none(), "{other:?}");

    let bottleneck = path();
    let at = first(State::ProbeBwUp, &bottleneck);
    let source = limited_from(&bottleneck, at, 10 * MTU, ms(100));
    let (_, log) = record_with(&rarely, &bottleneck, source, at + secs(20));
    let up = enters(&log, State::ProbeBwUp, ms(0));
    assert!(log[up..].iter().all(|e| e.state == State::ProbeBwUp));
}

#[test]
fn exiting_probe_down_on_inflight() {
    let bottleneck = Bottleneck::new(RATE, ms(40), 1.0);
    let (_, log) = record(&bottleneck, Source::Endless, secs(20));
    let set = log.iter().position(|e| e.model.inflight_longterm.is_some()).expect("a loss");
    let down = enters(&log, State::ProbeBwDown, log[set].at + ms(1));
    let cruise = leaves(&log, down);
    assert!((log[down].model.pacing_gain - 0.9).abs() < f64::EPSILON);
    assert_eq!(log[cruise].state, State::ProbeBwCruise);
    let longterm = log[cruise].model.inflight_longterm.expect("set");
    let headroom = (longterm * 85 / 100).max(4 * MTU) + 1;
    assert!(log[cruise].in_flight <= headroom.min(fits(&log[cruise])));
    let before = &log[cruise - 1];
    assert!(before.in_flight > headroom.min(fits(before)));
}

#[test]
fn exiting_probe_down_after_max_time() {
    let rarely = [("probe_rtt_interval", Value::Integer(60_000))];
    let bottleneck = Bottleneck::new(100 * MBIT, ms(100), 2.0);
    let (_, log) = record_with(&rarely, &bottleneck, Source::Endless, secs(10));
    let up = enters(&log, State::ProbeBwUp, ms(0));
    let at = log[leaves(&log, up)].at;
    let rate = vec![(ms(0), 100 * MBIT), (at, 90 * MBIT)];
    let slower = Bottleneck { rate, ..bottleneck };
    let (_, log) = record_with(&rarely, &slower, Source::Endless, secs(10));
    let down = enters(&log, State::ProbeBwDown, at);
    let refill = leaves(&log, down);
    assert_eq!(log[refill].state, State::ProbeBwRefill, "past CRUISE");
    let waited = log[refill].at - log[down].at;
    assert!((secs(2)..=ms(3_200)).contains(&waited), "{waited:?}");
}

#[test]
fn entering_and_exiting_probe_rtt() {
    let (outcome, log) = record(&path(), Source::Endless, secs(12));
    let enter = enters(&log, State::ProbeRtt, ms(0));
    let exit = leaves(&log, enter);
    assert!(log[enter].at >= secs(5));
    assert!((log[enter].model.cwnd_gain - 0.5).abs() < f64::EPSILON);
    assert!(log[exit].at - log[enter].at >= ms(200));
    assert!(log[exit].model.round_count > log[enter].model.round_count);
    assert!(log[exit - 1].cwnd <= (log[exit - 1].bdp() / 2).max(4 * MTU) + 1);
    assert_eq!(log[exit].state, State::ProbeBwCruise);
    assert!(log[exit].cwnd > log[exit].bdp());
    let after = log[exit].at + ms(100);
    assert!(outcome.throughput(after, after + ms(500)) > 0.9 * RATE as f64);
}

#[test]
fn skipping_probe_rtt_due_to_application_limited_sending() {
    let source = Source::Bursts(vec![(ms(0), 4_000_000), (secs(12), 4_000_000)]);
    let (_, log) = record(&path(), source, secs(16));
    let restart = log.iter().position(|e| e.restart && e.at >= secs(12)).expect("restarts");
    assert!(log[restart].model.idle_restart);
    assert!(log[restart].at - log[restart - 1].at > secs(5), "idle long enough");
    let after = &log[restart..];
    assert!(after.iter().all(|e| e.state != State::ProbeRtt));
    assert!(!after[1].model.idle_restart, "over with the first ACK");
    assert_eq!(log[restart - 1].cwnd, log[restart].cwnd, "the window stays");
}

#[test]
fn entering_and_exiting_probe_rtt_during_startup() {
    let source = Source::Periodic { bytes: MTU, every: ms(5), times: 4_000 };
    let (_, log) = record(&path(), source, secs(12));
    let enter = enters(&log, State::ProbeRtt, ms(0));
    assert!(!log[enter].model.full_bw_reached);
    assert_eq!(log[enter - 1].state, State::Startup);
    let exit = leaves(&log, enter);
    assert_eq!(log[exit].state, State::Startup);
    assert!(log[exit].at - log[enter].at >= ms(200));
}
