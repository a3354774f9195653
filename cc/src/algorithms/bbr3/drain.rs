//! Drain: empties the queue that Startup left (draft-ietf-ccwg-bbr-06 §5.3.2).

use super::Bbr3;
use super::params::DRAIN_ROUNDS;
use crate::State;

impl Bbr3 {
    pub(super) const fn enter_drain(&mut self) {
        self.state = State::Drain;
        self.drain_start_round = self.rounds.count();
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
