//! The draft's example test cases (draft-ietf-ccwg-bbr-06, "BBR Example Test Cases"), by its names: kinds of paths,
//! changes of them, and errors about loss.

use std::time::Duration;

use sluicegate_cc::{Model, Snapshot, State};
use sluicegate_sim::{Bottleneck, LossWindow, Policer, Source};

use crate::test_support::misjudged::{Misjudged, Stages};
use crate::test_support::record::{Entry, enters, leaves, limited_from, record};
use crate::test_support::{MBIT, MTU, controller, ms, named, run_one, secs};

const RATE: u64 = 10 * MBIT;

fn near(value: u64, expected: u64, percent: u64) -> bool {
    value.abs_diff(expected) * 100 <= expected * percent
}

/// Returns a path with ACKs every 20 ms, a third of its round trip.
fn aggregating() -> Bottleneck {
    Bottleneck { ack_hold: ms(20), ..Bottleneck::new(50 * MBIT, ms(40), 4.0) }
}

#[test]
fn achieving_expected_startup_bandwidth_on_a_link_with_aggregation() {
    let (_, log) = record(&aggregating(), Source::Endless, secs(5));
    let startup = &log[..leaves(&log, 0)];
    let largest = startup.iter().map(|e| e.model.extra_acked).max();
    assert!(largest > Some(50 * MBIT / 8 / 50 / 2), "{largest:?}");
    let mut measured = startup.iter().filter(|e| e.model.round_count > 3);
    assert!(measured.any(|e| e.cwnd > 2 * e.bdp()));
    let known = startup.last().expect("some").model.max_bw;
    // §3.8 admits that bursts of ACKs raise the estimate, in Startup most of all.
    assert!((50 * MBIT / 8..75 * MBIT / 8).contains(&known), "{known}");
}

#[test]
fn achieving_expected_cruise_bandwidth_on_a_link_with_aggregation() {
    let (outcome, log) = record(&aggregating(), Source::Endless, secs(20));
    let cruise: Vec<_> = log
        .iter()
        .filter(|e| e.state == State::ProbeBwCruise && e.at > secs(3))
        .filter(|e| e.model.inflight_shortterm.is_none())
        .collect();
    assert!(cruise.len() > 100);
    let of_20_ms = 50 * MBIT / 8 / 50;
    let enough =
        cruise.iter().filter(|e| e.model.extra_acked > of_20_ms / 2 && e.cwnd > 2 * e.bdp());
    assert!(enough.count() * 10 > cruise.len() * 9);
    let rate = outcome.throughput(secs(3), secs(20));
    assert!(rate > 0.9 * 50e6, "{rate}");
}

#[test]
fn correctly_managing_sub_packet_bdps() {
    let bottleneck = Bottleneck { queue_bytes: 20 * MTU, ..Bottleneck::new(MBIT, ms(2), 1.0) };
    let (outcome, log) = record(&bottleneck, Source::Endless, secs(20));
    let steady = enters(&log, State::ProbeBwCruise, ms(0));
    assert!(log[steady].bdp() < 20 * MTU);
    for entry in &log[steady..] {
        // Two in ProbeRTT (cc/DEVIATIONS.md).
        let least = if entry.state == State::ProbeRtt { 2 } else { 4 };
        assert!(entry.cwnd >= least * MTU, "{entry:?}");
    }
    let cruise: Vec<_> = log[steady..].iter().filter(|e| e.state == State::ProbeBwCruise).collect();
    assert!(cruise.iter().all(|e| near(e.rate, MBIT / 8, 10)));
    let rate = outcome.throughput(secs(2), secs(20));
    assert!(rate > 0.95e6, "{rate}");
}

