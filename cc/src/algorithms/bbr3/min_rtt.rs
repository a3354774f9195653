//! The round trip of the empty path, and when to measure it again (draft-ietf-ccwg-bbr-06 §5.3.4.3, §5.5.7).

use std::time::Duration;

use super::params::MIN_RTT_FILTER;
use crate::Time;

/// Two minima: one over ten seconds, which the model uses, and one over the interval of ProbeRTT, whose expiry makes
/// the flow drain the path and measure again.
#[derive(Debug, Default)]
pub(super) struct MinRtt {
    lifetime: Option<Duration>,
    min: Option<Duration>,
    min_stamp: Time,
    probe_min: Option<Duration>,
    probe_stamp: Time,
    /// Whether the interval has passed without a sample as low as the lowest.
    probe_expired: bool,
}

impl MinRtt {
    /// Starts both filters.
    pub(super) const fn start(&mut self, now: Time) {
        self.min_stamp = now;
        self.probe_stamp = now;
    }

    /// Takes a sample, before rates are computed. Returns whether it is the first.
    pub(super) fn on_sample(&mut self, rtt: Duration) -> bool {
        let first = self.lifetime.is_none();
        self.lifetime = Some(self.lifetime.map_or(rtt, |l| l.min(rtt)));
        first
    }

    /// Returns the shortest round trip of the path's life.
    pub(super) const fn lifetime(&self) -> Option<Duration> {
        self.lifetime
    }

    /// Returns the round trip that the model uses; `None` before the first sample.
    pub(super) const fn get(&self) -> Option<Duration> {
        self.min
    }

    /// Returns whether ProbeRTT is due: the interval has passed without a sample as low as the lowest.
    pub(super) const fn is_probe_due(&self) -> bool {
        self.probe_expired
    }

    /// Starts the interval of ProbeRTT, as a visit has ended.
    pub(super) const fn end_probe(&mut self, now: Time) {
        self.probe_stamp = now;
    }

    /// Updates the filters, once per ACK.
    pub(super) fn update(&mut self, now: Time, rtt: Option<Duration>, interval: Duration) {
        self.probe_expired = now > self.probe_stamp + interval;
        if let Some(rtt) = rtt
            && (self.probe_expired || self.probe_min.is_none_or(|min| rtt < min))
        {
            self.probe_min = Some(rtt);
            self.probe_stamp = now;
        }
        let expired = now > self.min_stamp + MIN_RTT_FILTER;
        if let Some(probe) = self.probe_min
            && (expired || self.min.is_none_or(|min| probe < min))
        {
            self.min = Some(probe);
            self.min_stamp = self.probe_stamp;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(5);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(millis: u64) -> Time {
        Time::ZERO + ms(millis)
    }

    #[test]
    fn lower_samples_count_at_once_and_higher_ones_after_ten_seconds() {
        let mut min = MinRtt::default();
        min.start(at(0));
        min.update(at(1), Some(ms(40)), INTERVAL);
        min.update(at(2), Some(ms(30)), INTERVAL);
        min.update(at(3_000), Some(ms(50)), INTERVAL);
        assert_eq!(min.get(), Some(ms(30)));
        assert!(!min.is_probe_due());
        min.update(at(6_000), Some(ms(50)), INTERVAL);
        assert!(min.is_probe_due());
        assert_eq!(min.get(), Some(ms(30)), "the filter is longer than the interval");
        min.update(at(10_003), Some(ms(60)), INTERVAL);
        assert_eq!(min.get(), Some(ms(50)));
    }

    #[test]
    fn expiry_without_a_sample_keeps_the_old_value() {
        let mut min = MinRtt::default();
        min.update(at(60_000), None, INTERVAL);
        assert_eq!(min.get(), None);
        min.update(at(60_001), Some(ms(5)), INTERVAL);
        min.update(at(90_000), None, INTERVAL);
        assert_eq!(min.get(), Some(ms(5)));
    }
}
