//! Figures of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::busy::Busy;

/// Causes of failed connections that are counted each by itself. Texts of servers are part of them, so their number is bounded.
const MAX_CAUSES: usize = 16;

/// Values of one kind, however many there are: percentiles come from a histogram with three significant digits, all else is exact.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Samples {
    histogram: Histogram<u64>,
    min: u64,
    max: u64,
    mean: f64,
    /// Sum of the squared distances from the mean.
    squares: f64,
}

/// Statistics of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Statistics {
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) median: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) mean: f64,
    pub(crate) sd: f64,
    /// Percentage of the samples within a standard deviation of the mean.
    pub(crate) within_sd: f64,
}

impl Default for Samples {
    fn default() -> Self {
        let histogram = Histogram::new(3);
        Samples {
            histogram: histogram.unwrap_or_else(|_| unreachable!("three digits are allowed")),
            min: u64::MAX,
            max: 0,
            mean: 0.0,
            squares: 0.0,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "means and deviations are rounded anyway")]
impl Samples {
    /// Adds a value.
    pub(crate) fn add(&mut self, value: u64) {
        // The histogram grows to any value of 64 bits.
        let _ = self.histogram.record(value);
        (self.min, self.max) = (self.min.min(value), self.max.max(value));
        // Welford's method.
        let distance = value as f64 - self.mean;
        self.mean += distance / self.len() as f64;
        self.squares += distance * (value as f64 - self.mean);
    }

    /// Adds a time, in nanoseconds.
    pub(crate) fn add_time(&mut self, time: Duration) {
        self.add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds the values of another thread.
    pub(crate) fn merge(&mut self, other: &Samples) {
        let (own, others) = (self.len() as f64, other.len() as f64);
        if other.len() == 0 {
            return;
        }
        let distance = other.mean - self.mean;
        self.mean += distance * others / (own + others);
        self.squares += other.squares + distance * distance * own * others / (own + others);
        (self.min, self.max) = (self.min.min(other.min), self.max.max(other.max));
        let _ = self.histogram.add(&other.histogram);
    }

    /// Returns how many samples have which value.
    pub(crate) fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }

    /// Returns the smallest and the largest sample, if there are any.
    pub(crate) fn bounds(&self) -> Option<(u64, u64)> {
        (self.min <= self.max).then_some((self.min, self.max))
    }

    /// Returns the number of samples.
    pub(crate) fn len(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the statistics, with each value divided by `unit`.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "samples are not negative and have 64 bits"
    )]
    pub(crate) fn statistics(&self, unit: f64) -> Statistics {
        let count = self.len();
        if count == 0 {
            return Statistics::default();
        }
        let quantile = |quantile: f64| {
            let value = self.histogram.value_at_quantile(quantile);
            value.clamp(self.min, self.max) as f64 / unit
        };
        let sd = (self.squares / count as f64).sqrt();
        let (low, high) = ((self.mean - sd).ceil(), (self.mean + sd).floor());
        // If all are equal, no whole number may lie between the bounds.
        let within = self.histogram.count_between(low as u64, high.max(low) as u64);
        Statistics {
            min: self.min as f64 / unit,
            max: self.max as f64 / unit,
            median: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
            p999: quantile(0.999),
            mean: self.mean / unit,
            sd: sd / unit,
            within_sd: within.min(count) as f64 / count as f64 * 100.0,
        }
    }
}