#[test]
fn increasing_bandwidth_10x_and_ensuring_full_bandwidth_is_reached() {
    let rise = secs(10);
    let mut bottleneck = Bottleneck { queue_bytes: 30_000, ..Bottleneck::new(RATE, ms(40), 1.0) };
    bottleneck.rate.push((rise, 10 * RATE));
    let (_, log) = record(&bottleneck, Source::Endless, secs(40));
    let before = log.iter().rfind(|e| e.at < rise).expect("busy");
    assert!(before.model.inflight_longterm.is_some(), "bounded by loss before");
    let full = log
        .iter()
        .find(|e| e.at > rise && e.model.max_bw >= 10 * RATE / 8 * 95 / 100)
        .expect("reaches the new rate");
    println!("full rate {:?} after the rise", full.at - rise);
    assert!(full.at - rise < secs(15));
    let doublings = growth_by_round(&log, rise)
        .windows(4)
        .any(|steps| steps[0] > 0 && steps.windows(2).all(|pair| pair[1] >= pair[0] * 3 / 2));
    assert!(doublings, "steps of the long-term bound double");
}

/// Returns the growth of the long-term bound in each round of UP after `from`.
fn growth_by_round(log: &[Entry], from: Duration) -> Vec<u64> {
    let up = log.iter().filter(|e| e.at > from && e.state == State::ProbeBwUp);
    let mut ends: Vec<(u64, u64)> = Vec::new();
    for entry in up {
        let Some(bound) = entry.model.inflight_longterm else {
            continue;
        };
        match ends.last_mut() {
            Some(last) if last.0 == entry.model.round_count => last.1 = bound,
            _ => ends.push((entry.model.round_count, bound)),
        }
    }
    ends.windows(2).map(|pair| pair[1].1.saturating_sub(pair[0].1)).collect()
}

#[test]
fn decreasing_bandwidth_10x_and_ensuring_max_bandwidth_adapts_down() {
    let fall = secs(10);
    let mut bottleneck = Bottleneck::new(10 * RATE, ms(40), 1.0);
    bottleneck.rate.push((fall, RATE));
    let (_, log) = record(&bottleneck, Source::Endless, secs(40));
    let before = log.iter().rfind(|e| e.at < fall).expect("busy");
    assert!(near(before.model.max_bw, 10 * RATE / 8, 5));
    let lowered = log
        .iter()
        .find(|e| e.at > fall && e.model.bw_shortterm.is_some_and(|bw| bw < RATE))
        .expect("losses lower the rate");
    assert!(lowered.at < fall + secs(3), "{:?}", lowered.at);
    let known = log
        .iter()
        .find(|e| e.at > fall && e.model.max_bw <= RATE / 8 * 105 / 100)
        .expect("forgets the old rate");
    let probes = log.windows(2).filter(|pair| {
        let of_interest = pair[0].at > fall && pair[1].at <= known.at;
        of_interest && pair[0].state == State::ProbeBwUp && pair[1].state != State::ProbeBwUp
    });
    let probes = probes.count();
    println!("known {:?} after the fall, {probes} probes", known.at - fall);
    assert!(probes <= 3 && known.at < fall + secs(12));
}

#[test]
fn handling_token_bucket_policers() {
    let policer = Some(Policer { bits_per_second: RATE, burst_bytes: 300_000 });
    let bottleneck = Bottleneck { policer, ..Bottleneck::new(10 * RATE, ms(40), 1.0) };
    let (outcome, log) = record(&bottleneck, Source::Endless, secs(40));
    let steady = log.iter().filter(|e| e.at > secs(2));
    let bounded =
        steady.filter(|e| e.model.bw_shortterm.is_some() && e.model.inflight_shortterm.is_some());
    assert!(bounded.count() > 0, "no response to loss");
    let late: usize = log.iter().filter(|e| e.at > secs(10)).map(|e| e.lost).sum();
    let rate = outcome.throughput(secs(10), secs(40));
    println!("{:.1} Mbit/s, {late} packets lost after 10 s", rate / 1e6);
    assert!(rate > 0.85 * RATE as f64);
    assert!((late as u64 * MTU) < RATE / 8 * 30 / 20, "more than 5 % lost");
}

