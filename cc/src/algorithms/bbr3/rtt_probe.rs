//! One visit to ProbeRTT (draft-ietf-ccwg-bbr-06 §5.3.4.3).

use std::time::Duration;

use super::model::bdp_of;
use super::params::{PROBE_RTT_CWND_GAIN, PROBE_RTT_DURATION, UNBOUNDED};
use super::sampler::RateSample;
use crate::Time;

/// Round trips this many times the path's show a queue.
pub(super) const QUEUED: u32 = 2;

/// A path this many times slower than the model is another path: half of its old BDP would leave a queue.
const SLOWER: u64 = 4;

/// Progress of a visit to ProbeRTT.
#[derive(Debug)]
pub(super) struct RttProbe {
    /// Earliest end of the visit; `None` until few enough bytes are in flight.
    done: Option<Time>,
    round_done: bool,
    /// Whether the visit comes before its time.
    is_early: bool,
    /// Round trip that the model used before the visit. The one that expires as the visit begins is replaced by the
    /// latest sample, which contains the delay of the queue, and half the BDP of such a path may be a full queue.
    rtt_before: Option<Duration>,
    /// Rate of the path if a queue stays although few bytes are in flight; [`UNBOUNDED`] before that is seen.
    bw: u64,
}

impl RttProbe {
    /// Begins a visit; `rtt_before` is the model's round trip before it.
    pub(super) const fn new(rtt_before: Option<Duration>, is_early: bool) -> Self {
        Self { done: None, round_done: false, is_early, rtt_before, bw: UNBOUNDED }
    }

    /// Takes a sample of the rate `bw`, with the newest round trip. Returns whether it lowered the visit's rate.
    ///
    /// A path that became much slower is known by its old rate for two more cycles, and half of its old BDP can be a
    /// full queue now, which would be taken for the path's own round trip. As long as round trips show a queue, the
    /// delivered rate is that of the path, however few bytes are in flight. A smaller difference may come from other flows.
    pub(super) fn follow_a_slower_path(
        &mut self,
        sample: &RateSample,
        latest_rtt: Duration,
        bw: u64,
    ) -> bool {
        let queued = self.rtt_before.is_some_and(|path| latest_rtt > path * QUEUED);
        let slower = |rate: &u64| queued && rate.saturating_mul(SLOWER) < bw;
        let Some(rate) = sample.rate.filter(slower) else {
            return false;
        };
        self.bw = self.bw.min(rate);
        true
    }

    /// Returns half the BDP of a path with the rate `bw`, by the shorter one of the round trips from before the visit
    /// and `now`; `None` if both are unknown.
    pub(super) fn half_bdp(&self, bw: u64, now: Option<Duration>) -> Option<u64> {
        let rtt = self.rtt_before.into_iter().chain(now).min()?;
        Some(bdp_of(bw.min(self.bw), rtt, PROBE_RTT_CWND_GAIN))
    }

    /// Returns whether few enough bytes are in flight, and so the time of the visit runs.
    pub(super) const fn is_running(&self) -> bool {
        self.done.is_some()
    }

    /// Returns whether the visit came before its time.
    pub(super) const fn is_early(&self) -> bool {
        self.is_early
    }

    /// Starts the time of the visit.
    pub(super) fn run(&mut self, now: Time) {
        self.done = Some(now + PROBE_RTT_DURATION);
        self.round_done = false;
    }

    /// Stops the time of the visit: too many bytes are in flight.
    pub(super) const fn suspend(&mut self) {
        self.done = None;
    }

    /// Notes whether a round ended, and returns whether one did since the time began to run.
    pub(super) const fn note_round(&mut self, ended: bool) -> bool {
        self.round_done |= ended;
        self.round_done
    }

    /// Returns whether the visit may end at `now`.
    pub(super) fn is_done(&self, now: Time) -> bool {
        self.done.is_some_and(|done| now > done)
    }
}