/// Figures of a thread, or of all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Protocol of the first connection that had a handshake.
    pub(crate) protocol: Option<String>,
    /// Requests that were to be made.
    pub(crate) total: u64,
    pub(crate) started: u64,
    /// Requests that ended, with a response or without.
    pub(crate) done: u64,
    /// Complete responses of any status.
    pub(crate) completed: u64,
    /// Complete responses with a status below 400.
    pub(crate) succeeded: u64,
    /// Requests that did not succeed.
    pub(crate) failed: u64,
    /// Requests without a complete response.
    pub(crate) errored: u64,
    /// Requests that were open when their connection was closed by a timeout.
    pub(crate) timed_out: u64,
    /// Responses by the first digit of their status.
    pub(crate) status: [u64; 6],
    /// Bytes of UDP payload, or of TCP without TLS, that were received.
    pub(crate) bytes_total: u64,
    /// Bytes of field sections as they were sent.
    pub(crate) bytes_head: u64,
    /// Bytes of field sections without compression.
    pub(crate) bytes_head_plain: u64,
    pub(crate) bytes_body: u64,
    pub(crate) datagrams_sent: u64,
    pub(crate) datagrams_received: u64,
    /// Requests of the open loop that were due and could not be sent, because no stream was free.
    pub(crate) backlog: u64,
    /// Requests that were open at the end.
    pub(crate) unfinished: u64,
    /// Times of requests, nanoseconds; all times are.
    pub(crate) request: Samples,
    /// Times from when a request of the open loop was due, and a connection had room for it, to when it was sent.
    pub(crate) send_lag: Samples,
    /// Times of handshakes.
    pub(crate) connect: Samples,
    /// Times from the start of a connection to the first byte of a response.
    pub(crate) first_byte: Samples,
    /// Requests per second of each connection, in thousandths.
    pub(crate) rate: Samples,
    pub(crate) min_rtt: Samples,
    pub(crate) smoothed_rtt: Samples,
    /// Packets of each connection.
    pub(crate) packets_sent: Samples,
    pub(crate) packets_received: Samples,
    pub(crate) packets_lost: Samples,
    /// Datagrams of each message that was received.
    pub(crate) gro: Samples,
    /// Connections that failed, by cause.
    pub(crate) failures: BTreeMap<String, u64>,
    /// What went wrong in the run itself: the report misses something.
    pub(crate) errors: Vec<String>,
    /// Connections that completed their handshakes.
    pub(crate) connections: u64,
    /// Those of them that resumed a session.
    pub(crate) resumed: u64,
    /// Those that sent requests in early data, and whose server accepted or rejected it.
    pub(crate) early_accepted: u64,
    pub(crate) early_rejected: u64,
    /// Times of each thread.
    pub(crate) busy: Vec<Busy>,
}

impl Tally {
    /// Counts connections that failed for a reason.
    pub(crate) fn fail(&mut self, cause: String, connections: u64) {
        let known = self.failures.len() < MAX_CAUSES || self.failures.contains_key(&cause);
        let cause = if known { cause } else { "other causes".into() };
        *self.failures.entry(cause).or_default() += connections;
    }

    /// Counts requests that have or will have no response.
    pub(crate) fn abandon(&mut self, requests: u64) {
        self.failed += requests;
        self.errored += requests;
    }

    /// Closes the account: requests that were not made count as failed, if `total` says how many there were to be. A run with a
    /// duration has made those that it has made.
    pub(crate) fn close(&mut self, total: Option<u64>) {
        let ended = self.succeeded + self.failed;
        self.total = total.unwrap_or(ended);
        self.abandon(self.total.saturating_sub(ended));
    }

    /// Adds the figures of another thread.
    pub(crate) fn merge(&mut self, mut other: Tally) {
        for (sum, part) in self.counts().into_iter().zip(other.counts()) {
            *sum += *part;
        }
        for (sum, part) in self.samples().into_iter().zip(other.samples()) {
            sum.merge(part);
        }
        for (cause, count) in other.failures {
            self.fail(cause, count);
        }
        self.protocol = self.protocol.take().or(other.protocol);
        self.busy.extend(other.busy);
        self.errors.extend(other.errors);
    }