fn misjudge(when: State, persistent: bool) -> Stages {
    let (controller, stages) = Misjudged::new(controller(&named("bbr3"), 1), when, persistent);
    run_one(controller, &Bottleneck::new(RATE, ms(40), 4.0), Source::Endless, secs(20), 1);
    let stages = *stages.lock().expect("one thread");
    assert!(stages.corrected.is_some(), "{stages:?}");
    stages
}

/// Returns the model before the error, after it, and after the correction.
fn misjudged_up(persistent: bool) -> [(Snapshot, Model); 3] {
    let Stages { before, after, corrected } = misjudge(State::ProbeBwUp, persistent);
    [before, after, corrected].map(|snapshot| {
        let snapshot = snapshot.expect("seen");
        (snapshot, snapshot.model.expect("a model"))
    })
}

#[test]
fn handling_spurious_fast_recovery() {
    let [before, after, corrected] = misjudged_up(false);
    assert_eq!(after.0.state, State::ProbeBwDown);
    assert!(after.1.inflight_longterm.is_some());
    assert_eq!(corrected.1.inflight_longterm, before.1.inflight_longterm);
    assert_eq!(corrected.1.inflight_shortterm, before.1.inflight_shortterm);
    assert_eq!(corrected.1.bw_shortterm, before.1.bw_shortterm);
    assert_eq!(corrected.0.state, State::ProbeBwRefill, "back to probing");
    assert!(corrected.0.cwnd >= before.0.cwnd);
}

#[test]
fn handling_spurious_rto_recovery() {
    let [before, after, corrected] = misjudged_up(true);
    assert_eq!(after.0.cwnd, 2 * MTU);
    assert_eq!(corrected.1.inflight_longterm, before.1.inflight_longterm);
    assert_eq!(corrected.1.bw_shortterm, before.1.bw_shortterm);
    assert!(corrected.0.cwnd >= before.0.cwnd);
}

#[test]
fn handling_loss_during_probe_up_after_inflight_longterm_is_set() {
    let mut bottleneck = Bottleneck::new(RATE, ms(40), 1.0);
    let (_, log) = record(&bottleneck, Source::Endless, secs(30));
    let set = log.iter().position(|e| e.model.inflight_longterm.is_some()).expect("a loss");
    let cautious = enters(&log, State::ProbeBwUp, log[set].at + secs(1));
    let up = enters(&log, State::ProbeBwUp, log[cautious].at + ms(200));
    let at = log[up].at;
    bottleneck.loss = vec![LossWindow { from: at, until: at + ms(50), probability: 0.15 }];
    let (_, log) = record(&bottleneck, Source::Endless, secs(30));
    let up = enters(&log, State::ProbeBwUp, at);
    let down = leaves(&log, up);
    assert_eq!(log[down].state, State::ProbeBwDown);
    assert!(log[down].lost > 0 && log[down].at < at + ms(150));
    let (was, is) = (log[down - 1].model.inflight_longterm, log[down].model.inflight_longterm);
    assert!(is < was, "{was:?} to {is:?}");
    assert!(is.expect("set") >= log[down - 1].bdp().min(log[down - 1].cwnd) * 69 / 100);
}

#[test]
fn handling_application_limited_sending_during_probe_refill() {
    let bottleneck = Bottleneck::new(RATE, ms(40), 4.0);
    let (_, log) = record(&bottleneck, Source::Endless, secs(20));
    let refill = enters(&log, State::ProbeBwRefill, ms(0));
    let (at, known) = (log[refill].at, log[refill].model.max_bw);
    let source = limited_from(&bottleneck, at, MTU, ms(10));
    let (_, log) = record(&bottleneck, source, at + secs(2));
    let refill = enters(&log, State::ProbeBwRefill, at);
    let up = leaves(&log, refill);
    assert_eq!(log[up].state, State::ProbeBwUp);
    assert!(log[refill + 5..].iter().all(|e| e.model.app_limited));
    assert!(log[refill..].iter().all(|e| e.model.max_bw == known));
    assert!(log[up..].iter().all(|e| e.state == State::ProbeBwUp));
}
