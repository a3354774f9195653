//! Startup: doubling until the pipe is full (draft-ietf-ccwg-bbr-06 §5.3.1).

use super::Bbr3;
use super::params::{FULL_BW_GROWTH, FULL_BW_ROUNDS, STARTUP_LOSS_RANGES, scaled};
use super::sampler::RateSample;
use crate::State;

/// Tells a full pipe by a rate that no longer grows (§5.3.1.2).
#[derive(Debug, Default)]
pub(super) struct FullPipe {
    /// Whether it was ever found full.
    pub(super) reached: bool,
    /// Whether it was found full since the detector was last reset.
    pub(super) now: bool,
    /// Rate to grow from.
    baseline: u64,
    rounds: u32,
}

impl FullPipe {
    /// Looks anew, for growth from `baseline`.
    pub(super) const fn reset(&mut self, baseline: u64) {
        self.baseline = baseline;
        self.rounds = 0;
        self.now = false;
    }

    /// Once per ACK. A round whose sample shows no rate tells nothing.
    fn check(&mut self, sample: &RateSample, round_start: bool) {
        let Some(rate) = sample.rate else {
            return;
        };
        if self.now || !round_start || sample.app_limited {
            return;
        }
        if rate >= scaled(self.baseline, FULL_BW_GROWTH) {
            self.reset(rate);
            return;
        }
        self.rounds += 1;
        self.now = self.rounds >= FULL_BW_ROUNDS;
        self.reached |= self.now;
    }
}

/// What was lost in the round that began with the first loss (§5.3.1.3).
#[derive(Debug, Default)]
pub(super) struct LossRound {
    /// Separate runs of lost packets.
    ranges: u32,
    last: Option<u64>,
    /// All that was lost and delivered when the round began.
    lost_before: u64,
    delivered_before: u64,
}

impl LossRound {
    /// The first loss of a round is about to be counted.
    pub(super) fn begin(&mut self, lost: u64, delivered: u64) {
        *self = Self {
            lost_before: lost,
            delivered_before: delivered,
            ..Self::default()
        };
    }

    pub(super) fn on_lost(&mut self, number: u64) {
        if self.last.and_then(|last| last.checked_add(1)) != Some(number) {
            self.ranges = self.ranges.saturating_add(1);
        }
        self.last = Some(number);
    }

    /// Each marked packet stands alone.
    pub(super) const fn on_marked(&mut self, packets: u32) {
        self.ranges = self.ranges.saturating_add(packets);
    }

    /// Whether more than the `tolerated` share was lost, and at too many places for a burst of bad luck. The newest
    /// packet's own record does not tell where the application sends flight by flight: none is lost after the first
    /// of a flight.
    fn is_high(&self, lost: u64, delivered: u64, tolerated: f64) -> bool {
        let lost = lost.saturating_sub(self.lost_before);
        let all = lost.saturating_add(delivered.saturating_sub(self.delivered_before));
        self.ranges >= STARTUP_LOSS_RANGES && lost as f64 > all as f64 * tolerated
    }
}

impl Bbr3 {
    pub(super) const fn enter_startup(&mut self) {
        self.state = State::Startup;
    }

    pub(super) fn check_full_pipe(&mut self, sample: &RateSample) {
        self.full_pipe.check(sample, self.rounds.start);
    }

    pub(super) fn check_startup_done(&mut self) {
        self.check_startup_high_loss();
        if self.state == State::Startup && self.full_pipe.reached {
            self.enter_drain();
        }
    }

    /// At the end of a round that began with the first loss, and so of a full round in recovery.
    fn check_startup_high_loss(&mut self) {
        if !self.short_term.loss_round_start {
            return;
        }
        let round = std::mem::take(&mut self.loss_round);
        let (lost, delivered) = (self.sampler.lost(), self.sampler.delivered());
        let high = round.is_high(lost, delivered, self.params.loss_threshold);
        if self.full_pipe.reached || !high {
            return;
        }
        self.recovery.undo_to(State::Startup);
        self.full_pipe.reached = true;
        self.full_pipe.now = true;
        self.inflight_longterm = self.bdp(1.0).max(self.short_term.inflight_latest());
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
        assert!(!pipe.reached, "growth begins the count anew");
    }

    #[test]
    fn losses_are_high_by_share_and_by_places() {
        let mut round = LossRound::default();
        round.begin(50_000, 100_000);
        [4, 5, 6, 9, 11, 12, 14]
            .iter()
            .for_each(|n| round.on_lost(*n));
        assert_eq!(round.ranges, 4, "consecutive losses are one range");
        assert!(!round.is_high(60_000, 110_000, 0.02));
        round.on_marked(2);
        assert!(round.is_high(60_000, 110_000, 0.02));
        assert!(!round.is_high(50_200, 110_000, 0.02));
    }
}
