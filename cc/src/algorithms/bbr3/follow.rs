//! The answer to a fall of the path's rate, and the way back.

use super::Bbr3;
use super::fall::Sight;
use super::sampler::RateSample;
use crate::State;

/// Round trips up to this many of the path's show that there is no queue.
const EMPTY: f64 = 1.25;

impl Bbr3 {
    /// Follows a fall of the path's rate, once per ACK.
    pub(super) fn follow_falls(&mut self, sample: &RateSample) {
        let now = self.observed.now();
        self.climb.forget(now, self.model.max_bw.get());
        if self.state != State::Drain
            && self.rounds.started()
            && let Some(before) = self.fall.take_back(now, self.observed.latest_rtt)
        {
            self.model.max_bw.update(before);
        }
        // What few bytes in flight deliver is not the path's rate.
        if sample.probe_rtt {
            self.fall.skip();
            return;
        }
        if let Some(rate) = self.sight(sample).and_then(|sight| self.fall.check(&sight)) {
            self.climb.aim(now, self.model.max_bw.get());
            self.model.max_bw.replace(rate);
            self.model.update_bw();
            if self.state != State::ProbeRtt {
                self.enter_drain();
            }
        }
    }

    /// Returns what an ACK shows of a path whose rate is known.
    fn sight(&mut self, sample: &RateSample) -> Option<Sight> {
        let is_cycling = self.is_in_probe_bw() || self.state == State::ProbeRtt;
        if sample.app_limited || !is_cycling {
            self.fall.skip();
            return None;
        }
        Some(Sight {
            now: self.observed.now(),
            rate: sample.rate?,
            delivered: self.sampler.delivered(),
            rtt: self.observed.latest_rtt,
            min_rtt: self.model.min_rtt.get()?,
            max_bw: self.model.max_bw.get(),
            bw: self.model.bw(),
        })
    }

    /// Returns whether to probe before it is time, between two probes.
    pub(super) fn is_time_to_climb(&self) -> bool {
        let path = self.model.min_rtt.get();
        self.cycle.is_between_probes()
            && self.climb.is_due(self.cycle.rounds_since_probe())
            && path.is_some_and(|path| self.observed.latest_rtt <= path.mul_f64(EMPTY))
    }
}
