//! Startup: doubling until the pipe is full (draft-ietf-ccwg-bbr-06 §5.3.1).

use super::Bbr3;
use super::params::{FULL_BW_GROWTH, FULL_BW_ROUNDS, STARTUP_LOSS_RANGES, scaled};
use super::sampler::RateSample;
use crate::State;

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
    const fn fill(&mut self) {
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

    /// Takes a sample, once per ACK. A round whose sample shows no rate does not count.
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

/// Losses of a round that began with the first loss (§5.3.1.3).
#[derive(Debug, Default)]
pub(super) struct LossRound {
    /// Separate runs of lost packets.
    ranges: u32,
    last: Option<u64>,
    /// Bytes lost and delivered before the round began.
    lost_before: u64,
    delivered_before: u64,
}

impl LossRound {
    /// Begins a round, before its first loss is counted.
    pub(super) fn begin(&mut self, lost: u64, delivered: u64) {
        *self = Self {
            lost_before: lost,
            delivered_before: delivered,
            ..Self::default()
        };
    }

    /// Counts a lost packet.
    pub(super) fn on_lost(&mut self, number: u64) {
        if self.last.and_then(|last| last.checked_add(1)) != Some(number) {
            self.ranges = self.ranges.saturating_add(1);
        }
        self.last = Some(number);
    }

    /// Counts packets with CE marks, each as a run of its own.
    pub(super) const fn on_ce_marked(&mut self, packets: u32) {
        self.ranges = self.ranges.saturating_add(packets);
    }

    /// Returns whether more than the `tolerated` share was lost, and in too many separate runs for one burst of losses.
    /// The newest packet's own state does not show that if the application sends in bursts: its losses come before it.
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
        self.full_pipe.check(sample, self.rounds.started());
    }

    pub(super) fn check_startup_done(&mut self) {
        self.check_startup_high_loss();
        if self.state == State::Startup && self.full_pipe.is_reached() {
            self.enter_drain();
        }
    }

    /// Takes the pipe for full after too many losses, at the end of a round that began with the first loss, and so of a
    /// full round in recovery.
    fn check_startup_high_loss(&mut self) {
        if !self.model.short_term.starts_loss_round() {
            return;
        }
        let round = std::mem::take(&mut self.loss_round);
        let (lost, delivered) = (self.sampler.lost(), self.sampler.delivered());
        let high = round.is_high(lost, delivered, self.params.loss_threshold);
        if self.full_pipe.is_reached() || !high {
            return;
        }
        self.recovery.undo_to(State::Startup);
        self.full_pipe.fill();
        let delivered_in_round = self.model.short_term.inflight_latest();
        self.model
            .long_term
            .set(self.bdp(1.0).max(delivered_in_round));
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
    fn losses_are_high_by_share_and_by_places() {
        let mut round = LossRound::default();
        round.begin(50_000, 100_000);
        [4, 5, 6, 9, 11, 12, 14]
            .iter()
            .for_each(|n| round.on_lost(*n));
        assert_eq!(round.ranges, 4, "consecutive losses are one range");
        assert!(!round.is_high(60_000, 110_000, 0.02));
        round.on_ce_marked(2);
        assert!(round.is_high(60_000, 110_000, 0.02));
        assert!(!round.is_high(50_200, 110_000, 0.02));
    }
}
