//! ProbeBW: slower, even, and faster than the path delivers, in turn (draft-ietf-ccwg-bbr-06 §5.3.3).

use super::Bbr3;
use super::sampler::RateSample;
use crate::State;

impl Bbr3 {
    /// Moves on in the cycle, once per ACK (§5.3.3.9).
    pub(super) fn update_cycle(&mut self, sample: &RateSample) {
        if !self.full_pipe.is_reached() || self.adapt_long_term(sample) {
            return;
        }
        match self.state {
            State::ProbeBwDown | State::ProbeBwCruise if self.is_time_to_probe() => {
                self.start_refill();
            }
            State::ProbeBwDown | State::ProbeBwCruise if self.is_time_to_climb() => {
                self.climb.probe();
                self.start_refill();
            }
            State::ProbeBwDown if self.is_time_to_cruise() => self.start_cruise(),
            State::ProbeBwRefill if self.rounds.started() => self.start_up(sample),
            State::ProbeBwUp => self.check_probe_done(sample),
            _ => {}
        }
    }

    fn is_time_to_probe(&self) -> bool {
        let target = self.target_inflight();
        self.cycle.is_due(self.observed.now(), target, self.sizes.mtu())
    }

    /// Returns whether there is headroom and no queue.
    fn is_time_to_cruise(&self) -> bool {
        let in_flight = self.observed.in_flight;
        in_flight <= self.inflight_with_headroom()
            && in_flight <= self.inflight(self.model.max_bw.get(), 1.0)
    }

    /// Ends UP if the probe reached the bytes in flight that the one before found too high, or if the pipe is full.
    fn check_probe_done(&mut self, sample: &RateSample) {
        let precautionary = self.cycle.was_too_high() && self.has_reached_longterm();
        if !precautionary {
            if self.is_bounded_by_longterm() {
                self.full_pipe.reset(sample.rate.unwrap_or(0));
                return;
            }
            if !self.full_pipe.is_full_now() {
                return;
            }
        }
        self.cycle.end_probe(precautionary);
        self.start_down();
    }

    /// Returns whether the bytes in flight reached those that the probe before found too high (§5.3.3.6).
    ///
    /// They count as they were before this ACK, and as reached if no further datagram fits: after an ACK, or in whole
    /// datagrams, a flow held by that very bound would never reach it.
    const fn has_reached_longterm(&self) -> bool {
        let in_flight = self.observed.in_flight_before;
        in_flight.saturating_add(self.sizes.mtu()) > self.model.long_term.get()
    }

    /// Returns whether the window is in full use and as large as the long-term bound.
    const fn is_bounded_by_longterm(&self) -> bool {
        self.cwnd_limit.get() && self.output.cwnd() >= self.model.long_term.get()
    }

    /// Follows the meaning of ACKs, and raises the long-term bound if losses allow. Returns whether that decided on a
    /// state.
    fn adapt_long_term(&mut self, sample: &RateSample) -> bool {
        if self.rounds.started() && self.cycle.on_round_start() && self.end_feedback(sample) {
            return true;
        }
        let tolerance = self.tolerance();
        if !self.model.long_term.is_bounded()
            || tolerance.is_exceeded(sample.lost, sample.tx_in_flight)
        {
            return false;
        }
        self.model.long_term.raise(sample.tx_in_flight);
        if self.state == State::ProbeBwUp {
            self.probe_upward(sample);
        }
        false
    }

    /// Ends the feedback of the latest probe. Returns whether to probe again at once (§5.3.3.6).
    fn end_feedback(&mut self, sample: &RateSample) -> bool {
        if !self.is_in_probe_bw() {
            return false;
        }
        if !sample.app_limited {
            self.model.max_bw.advance();
        }
        let again = self.cycle.is_repeat_due();
        if again {
            self.start_refill();
        }
        again
    }

    /// Grows the long-term bound while it is what limits the probe (§5.3.3.5).
    fn probe_upward(&mut self, sample: &RateSample) {
        if !self.is_bounded_by_longterm() {
            return;
        }
        let steps = self.cycle.growth(sample.newly_acked);
        self.model.long_term.grow(steps.saturating_mul(self.sizes.mtu()));
        if self.rounds.started() {
            self.cycle.raise_slope(self.output.cwnd(), self.sizes.mtu());
        }
    }
}
