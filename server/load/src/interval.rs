//! Figures of equal parts of a run, one after the other.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::tally::{Samples, Tally};
use crate::text::{bytes, decimal, duration};

/// Nanoseconds of a second.
const NANOS: f64 = 1e9;

/// Figures of a thread in an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Part {
    /// Number of the interval, from 0 on.
    pub(crate) number: u64,
    completed: u64,
    failed: u64,
    /// Bytes of UDP payload, or of TCP without TLS, that were received.
    bytes: u64,
    /// Connections that were open at its end.
    connections: u64,
    /// Times of requests, nanoseconds.
    times: Samples,
    /// Time of the interval; the last one may be shorter than the others.
    length: Duration,
    /// The thread has ended.
    last: bool,
}

/// A thread's account of the interval that goes on.
pub(crate) struct IntervalAccount {
    every: Duration,
    /// Start of the first interval, once there is one.
    begin: Option<Instant>,
    number: u64,
    times: Samples,
    /// Figures of the tally at the start of the interval.
    before: [u64; 3],
}

impl IntervalAccount {
    pub(crate) fn new(every: Duration) -> Self {
        IntervalAccount { every, begin: None, number: 0, times: Samples::default(), before: [0; 3] }
    }

    /// Begins the first interval.
    pub(crate) fn begin(&mut self, at: Instant) {
        self.begin = Some(at);
    }

    /// Adds the time of a request.
    pub(crate) fn add(&mut self, time: Duration) {
        self.times.add_time(time);
    }

    fn start(&self) -> Option<Instant> {
        let number = u32::try_from(self.number).unwrap_or(u32::MAX);
        self.begin.map(|begin| begin + self.every.saturating_mul(number))
    }

    /// Returns the end of the interval that goes on.
    pub(crate) fn ends_at(&self) -> Option<Instant> {
        self.start().map(|start| start + self.every)
    }

    /// Returns an interval that has ended at `now`, if there is one.
    pub(crate) fn ended(&mut self, now: Instant, tally: &Tally, connections: u64) -> Option<Part> {
        self.ends_at().filter(|end| *end <= now)?;
        let part = self.part(self.every, tally, connections, false);
        self.number += 1;
        Some(part)
    }

    /// Returns the interval that goes on, as the thread's last one.
    pub(crate) fn last(&mut self, now: Instant, tally: &Tally, connections: u64) -> Part {
        let start = self.start();
        let length = start.map_or(Duration::ZERO, |start| now.saturating_duration_since(start));
        self.part(length, tally, connections, true)
    }

    fn part(&mut self, length: Duration, tally: &Tally, connections: u64, last: bool) -> Part {
        let totals = [tally.completed, tally.failed, tally.bytes_total];
        let before = std::mem::replace(&mut self.before, totals);
        let [completed, failed, bytes] =
            std::array::from_fn(|index| totals[index].saturating_sub(before[index]));
        Part {
            number: self.number,
            completed,
            failed,
            bytes,
            connections,
            times: std::mem::take(&mut self.times),
            length,
            last,
        }
    }
}

/// Figures of all threads in an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interval {
    /// Time from the start of what counts to its end, seconds.
    pub(crate) end: f64,
    /// Complete responses per second.
    pub(crate) rate: f64,
    /// Bytes per second, of UDP payload or of TCP without TLS, that were received.
    pub(crate) byte_rate: f64,
    /// Times of requests, seconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
    pub(crate) failed: u64,
    pub(crate) connections: u64,
}

impl Interval {
    /// Returns a line of text.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is not negative, and few digits are written"
    )]
    pub(crate) fn line(&self) -> String {
        format!(
            "{:>8}: {} req/s, {}B/s, p50 {}, p99 {}, max {}, {} failed, {} connections",
            duration(self.end),
            decimal(self.rate),
            bytes(self.byte_rate as u64),
            duration(self.p50),
            duration(self.p99),
            duration(self.max),
            self.failed,
            self.connections,
        )
    }

    /// Returns an object; times are in seconds.
    pub(crate) fn json(&self) -> Value {
        json!({
            "end": self.end,
            "request_per_second": self.rate,
            "bytes_per_second": self.byte_rate,
            "p50": self.p50,
            "p99": self.p99,
            "max": self.max,
            "failed": self.failed,
            "connections": self.connections,
        })
    }
}

/// Adds up what the threads report.
pub(crate) struct Intervals {
    every: Duration,
    threads: u64,
    /// Threads that have ended, by the number of their last interval.
    ended: Vec<u64>,
    /// Parts of intervals that some threads have not ended yet, and how many have.
    open: BTreeMap<u64, (Part, u64)>,
}

impl Intervals {
    pub(crate) fn new(every: Duration, threads: u64) -> Self {
        Intervals { every, threads, ended: Vec::new(), open: BTreeMap::new() }
    }

