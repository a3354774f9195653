//! Startup: doubling until the pipe is full; Drain: empties the queue that Startup left (draft-ietf-ccwg-bbr-06 §5.3.1, §5.3.2).

use super::Bbr3;
use super::params::DRAIN_ROUNDS;
use super::sampler::RateSample;
use crate::State;

impl Bbr3 {
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
        self.model.long_term.set(self.bdp(1.0).max(delivered_in_round));
    }

    /// Ends Drain when the bytes in flight fit the path, or after three rounds if the rate was overestimated.
    pub(super) fn check_drain_done(&mut self) {
        if self.state != State::Drain {
            return;
        }
        let too_long = self.rounds.count() > self.drain_start_round + DRAIN_ROUNDS;
        if self.observed.in_flight <= self.inflight(self.model.bw(), 1.0) || too_long {
            self.start_down();
        }
    }
}
