//! The figures, from what runs showed.

use std::time::Duration;

use super::bound::Measure;
use super::record::{Point, Record};
use super::scenario::Scenario;
use crate::conventions::DATAGRAM;

/// Returns the figure of one run, whose flows are `flows`, the one that is judged first. `None` where the run cannot tell.
pub(super) fn figure(measure: Measure, scenario: &Scenario, flows: &[Record]) -> Option<f64> {
    let flow = flows.first()?;
    let end = flow.points.last()?.at;
    match measure {
        Measure::Done | Measure::DoneOverReno => Some(seconds(flow.completed)),
        Measure::AllDone => {
            let times = flows.iter().map(|flow| seconds(flow.completed));
            Some(times.fold(0.0, f64::max))
        }
        Measure::NotDone => Some(f64::from(u8::from(flow.completed.is_none()))),
        Measure::SlowestPage => slowest_page(scenario, flow),
        Measure::Filled => Some(seconds(filled(scenario, flow, end))),
        Measure::LostPackets | Measure::LostOverStandard => {
            flow.points.last().map(|point| point.lost as f64)
        }
        Measure::UnexplainedRecoveries => flow.unexplained_recoveries.map(|n| n as f64),
        Measure::Share { from, until } => {
            Some(flow.throughput(from, until) / scenario.mean_capacity(from, until.min(end)))
        }
        Measure::Utilization { from } => {
            let sum: f64 = rates(flows, from, end).iter().sum();
            Some(sum / scenario.mean_capacity(from, end))
        }
        Measure::WorstStretch { length, skip_first } => {
            let windows = windows(length, end).skip(usize::from(skip_first));
            let shares = windows.map(|(from, until)| {
                let capacity = scenario.least_capacity(from, until);
                flow.throughput(from, until) / capacity
            });
            Some(shares.fold(f64::INFINITY, f64::min))
        }
        Measure::Loss { from } => {
            let (first, last) = (flow.at(from)?, flow.points.last()?);
            let sent = last.sent.saturating_sub(first.sent).max(1);
            Some(last.lost.saturating_sub(first.lost) as f64 / sent as f64)
        }
        Measure::Delay { from } => {
            let srtts = flow.between(from, end).iter().filter_map(|p| p.srtt);
            let srtts: Vec<_> = srtts.map(|srtt| srtt.as_secs_f64()).collect();
            let mean = srtts.iter().sum::<f64>() / srtts.len() as f64;
            (!srtts.is_empty()).then(|| mean / scenario.round_trip().as_secs_f64())
        }
        Measure::MeanWindow { from } => {
            Some(mean_window(flow.between(from, end)) / DATAGRAM as f64)
        }
        Measure::WindowOverInFlight => {
            Some(flow.max_cwnd as f64 / flow.max_in_flight?.max(1) as f64)
        }
        Measure::EpochError { restart } => epoch_error(scenario, flow, restart),
        Measure::Burst { from } => largest_burst(flow.between(from, end)),
        Measure::Drained { at, below } => Some(seconds(drained(scenario, flow, at, below))),
        Measure::Jain { from } => Some(jain(&rates(flows, from, end))),
        Measure::SmallestShare { from } => {
            let rates = rates(flows, from, end);
            let smallest = rates.iter().copied().fold(f64::INFINITY, f64::min);
            Some(smallest * rates.len() as f64 / scenario.capacity(from))
        }
    }
}

fn seconds(time: Option<Duration>) -> f64 {
    time.map_or(f64::INFINITY, |time| time.as_secs_f64())
}

/// Returns the time of the slowest page over that of the ideal one: a round trip, and its bytes at the link's rate.
fn slowest_page(scenario: &Scenario, flow: &Record) -> Option<f64> {
    let bits = scenario.pages?.pages.bytes as f64 * 8.0;
    let ideal = scenario.round_trip().as_secs_f64() + bits / scenario.capacity(Duration::ZERO);
    let slowest = flow.pages.iter().max().filter(|_| flow.completed.is_some());
    Some(seconds(slowest.copied()) / ideal)
}

/// Length of the stretch over which a link is seen to be full, and the part of what it carries that then arrives.
const FULL: (Duration, f64) = (Duration::from_secs(1), 0.95);

/// Returns the start of the first stretch in which the link was full.
fn filled(scenario: &Scenario, flow: &Record, end: Duration) -> Option<Duration> {
    let (length, part) = FULL;
    let starts = flow.points.iter().map(|point| point.at);
    let mut starts = starts.take_while(|from| *from + length <= end);
    starts.find(|&from| {
        let until = from + length;
        flow.throughput(from, until) >= part * scenario.mean_capacity(from, until)
    })
}

/// Returns whole stretches of `length` one after the other, from 0 to `end`.
fn windows(length: Duration, end: Duration) -> impl Iterator<Item = (Duration, Duration)> {
    let starts = std::iter::successors(Some(Duration::ZERO), move |from| Some(*from + length));
    let pairs = starts.map(move |from| (from, from + length));
    pairs.take_while(move |(_, until)| *until <= end)
}

fn mean_window(points: &[Point]) -> f64 {
    let sum: f64 = points.iter().map(|point| point.cwnd as f64).sum();
    sum / points.len().max(1) as f64
}

