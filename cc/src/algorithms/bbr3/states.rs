//! The states, and how each begins (draft-ietf-ccwg-bbr-06 §5.3). The file of each state says when it ends.

use super::Bbr3;
use super::sampler::RateSample;
use crate::State;

impl Bbr3 {
    /// Returns whether the state is one of the four of ProbeBW.
    pub(super) const fn is_in_probe_bw(&self) -> bool {
        matches!(
            self.state,
            State::ProbeBwDown | State::ProbeBwCruise | State::ProbeBwRefill | State::ProbeBwUp
        )
    }

    /// Returns whether the flow tries for more than its estimates.
    pub(super) const fn is_accelerating(&self) -> bool {
        matches!(self.state, State::Startup | State::ProbeBwRefill | State::ProbeBwUp)
    }

    /// Returns whether a probe doubles the rate: in its first round, and after one in which the rate grew. A path that other
    /// flows or late hosts make uneven seems to grow, too, so that only the way back from a fall is so steep.
    pub(super) const fn is_climbing(&self) -> bool {
        self.climb.is_on() && self.full_pipe.grows()
    }

    pub(super) const fn enter_startup(&mut self) {
        self.state = State::Startup;
    }

    pub(super) const fn enter_drain(&mut self) {
        self.state = State::Drain;
        self.drain_start_round = self.rounds.count();
    }

    pub(super) fn start_down(&mut self) {
        self.model.short_term.reset_signals();
        let next = self.recovery.next_packet();
        self.cycle.begin(self.observed.now(), next);
        self.rounds.restart(self.sampler.delivered());
        self.state = State::ProbeBwDown;
    }

    pub(super) const fn start_cruise(&mut self) {
        self.state = State::ProbeBwCruise;
    }

    pub(super) const fn start_refill(&mut self) {
        self.model.short_term.reset_bounds();
        self.cycle.refill();
        self.rounds.restart(self.sampler.delivered());
        self.state = State::ProbeBwRefill;
    }

    pub(super) fn start_up(&mut self, sample: &RateSample) {
        self.cycle.probe();
        self.rounds.restart(self.sampler.delivered());
        let baseline = sample.rate.unwrap_or(0);
        self.full_pipe.probe(baseline, self.climb.is_on());
        self.state = State::ProbeBwUp;
        self.cycle.raise_slope(self.output.cwnd(), self.sizes.mtu());
    }
}
