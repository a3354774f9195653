//! ProbeBW: slower, even, and faster than the path delivers, in turn (draft-ietf-ccwg-bbr-06 §5.3.3).

use super::Bbr3;
use super::cycle::AckPhase;
use super::params::{HEADROOM, UNBOUNDED, scaled};
use super::sampler::RateSample;
use crate::State;

impl Bbr3 {
    pub(super) const fn is_in_probe_bw(&self) -> bool {
        matches!(
            self.state,
            State::ProbeBwDown | State::ProbeBwCruise | State::ProbeBwRefill | State::ProbeBwUp
        )
    }

    /// Whether the flow tries for more than it knows to be there.
    pub(super) const fn is_accelerating(&self) -> bool {
        matches!(
            self.state,
            State::Startup | State::ProbeBwRefill | State::ProbeBwUp
        )
    }

    pub(super) fn start_down(&mut self) {
        self.short_term.reset_signals();
        self.cycle.begin(self.now);
        self.rounds.restart(self.sampler.delivered());
        self.state = State::ProbeBwDown;
    }

    pub(super) const fn start_cruise(&mut self) {
        self.state = State::ProbeBwCruise;
    }

    pub(super) const fn start_refill(&mut self) {
        self.short_term.reset_bounds();
        self.cycle.refill();
        self.rounds.restart(self.sampler.delivered());
        self.state = State::ProbeBwRefill;
    }

    fn start_up(&mut self, sample: &RateSample) {
        self.cycle.is_probe_sample = true;
        self.cycle.ack_phase = AckPhase::ProbeStarting;
        self.rounds.restart(self.sampler.delivered());
        self.full_pipe.reset(sample.rate.unwrap_or(0));
        self.state = State::ProbeBwUp;
        self.cycle.raise_slope(self.cwnd, self.mtu);
    }

    /// The heart of the cycle, once per ACK (§5.3.3.9).
    pub(super) fn update_cycle(&mut self, sample: &RateSample) {
        if !self.full_pipe.reached || self.adapt_long_term(sample) {
            return;
        }
        let state = self.state;
        match state {
            State::ProbeBwDown if self.is_time_to_probe() => self.start_refill(),
            State::ProbeBwDown if self.is_time_to_cruise() => self.start_cruise(),
            State::ProbeBwCruise if self.is_time_to_probe() => self.start_refill(),
            State::ProbeBwRefill if self.rounds.start => self.start_up(sample),
            State::ProbeBwUp if self.is_time_to_go_down(sample) => {
                self.cycle.prev_too_high = false;
                self.start_down();
            }
            _ => {}
        }
    }

    fn is_time_to_probe(&self) -> bool {
        self.cycle
            .is_due(self.now, self.target_inflight(), self.mtu)
    }

    /// There is headroom, and no queue.
    fn is_time_to_cruise(&self) -> bool {
        self.in_flight <= self.inflight_with_headroom()
            && self.in_flight <= self.inflight(self.max_bw.get(), 1.0)
    }

    fn is_time_to_go_down(&mut self, sample: &RateSample) -> bool {
        if self.cycle.prev_too_high && self.has_reached_longterm() {
            self.cycle.prev_precautionary = true;
            return true;
        }
        if self.cwnd_limit.get() && self.cwnd >= self.inflight_longterm {
            self.full_pipe.reset(sample.rate.unwrap_or(0));
            return false;
        }
        self.full_pipe.now
    }

    /// Whether the flight reached the volume that the probe before found too high (§5.3.3.6).
    ///
    /// The flight counts as it was before this ACK, and as full where no further datagram fits: after an ACK, or in
    /// whole datagrams, a flight bounded by that very volume would never reach it.
    const fn has_reached_longterm(&self) -> bool {
        self.in_flight_before.saturating_add(self.mtu) > self.inflight_longterm
    }

    /// The part of the long-term flight that leaves headroom for others.
    pub(super) fn inflight_with_headroom(&self) -> u64 {
        if self.inflight_longterm == UNBOUNDED {
            return UNBOUNDED;
        }
        let headroom = scaled(self.inflight_longterm, HEADROOM).max(self.mtu);
        self.inflight_longterm
            .saturating_sub(headroom)
            .max(self.min_window())
    }

    /// What the flow wants in flight: the estimated path, unless congestion cut the window.
    pub(super) fn target_inflight(&self) -> u64 {
        self.bdp(1.0).min(self.cwnd)
    }

    /// Follows what ACKs mean, and raises the long-term flight where losses allow. True where that decided on a state.
    fn adapt_long_term(&mut self, sample: &RateSample) -> bool {
        if self.cycle.ack_phase == AckPhase::ProbeStarting && self.rounds.start {
            self.cycle.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.cycle.ack_phase == AckPhase::ProbeStopping
            && self.rounds.start
            && self.end_feedback(sample)
        {
            return true;
        }
        if self.inflight_longterm == UNBOUNDED || self.is_too_high(sample.lost, sample.tx_in_flight)
        {
            return false;
        }
        self.inflight_longterm = self.inflight_longterm.max(sample.tx_in_flight);
        if self.state == State::ProbeBwUp {
            self.probe_upward(sample);
        }
        false
    }

    /// The last ACK of the latest probe is in. True where it tells to probe again at once (§5.3.3.6).
    fn end_feedback(&mut self, sample: &RateSample) -> bool {
        self.cycle.is_probe_sample = false;
        self.cycle.ack_phase = AckPhase::Init;
        if !self.is_in_probe_bw() {
            return false;
        }
        if !sample.app_limited {
            self.max_bw.advance();
        }
        let again = self.cycle.prev_precautionary && !self.cycle.prev_too_high;
        if again {
            self.start_refill();
        }
        again
    }

    fn probe_upward(&mut self, sample: &RateSample) {
        if !self.cwnd_limit.get() || self.cwnd < self.inflight_longterm {
            return;
        }
        let steps = self.cycle.growth(sample.newly_acked);
        let growth = steps.saturating_mul(self.mtu);
        self.inflight_longterm = self.inflight_longterm.saturating_add(growth);
        if self.rounds.start {
            self.cycle.raise_slope(self.cwnd, self.mtu);
        }
    }
}
