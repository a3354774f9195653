//! ProbeRTT: few bytes in flight for a moment, so that the path shows its own round trip
//! (draft-ietf-ccwg-bbr-06 §5.3.4).

use std::time::Duration;

use super::Bbr3;
use super::model::bdp_of;
use super::params::{PROBE_RTT_CWND_GAIN, PROBE_RTT_DURATION, UNBOUNDED};
use super::sampler::RateSample;
use crate::{State, Time};

/// Round trips this many times the path's show a queue.
const QUEUED: u32 = 2;

/// A path this many times slower than the model is another path: half of its old BDP would leave a queue.
const SLOWER: u64 = 4;

/// Progress of a visit to ProbeRTT.
#[derive(Debug)]
pub(super) struct ProbeRtt {
    /// Earliest end of the visit; `None` until few enough bytes are in flight.
    done: Option<Time>,
    round_done: bool,
    /// Round trip that the model used before the visit. The one that expires as the visit begins is replaced by the
    /// latest sample, queue and all, and half the BDP of such a path may be a full queue.
    rtt_before: Option<Duration>,
    /// Rate of the path if a queue stays although few bytes are in flight; [`UNBOUNDED`] before that is seen.
    bw: u64,
}

impl ProbeRtt {
    /// Begins a visit; `rtt_before` is the model's round trip before it.
    pub(super) const fn new(rtt_before: Option<Duration>) -> Self {
        Self {
            done: None,
            round_done: false,
            rtt_before,
            bw: UNBOUNDED,
        }
    }

    /// Takes a sample of the rate `bw`, with the newest round trip. Returns whether it lowered the visit's rate.
    ///
    /// A path that became much slower is known by its old rate for two more cycles, and half of its old BDP can be a
    /// full queue now, which would be taken for the path's own round trip. As long as round trips show a queue, the
    /// delivered rate is that of the path, however few bytes are in flight. A smaller gap is what other flows leave.
    fn follow_a_slower_path(&mut self, sample: &RateSample, latest_rtt: Duration, bw: u64) -> bool {
        let queued = self
            .rtt_before
            .is_some_and(|path| latest_rtt > path * QUEUED);
        let slower = |rate: &u64| queued && rate.saturating_mul(SLOWER) < bw;
        let Some(rate) = sample.rate.filter(slower) else {
            return false;
        };
        self.bw = self.bw.min(rate);
        true
    }

    /// Returns whether the visit may end at `now`.
    fn is_done(&self, now: Time) -> bool {
        self.done.is_some_and(|done| now > done)
    }
}

impl Bbr3 {
    /// Enters, follows or leaves ProbeRTT, once per ACK; `rtt_before` is the model's round trip before this ACK.
    pub(super) fn check_probe_rtt(&mut self, rtt_before: Option<Duration>, sample: &RateSample) {
        let is_due = self.model.min_rtt.is_probe_due() && !self.idle_restart;
        if self.state != State::ProbeRtt && is_due {
            self.recovery.save_cwnd(self.output.cwnd(), false);
            self.state = State::ProbeRtt;
            self.probe_rtt = ProbeRtt::new(rtt_before);
            self.cycle.stop();
            self.rounds.restart(self.sampler.delivered());
        }
        if self.state == State::ProbeRtt {
            let (latest_rtt, bw) = (self.observed.latest_rtt, self.model.bw());
            let slower = self.probe_rtt.follow_a_slower_path(sample, latest_rtt, bw);
            if slower && self.observed.in_flight > self.probe_rtt_cwnd() {
                self.probe_rtt.done = None;
            }
            self.handle_probe_rtt();
        }
        if sample.delivered > 0 {
            self.idle_restart = false;
        }
    }

    /// Waits for 200 ms and a round, counted from when few enough bytes are in flight. Rates measured meanwhile do not
    /// count.
    fn handle_probe_rtt(&mut self) {
        self.sampler.mark_probe_rtt();
        if self.probe_rtt.done.is_none() {
            if self.observed.in_flight <= self.probe_rtt_cwnd() {
                self.probe_rtt.done = Some(self.observed.now() + PROBE_RTT_DURATION);
                self.probe_rtt.round_done = false;
                self.rounds.restart(self.sampler.delivered());
            }
            return;
        }
        self.probe_rtt.round_done |= self.rounds.started();
        if self.probe_rtt.round_done {
            self.check_probe_rtt_done();
        }
    }

    /// Leaves ProbeRTT if its time is over; also called at a restart from idle, when that may be long ago (§5.4.1).
    pub(super) fn check_probe_rtt_done(&mut self) {
        let now = self.observed.now();
        if self.probe_rtt.is_done(now) {
            self.model.min_rtt.end_probe(now);
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

    /// Returns half the BDP, by the shorter one of the round trips from before the visit and now.
    pub(super) fn probe_rtt_cwnd(&self) -> u64 {
        let rtts = self.probe_rtt.rtt_before.into_iter();
        let rtt = rtts.chain(self.model.min_rtt.get()).min();
        let bw = self.model.bw().min(self.probe_rtt.bw);
        rtt.map_or(self.sizes.initial_window(), |rtt| {
            bdp_of(bw, rtt, PROBE_RTT_CWND_GAIN)
        })
        .max(self.sizes.min_window())
    }
}