/// Returns by how much the shift of the growth curve differs from the length of the pause, in round trips.
fn epoch_error(scenario: &Scenario, flow: &Record, restart: Duration) -> Option<f64> {
    let before = flow.points.iter().rev().find(|point| point.at < restart)?;
    let after = flow.points.iter().find(|point| point.at > restart)?;
    let shift = after.epoch?.saturating_sub(before.epoch?);
    let error = shift.abs_diff(flow.longest_idle?);
    Some(error.as_secs_f64() / scenario.round_trip().as_secs_f64())
}

fn largest_burst(points: &[Point]) -> Option<f64> {
    let ratios = points.iter().filter(|point| point.burst > 0).map(|point| {
        let quantum = point.quantum?;
        Some(point.burst as f64 / quantum.max(1) as f64)
    });
    ratios.collect::<Option<Vec<_>>>()?.into_iter().reduce(f64::max)
}

/// A queue that is small for a moment only, as while the round trip is probed, is not drained.
const STAYS: Duration = Duration::from_secs(1);

/// Returns the time from `at` until the bytes in flight stay within the BDP and `below` bytes of queue.
fn drained(scenario: &Scenario, flow: &Record, at: Duration, below: u64) -> Option<Duration> {
    let path = scenario.capacity(at) / 8.0 * scenario.round_trip().as_secs_f64();
    let limit = path + below as f64;
    let after = flow.points.iter().filter(|point| point.at > at);
    let mut since = None;
    for point in after {
        if point.in_flight as f64 > limit {
            since = None;
            continue;
        }
        let start = *since.get_or_insert(point.at);
        if point.at - start >= STAYS {
            return Some(start - at);
        }
    }
    None
}

fn rates(flows: &[Record], from: Duration, until: Duration) -> Vec<f64> {
    flows.iter().map(|flow| flow.throughput(from, until)).collect()
}

fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    if squares == 0.0 {
        return 0.0;
    }
    sum * sum / (rates.len() as f64 * squares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::table::scenarios;

    const POINT: Point = Point {
        at: Duration::ZERO,
        cwnd: 0,
        in_flight: 0,
        delivered: 0,
        sent: 0,
        lost: 0,
        srtt: None,
        pacing_rate: None,
        state: None,
        epoch: None,
        burst: 0,
        quantum: None,
    };

    const EMPTY: Record = Record {
        completed: None,
        pages: Vec::new(),
        max_in_flight: None,
        max_cwnd: 0,
        unexplained_recoveries: None,
        longest_idle: None,
        points: Vec::new(),
    };

    #[test]
    fn jain_is_one_for_equals_and_one_nth_where_one_has_all() {
        assert!((jain(&[3.0, 3.0, 3.0]) - 1.0).abs() < 1e-9);
        assert!((jain(&[1.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-9);
        assert!(jain(&[0.0, 0.0]) < 0.5);
    }

    #[test]
    fn windows_cover_the_run_without_a_broken_last_one() {
        let second = Duration::from_secs(1);
        let all: Vec<_> = windows(second, Duration::from_millis(2_500)).collect();
        assert_eq!(all, [(Duration::ZERO, second), (second, 2 * second)]);
    }

    #[test]
    fn slowest_page_counts_and_a_missing_one_is_never_there() {
        let scenarios = scenarios();
        let scenario = scenarios.iter().find(|s| s.name == "pages");
        let scenario = scenario.expect("in the table");
        let ms = Duration::from_millis;
        // 500 KB at 50 Mbit/s and 40 ms: 120 ms.
        let mut flow =
            Record { completed: Some(ms(1_000)), pages: vec![ms(240), ms(300), ms(120)], ..EMPTY };
        let slowest = |flow: &Record| slowest_page(scenario, flow).expect("has pages");
        assert!((slowest(&flow) - 2.5).abs() < 1e-9);
        flow.completed = None;
        assert_eq!(slowest(&flow), f64::INFINITY);
    }

    #[test]
    fn link_is_full_from_the_first_second_on_that_it_is_used_for() {
        let scenarios = scenarios();
        let scenario = scenarios.iter().find(|s| s.name == "jitter");
        let scenario = scenario.expect("in the table");
        // 50 Mbit/s are 62,500 bytes in ten milliseconds.
        let points = (0..300).map(|number: u64| Point {
            at: Duration::from_millis(10 * number),
            delivered: 62_500 * number.saturating_sub(50),
            ..POINT
        });
        let flow = Record { points: points.collect(), ..EMPTY };
        let end = Duration::from_millis(2_990);
        let full = filled(scenario, &flow, end);
        // 5 % of a second is left over.
        assert_eq!(full, Some(Duration::from_millis(450)));
        assert_eq!(filled(scenario, &flow, Duration::from_secs(1)), None);
    }

    #[test]
    fn queue_that_is_small_for_a_moment_is_not_drained() {
        let scenarios = scenarios();
        let scenario = scenarios.iter().find(|s| s.name == "rate-fall");
        let scenario = scenario.expect("in the table");
        let small = |tenth: u64| tenth == 12 || tenth >= 30;
        let points = (0..60).map(|tenth| Point {
            at: Duration::from_secs(10) + Duration::from_millis(100 * tenth),
            in_flight: if small(tenth) { 15_000 } else { 15_001 },
            ..POINT
        });
        let flow = Record { points: points.collect(), ..EMPTY };
        let at = Duration::from_secs(10);
        let first = drained(scenario, &flow, at, 10_000);
        assert_eq!(first, Some(Duration::from_secs(3)));
        assert_eq!(drained(scenario, &flow, at, 9_999), None);
    }
}
