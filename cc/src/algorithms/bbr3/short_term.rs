//! The short-term bounds: the response to losses while the flow does not probe (draft-ietf-ccwg-bbr-06 §5.5.10.3).

use super::params::{BETA, PACING_MARGIN, UNBOUNDED, bounded, scaled};
use super::sampler::RateSample;

/// The latest round's delivery, its losses, and the bounds that follow.
#[derive(Debug)]
pub(super) struct ShortTerm {
    /// Bound on the rate, bytes per second.
    bw: u64,
    /// Bound on the bytes in flight.
    inflight: u64,
    /// Highest rate and most bytes delivered in the present round.
    bw_latest: u64,
    inflight_latest: u64,
    /// Whether something was lost in the present round.
    loss_in_round: bool,
    loss_round_delivered: u64,
    /// Smallest gain of pacing in the present round and the one before.
    gain_this_round: f64,
    gain_last_round: f64,
    /// Whether the present event began a round since the first loss.
    loss_round_start: bool,
}

impl ShortTerm {
    /// Returns no bounds.
    pub(super) const fn new() -> Self {
        Self {
            bw: UNBOUNDED,
            inflight: UNBOUNDED,
            bw_latest: 0,
            inflight_latest: 0,
            loss_in_round: false,
            loss_round_delivered: 0,
            gain_this_round: 1.0,
            gain_last_round: 1.0,
            loss_round_start: false,
        }
    }

    /// Returns the bound on the rate; [`UNBOUNDED`] for none.
    pub(super) const fn bw(&self) -> u64 {
        self.bw
    }

    /// Returns the bound on the bytes in flight; [`UNBOUNDED`] for none.
    pub(super) const fn inflight(&self) -> u64 {
        self.inflight
    }

    /// Returns whether the present event began a round since the first loss.
    pub(super) const fn starts_loss_round(&self) -> bool {
        self.loss_round_start
    }

    /// Returns the bytes that the path delivered in the latest round.
    pub(super) const fn inflight_latest(&self) -> u64 {
        self.inflight_latest
    }

    /// A packet was lost after `delivered` bytes were delivered. Returns whether it is the first of its round.
    pub(super) const fn note_loss(&mut self, delivered: u64) -> bool {
        let first = !self.loss_in_round;
        if first {
            self.loss_round_delivered = delivered;
        }
        self.loss_in_round = true;
        first
    }

    /// Takes the sample near the start of an ACK's processing.
    pub(super) fn update_latest(&mut self, sample: &RateSample, delivered: u64) {
        self.bw_latest = self.bw_latest.max(sample.rate.unwrap_or(0));
        self.inflight_latest = self.inflight_latest.max(sample.delivered);
        self.loss_round_start = sample.prior_delivered >= self.loss_round_delivered;
        if self.loss_round_start {
            self.loss_round_delivered = delivered;
        }
    }

    /// Takes the sample near the end of an ACK's processing.
    pub(super) fn advance_latest(&mut self, sample: &RateSample, gain: f64) {
        self.gain_this_round = self.gain_this_round.min(gain);
        if self.loss_round_start {
            self.gain_last_round = self.gain_this_round;
            self.gain_this_round = gain;
            self.bw_latest = sample.rate.unwrap_or(0);
            self.inflight_latest = sample.delivered;
        }
    }

    /// Ends a round that began with a loss. If it counts, its losses lower the bounds; `tolerated` is the share of loss
    /// that probing may cost.
    pub(super) fn end_loss_round(&mut self, tolerated: Option<f64>, max_bw: u64, cwnd: u64) {
        if let Some(tolerated) = tolerated
            && self.loss_in_round
        {
            self.lower(max_bw, cwnd, tolerated);
        }
        self.loss_in_round = false;
    }

    /// Lowers the bounds towards what the path delivered, by no more than CUBIC's cut.
    fn lower(&mut self, max_bw: u64, cwnd: u64, tolerated: f64) {
        if self.bw == UNBOUNDED {
            self.bw = max_bw;
        }
        if self.inflight == UNBOUNDED {
            self.inflight = cwnd;
        }
        self.bw = self.deliverable(max_bw, tolerated).max(scaled(self.bw, BETA));
        self.inflight = self.inflight_latest.max(scaled(self.inflight, BETA));
    }

    /// Returns the rate that the latest round shows to be available.
    ///
    /// A flow paced below its rate cannot have more delivered than it sent. If all of that arrived, but for a tolerated
    /// share, its own pacing is divided out, or each round with a loss would cost the margin of pacing, and a tenth in
    /// DOWN: the text (§5.3.3.8.3) wants the rate lowered by the share of loss, the pseudocode takes more.
    fn deliverable(&self, max_bw: u64, tolerated: f64) -> u64 {
        let pacing = self.gain_this_round.min(self.gain_last_round) * PACING_MARGIN;
        let sent = scaled(self.bw.min(max_bw), pacing);
        if self.bw_latest < scaled(sent, 1.0 - tolerated) {
            return self.bw_latest;
        }
        scaled(self.bw_latest, 1.0 / pacing).min(self.bw).max(self.bw_latest)
    }

    /// Drops the bounds, as a probe begins.
    pub(super) const fn reset_bounds(&mut self) {
        self.bw = UNBOUNDED;
        self.inflight = UNBOUNDED;
    }

    /// Forgets the signals of the cycle before.
    pub(super) const fn reset_signals(&mut self) {
        self.loss_in_round = false;
        self.bw_latest = 0;
        self.inflight_latest = 0;
    }

    /// Restores the bounds from before a spurious episode, if they were higher.
    pub(super) fn undo(&mut self, bw: u64, inflight: u64) {
        self.loss_in_round = false;
        self.bw = self.bw.max(bw);
        self.inflight = self.inflight.max(inflight);
    }

    /// Returns the bounds for a plot: rate and bytes in flight.
    pub(super) fn bounds(&self) -> (Option<u64>, Option<u64>) {
        (bounded(self.bw), bounded(self.inflight))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rate: u64, delivered: u64, prior_delivered: u64) -> RateSample {
        RateSample {
            rate: Some(rate),
            delivered,
            prior_delivered,
            app_limited: false,
            tx_in_flight: delivered,
            lost: 0,
            newly_acked: 1_200,
            probe_rtt: false,
        }
    }

    #[test]
    fn bounds_follow_what_was_delivered_but_fall_by_no_more_than_beta() {
        let mut short = ShortTerm::new();
        short.update_latest(&sample(90, 900, 0), 900);
        short.lower(100, 1_000, 0.02);
        assert_eq!((short.bw, short.inflight), (90, 900));
        short.reset_signals();
        short.update_latest(&sample(10, 100, 900), 1_000);
        short.lower(100, 1_000, 0.02);
        assert!((62..=63).contains(&short.bw) && (629..=630).contains(&short.inflight));
        short.reset_bounds();
        assert_eq!(short.bounds(), (None, None));
    }

    #[test]
    fn loss_round_lasts_until_a_packet_sent_after_the_first_loss_is_acknowledged() {
        let mut short = ShortTerm::new();
        short.update_latest(&sample(1, 1, 0), 10_000);
        assert!(short.note_loss(20_000));
        assert!(!short.note_loss(21_000), "the second of the round");
        short.update_latest(&sample(1, 1, 19_000), 25_000);
        assert!(!short.loss_round_start);
        short.update_latest(&sample(1, 1, 20_000), 26_000);
        assert!(short.loss_round_start);
    }
}
