//! Startup: doubling until the pipe is full (draft-ietf-ccwg-bbr-06 §5.3.1).

use super::Bbr3;
use super::sampler::RateSample;
use crate::State;

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
        self.model.long_term.set(self.bdp(1.0).max(delivered_in_round));
    }
}