    fn counts(&mut self) -> Vec<&mut u64> {
        let mut counts = vec![
            &mut self.total,
            &mut self.started,
            &mut self.done,
            &mut self.completed,
            &mut self.succeeded,
            &mut self.failed,
            &mut self.errored,
            &mut self.timed_out,
            &mut self.bytes_total,
            &mut self.bytes_head,
            &mut self.bytes_head_plain,
            &mut self.bytes_body,
            &mut self.datagrams_sent,
            &mut self.datagrams_received,
            &mut self.backlog,
            &mut self.unfinished,
            &mut self.connections,
            &mut self.resumed,
            &mut self.early_accepted,
            &mut self.early_rejected,
        ];
        counts.extend(&mut self.status);
        counts
    }

    fn samples(&mut self) -> [&mut Samples; 11] {
        [
            &mut self.request,
            &mut self.send_lag,
            &mut self.connect,
            &mut self.first_byte,
            &mut self.rate,
            &mut self.min_rtt,
            &mut self.smoothed_rtt,
            &mut self.packets_sent,
            &mut self.packets_received,
            &mut self.packets_lost,
            &mut self.gro,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_those_of_the_samples() {
        let mut samples = Samples::default();
        assert_eq!(samples.statistics(1.0), Statistics::default());
        for value in 1..=1000 {
            samples.add(value);
        }
        let all = samples.statistics(1.0);
        assert_eq!((all.min, all.max, all.median), (1.0, 1000.0, 500.0));
        assert_eq!((all.p95, all.p99, all.p999), (950.0, 990.0, 999.0));
        assert!((all.mean - 500.5).abs() < 1e-9 && (all.sd - 288.675).abs() < 1e-3);
        // 212..=789 of a uniform distribution.
        assert!((all.within_sd - 57.8).abs() < 0.5, "{all:?}");
    }

    #[test]
    fn equal_samples_lie_within_the_deviation() {
        let mut samples = Samples::default();
        for _ in 0..5 {
            samples.add_time(Duration::from_micros(123_456_789));
        }
        let all = samples.statistics(1e9);
        assert!((all.within_sd - 100.0).abs() < 1e-9, "{all:?}");
        assert!((all.mean - 123.456_789).abs() < 1e-9);
    }

    #[test]
    fn extreme_samples_are_taken() {
        let mut samples = Samples::default();
        samples.add(0);
        samples.add(u64::MAX);
        assert_eq!(samples.len(), 2);
        assert!(samples.statistics(1.0).mean > 0.0);
    }

    #[test]
    fn parts_merge_into_the_statistics_of_the_whole() {
        let (mut whole, mut sum) = (Samples::default(), Samples::default());
        let mut parts = [(); 3].map(|()| Samples::default());
        for value in (0..3000u64).map(|i| i * i % 977) {
            whole.add(value);
            parts[usize::from(value % 5 == 0)].add(value);
        }
        parts.iter().for_each(|part| sum.merge(part));
        let (whole, sum) = (whole.statistics(1.0), sum.statistics(1.0));
        assert_eq!((whole.median, whole.min, whole.max), (sum.median, sum.min, sum.max));
        assert!((whole.mean - sum.mean).abs() < 1e-6 && (whole.sd - sum.sd).abs() < 1e-6);
    }

    #[test]
    fn threads_add_up() {
        let mut sum = Tally::default();
        for _ in 0..2 {
            let mut thread = Tally {
                done: 3,
                status: [0, 0, 2, 0, 1, 0],
                errors: vec!["error".into()],
                ..Tally::default()
            };
            thread.request.add(7);
            thread.fail("cause".into(), 2);
            thread.abandon(1);
            sum.merge(thread);
        }
        assert_eq!((sum.done, sum.status[2], sum.status[4]), (6, 4, 2));
        assert_eq!(sum.errors.len(), 2);
        assert_eq!((sum.request.len(), sum.failed, sum.errored), (2, 2, 2));
        assert_eq!(sum.failures["cause"], 4);
    }

    #[test]
    fn causes_are_bounded() {
        let mut tally = Tally::default();
        for cause in 0..100 {
            tally.fail(cause.to_string(), 1);
        }
        assert_eq!(tally.failures.len(), MAX_CAUSES + 1);
        assert_eq!(tally.failures.values().sum::<u64>(), 100);
    }
}