    /// Takes what a thread did, and returns the intervals that all threads have ended.
    pub(crate) fn take(&mut self, part: Part) -> Vec<Interval> {
        if part.last {
            self.ended.push(part.number);
        }
        let (sum, parts) = self.open.entry(part.number).or_default();
        sum.number = part.number;
        sum.completed += part.completed;
        sum.failed += part.failed;
        sum.bytes += part.bytes;
        sum.connections += part.connections;
        sum.length = sum.length.max(part.length);
        sum.times.merge(&part.times);
        *parts += 1;
        let mut whole = Vec::new();
        while let Some(first) = self.open.first_entry() {
            let number = *first.key();
            let absent = self.ended.iter().filter(|last| **last < number).count() as u64;
            if first.get().1 + absent < self.threads {
                break;
            }
            let (part, _) = first.remove();
            // The run may end with an interval.
            if !part.length.is_zero() && (part.length == self.every || part.times.len() > 0) {
                whole.push(self.interval(&part));
            }
        }
        whole
    }

    #[expect(clippy::cast_precision_loss, reason = "few digits are written")]
    fn interval(&self, part: &Part) -> Interval {
        let seconds = part.length.as_secs_f64();
        let times = part.times.statistics(NANOS);
        Interval {
            end: self.every.as_secs_f64() * part.number as f64 + seconds,
            rate: part.completed as f64 / seconds,
            byte_rate: part.bytes as f64 / seconds,
            p50: times.median,
            p99: times.p99,
            max: times.max,
            failed: part.failed,
            connections: part.connections,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns the part of a thread with requests of so many milliseconds.
    fn part(number: u64, millis: &[u64], last: bool) -> Part {
        let mut times = Samples::default();
        for time in millis {
            times.add_time(Duration::from_millis(*time));
        }
        Part {
            number,
            completed: millis.len() as u64,
            bytes: 1000,
            connections: 2,
            times,
            length: if last { SECOND / 2 } else { SECOND },
            last,
            ..Part::default()
        }
    }

    #[test]
    fn an_interval_is_whole_when_every_thread_has_ended_it() {
        let mut intervals = Intervals::new(SECOND, 2);
        assert!(intervals.take(part(0, &[1, 1], false)).is_empty());
        assert!(intervals.take(part(1, &[1], false)).is_empty());
        let whole = intervals.take(part(0, &[3, 3, 3], false));
        let [first] = &whole[..] else {
            panic!("{whole:?}");
        };
        assert_eq!((first.end, first.rate, first.connections), (1.0, 5.0, 4));
        assert!((first.byte_rate - 2000.0).abs() < 1e-9);
        assert!(
            (0.0009..0.0011).contains(&first.p50.min(0.001))
                && (0.0029..0.0031).contains(&first.max)
        );
        assert_eq!(intervals.take(part(1, &[], true)).len(), 1);
        // Nobody waits for the thread that has ended.
        let rest = intervals.take(part(2, &[2], true));
        assert_eq!(rest.iter().map(|rest| (rest.end, rest.rate)).collect::<Vec<_>>(), [(2.5, 2.0)]);
    }

    #[test]
    fn an_empty_end_is_no_interval() {
        let mut intervals = Intervals::new(SECOND, 1);
        assert!(intervals.take(part(0, &[], true)).is_empty());
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any time will do")]
    fn an_account_counts_what_is_new() {
        let (start, mut tally) = (Instant::now(), Tally::default());
        let mut account = IntervalAccount::new(SECOND);
        assert_eq!(account.ends_at(), None);
        account.begin(start);
        (tally.completed, tally.failed, tally.bytes_total) = (7, 1, 100);
        account.add(Duration::from_millis(5));
        assert!(account.ended(start + SECOND / 2, &tally, 3).is_none());
        let first = account.ended(start + SECOND, &tally, 3).unwrap();
        assert_eq!((first.completed, first.failed, first.bytes, first.times.len()), (7, 1, 100, 1));
        tally.completed = 9;
        let last = account.last(start + SECOND * 3 / 2, &tally, 0);
        assert_eq!(
            (last.number, last.completed, last.times.len(), last.length),
            (1, 2, 0, SECOND / 2)
        );
    }

    #[test]
    fn lines_and_objects_have_the_figures() {
        let interval = Interval {
            end: 2.0,
            rate: 1234.5,
            byte_rate: 2_097_152.0,
            p50: 0.0005,
            p99: 0.002,
            max: 0.25,
            failed: 3,
            connections: 16,
        };
        let line = "   2.00s: 1234.50 req/s, 2.00MB/s, p50 500us, p99 2.00ms, max 250.00ms, 3 failed, 16 connections";
        assert_eq!(interval.line(), line);
        assert_eq!(interval.json()["request_per_second"], 1234.5);
    }
}
