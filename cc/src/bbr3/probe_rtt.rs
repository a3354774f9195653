//! ProbeRTT: a small flight for a moment, so that the path shows its own round trip (draft-ietf-ccwg-bbr-06 §5.3.4).

use std::time::Duration;

use super::Bbr3;
use super::cycle::AckPhase;
use super::params::{PROBE_RTT_CWND_GAIN, PROBE_RTT_DURATION, UNBOUNDED};
use super::sampler::RateSample;
use crate::{State, Time};

/// Round trips this many times the path's show a queue.
const QUEUED: u32 = 2;

/// A path this many times slower than the model is another path: half of its volume leaves no queue otherwise.
const SLOWER: u64 = 4;

/// How far a visit to ProbeRTT has got.
#[derive(Debug, Default)]
pub(super) struct ProbeRtt {
    /// When it may end; `None` until the flight is small.
    done: Option<Time>,
    round_done: bool,
    /// The round trip that the model used before the visit. The one that expires as the visit begins is replaced by
    /// the latest sample, queue and all, and half a path of that length may be a full queue.
    rtt_before: Option<Duration>,
    /// The rate of the path where a queue stays though the flight is small; no bound before that is seen.
    bw: u64,
}

impl Bbr3 {
    /// Once per ACK; `rtt_before` is the model's round trip before this ACK.
    pub(super) fn check_probe_rtt(&mut self, rtt_before: Option<Duration>, sample: &RateSample) {
        if self.state != State::ProbeRtt && self.min_rtt.probe_expired && !self.idle_restart {
            self.recovery.save_cwnd(self.cwnd, false);
            self.state = State::ProbeRtt;
            self.probe_rtt = ProbeRtt {
                done: None,
                round_done: false,
                rtt_before,
                bw: UNBOUNDED,
            };
            self.cycle.ack_phase = AckPhase::ProbeStopping;
            self.rounds.restart(self.sampler.delivered());
        }
        if self.state == State::ProbeRtt {
            self.follow_a_slower_path(sample);
            self.handle_probe_rtt();
        }
        if sample.delivered > 0 {
            self.idle_restart = false;
        }
    }

    /// A path that became much slower is known by its old rate for two more cycles, and half of its old volume can be
    /// a full queue now, which would be taken for the path's own round trip. As long as round trips show a queue, what
    /// is delivered is the rate of the path, however small the flight. A smaller gap is what others on the path leave.
    fn follow_a_slower_path(&mut self, sample: &RateSample) {
        let path = self.probe_rtt.rtt_before;
        let queued = path.is_some_and(|path| self.latest_rtt > path * QUEUED);
        let slower = |rate: &u64| queued && rate.saturating_mul(SLOWER) < self.bw;
        let Some(rate) = sample.rate.filter(slower) else {
            return;
        };
        self.probe_rtt.bw = self.probe_rtt.bw.min(rate);
        if self.in_flight > self.probe_rtt_cwnd() {
            self.probe_rtt.done = None;
        }
    }

    /// 200 ms and a round, counted from where the flight is small. Rates meanwhile say nothing.
    fn handle_probe_rtt(&mut self) {
        self.sampler.mark_probe_rtt();
        if self.probe_rtt.done.is_none() {
            if self.in_flight <= self.probe_rtt_cwnd() {
                self.probe_rtt.done = Some(self.now + PROBE_RTT_DURATION);
                self.probe_rtt.round_done = false;
                self.rounds.restart(self.sampler.delivered());
            }
            return;
        }
        self.probe_rtt.round_done |= self.rounds.start;
        if self.probe_rtt.round_done {
            self.check_probe_rtt_done();
        }
    }

    /// Also at a restart from idle, when the visit may have ended long ago (§5.4.1).
    pub(super) fn check_probe_rtt_done(&mut self) {
        if self.probe_rtt.done.is_some_and(|done| self.now > done) {
            self.min_rtt.probe_stamp = self.now;
            self.cwnd = self.recovery.restored(self.cwnd);
            self.exit_probe_rtt();
        }
    }

    /// Goes on where the path is empty: straight to CRUISE, with a new wait for the next probe (§5.3.4.4).
    fn exit_probe_rtt(&mut self) {
        self.short_term.reset_bounds();
        if self.full_pipe.reached {
            self.start_down();
            self.start_cruise();
        } else {
            self.enter_startup();
        }
    }

    /// Half the path, by the shorter one of the round trips from before the visit and now.
    pub(super) fn probe_rtt_cwnd(&self) -> u64 {
        let rtt = self
            .probe_rtt
            .rtt_before
            .into_iter()
            .chain(self.min_rtt.get())
            .min();
        self.volume(self.bw.min(self.probe_rtt.bw), rtt, PROBE_RTT_CWND_GAIN)
            .max(self.min_window())
    }
}
