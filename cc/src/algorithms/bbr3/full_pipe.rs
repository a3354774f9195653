//! Detection of a full pipe (draft-ietf-ccwg-bbr-06 §5.3.1.2).

use super::params::{FULL_BW_GROWTH, FULL_BW_ROUNDS, scaled};
use super::sampler::RateSample;

/// Detects a full pipe by a rate that no longer grows (§5.3.1.2).
#[derive(Debug, Default)]
pub(super) struct FullPipe {
    /// Whether the pipe was ever found full.
    reached: bool,
    /// Whether the pipe was found full since the detector was last reset.
    now: bool,
    /// Rate to grow from.
    baseline: u64,
    rounds: u32,
    /// Whether the rate grew in the latest round, or may be expected to.
    grows: bool,
}

impl FullPipe {
    /// Returns whether the pipe was ever found full.
    pub(super) const fn is_reached(&self) -> bool {
        self.reached
    }

    /// Returns whether the pipe was found full since the detector was last reset.
    pub(super) const fn is_full_now(&self) -> bool {
        self.now
    }

    /// Takes the pipe for full.
    pub(super) const fn fill(&mut self) {
        self.reached = true;
        self.now = true;
    }

    /// Undoes a full pipe that spurious losses suggested.
    pub(super) const fn undo(&mut self) {
        self.reached = false;
    }

    /// Starts over and looks for growth from `baseline`.
    pub(super) const fn reset(&mut self, baseline: u64) {
        self.baseline = baseline;
        self.rounds = 0;
        self.now = false;
    }

    /// Starts over with a probe, whose rate is expected to grow if `grows`.
    pub(super) const fn probe(&mut self, baseline: u64, grows: bool) {
        self.reset(baseline);
        self.grows = grows;
    }

    /// Returns whether the rate grew in the latest round, or is expected to in the first one of a probe.
    pub(super) const fn grows(&self) -> bool {
        self.grows
    }

    /// Takes a sample, once per ACK. A round whose sample shows no rate does not count.
    pub(super) fn check(&mut self, sample: &RateSample, round_start: bool) {
        let Some(rate) = sample.rate else {
            return;
        };
        if self.now || !round_start || sample.app_limited {
            return;
        }
        self.grows = rate >= scaled(self.baseline, FULL_BW_GROWTH);
        if self.grows {
            self.reset(rate);
            return;
        }
        self.rounds += 1;
        self.now = self.rounds >= FULL_BW_ROUNDS;
        self.reached |= self.now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rate: Option<u64>, app_limited: bool) -> RateSample {
        RateSample {
            rate,
            delivered: 0,
            prior_delivered: 0,
            app_limited,
            probe_rtt: false,
            tx_in_flight: 0,
            lost: 0,
            newly_acked: 0,
        }
    }

    #[test]
    fn three_rounds_without_growth_fill_the_pipe() {
        let mut pipe = FullPipe::default();
        for rate in [100, 124, 124] {
            pipe.check(&sample(Some(rate), false), true);
        }
        assert!(!pipe.reached);
        pipe.check(&sample(Some(124), false), true);
        assert!(pipe.reached && pipe.now);
        pipe.reset(0);
        assert!(pipe.reached && !pipe.now);
    }

    #[test]
    fn growth_samples_within_a_round_and_application_limits_do_not_count() {
        let mut pipe = FullPipe::default();
        pipe.check(&sample(Some(100), false), true);
        for _ in 0..10 {
            pipe.check(&sample(Some(100), true), true);
            pipe.check(&sample(Some(100), false), false);
            pipe.check(&sample(None, false), true);
        }
        pipe.check(&sample(Some(100), false), true);
        pipe.check(&sample(Some(100), false), true);
        assert!(!pipe.reached);
        pipe.check(&sample(Some(125), false), true);
        pipe.check(&sample(Some(125), false), true);
        pipe.check(&sample(Some(125), false), true);
        assert!(!pipe.reached, "growth restarts the count");
    }

    #[test]
    fn probe_grows_as_long_as_each_round_does() {
        let mut pipe = FullPipe::default();
        pipe.probe(100, true);
        assert!(pipe.grows());
        for (rate, grows) in [(125, true), (200, true), (240, false), (250, true)] {
            pipe.check(&sample(Some(rate), false), true);
            assert_eq!(pipe.grows(), grows, "{rate}");
        }
        pipe.probe(250, false);
        assert!(!pipe.grows());
    }
}
