//! ProbeRTT: few bytes in flight for a moment, so that the path shows its own round trip
//! (draft-ietf-ccwg-bbr-06 §5.3.4).

use std::time::Duration;

use super::Bbr3;
use super::rtt_probe::{QUEUED, RttProbe};
use super::sampler::RateSample;
use crate::State;

impl Bbr3 {
    /// Enters, follows or leaves ProbeRTT, once per ACK; `rtt_before` is the model's round trip before this ACK, `rtt` the
    /// ACK's own.
    pub(super) fn check_probe_rtt(
        &mut self,
        rtt_before: Option<Duration>,
        rtt: Option<Duration>,
        sample: &RateSample,
    ) {
        let is_due = self.model.min_rtt.is_probe_due();
        let is_time = is_due || self.is_host_delay_wanted(rtt_before);
        if self.state != State::ProbeRtt && is_time && !self.idle_restart {
            self.recovery.save_cwnd(self.output.cwnd(), false);
            self.state = State::ProbeRtt;
            self.rtt_probe = RttProbe::new(rtt_before, !is_due);
            self.cycle.stop();
            self.rounds.restart(self.sampler.delivered());
        }
        if self.state == State::ProbeRtt {
            let (latest_rtt, bw) = (self.observed.latest_rtt, self.model.bw());
            let slower = self.rtt_probe.follow_a_slower_path(sample, latest_rtt, bw);
            if slower && self.observed.in_flight > self.probe_rtt_cwnd() {
                self.rtt_probe.suspend();
                self.host_delay.suspend_visit();
            }
            self.handle_probe_rtt(rtt);
        }
        if sample.delivered > 0 {
            self.idle_restart = false;
        }
    }

    /// Returns whether to visit ProbeRTT early: ten rounds had long round trips, not because ACKs pause, and only a visit tells
    /// whether because of late hosts or of a queue.
    fn is_host_delay_wanted(&self, path: Option<Duration>) -> bool {
        self.is_in_probe_bw()
            && !self.host_delay.has_ended_visit()
            && !self.fall.is_slow()
            && path.is_some_and(|path| {
                if !self.params.is_short(path) {
                    return false;
                }
                let rtt = self.last_rounds.rtt();
                rtt > path * QUEUED && self.last_rounds.gap() < rtt / 2
            })
    }

    /// Waits for 200 ms and a round, counted from when few enough bytes are in flight. Rates measured meanwhile do not
    /// count.
    fn handle_probe_rtt(&mut self, rtt: Option<Duration>) {
        self.sampler.mark_probe_rtt();
        if !self.rtt_probe.is_running() {
            if self.observed.in_flight <= self.probe_rtt_cwnd() {
                self.rtt_probe.run(self.observed.now());
                self.rounds.restart(self.sampler.delivered());
            }
            return;
        }
        if let Some(rtt) = rtt {
            self.host_delay.on_sample(rtt);
        }
        if self.rtt_probe.note_round(self.rounds.started()) {
            self.check_probe_rtt_done();
        }
    }

    /// Leaves ProbeRTT if its time is over; also called at a restart from idle, when that may be long ago (§5.4.1).
    pub(super) fn check_probe_rtt_done(&mut self) {
        let now = self.observed.now();
        if self.rtt_probe.is_done(now) {
            // Flows on one path visit together, and empty its queue. An early visit of one must not change that.
            if !self.rtt_probe.is_early() {
                self.model.min_rtt.end_probe(now);
            }
            self.host_delay.end_visit();
            let cwnd = self.recovery.restored(self.output.cwnd());
            self.output.set_cwnd(cwnd);
            self.exit_probe_rtt();
        }
    }

    /// Continues with an empty path: straight to CRUISE, with a new wait for the next probe (§5.3.4.4).
    fn exit_probe_rtt(&mut self) {
        self.model.short_term.reset_bounds();
        if self.full_pipe.is_reached() {
            self.start_down();
            self.start_cruise();
        } else {
            self.enter_startup();
        }
    }
}
