//! Rate, burst and window from the model (draft-ietf-ccwg-bbr-06 §5.6).

use std::time::Duration;

use super::Bbr3;
use super::params::{
    DEFAULT_CWND_GAIN, DOWN_PACING_GAIN, DRAIN_PACING_GAIN, NOMINAL_RTT, PACING_MARGIN,
    PROBE_RTT_CWND_GAIN, STARTUP_PACING_GAIN, UNBOUNDED, UP_CWND_GAIN, UP_PACING_GAIN, scaled,
};
use crate::pacing::BURST;
use crate::{MAX_WINDOW, State};

impl Bbr3 {
    /// Returns the pacing gain of the state. The table of §5.6.1 is here in full: the pseudocode leaves these
    /// assignments out.
    pub(super) const fn pacing_gain(&self) -> f64 {
        match self.state {
            State::Startup => STARTUP_PACING_GAIN,
            State::Drain => DRAIN_PACING_GAIN,
            State::ProbeBwDown => DOWN_PACING_GAIN,
            State::ProbeBwUp if self.is_climbing() => STARTUP_PACING_GAIN,
            State::ProbeBwUp => UP_PACING_GAIN,
            _ => 1.0,
        }
    }

    /// Returns the window gain of the state (§5.6.1).
    pub(super) const fn cwnd_gain(&self) -> f64 {
        match self.state {
            State::ProbeBwUp if !self.climb.is_on() => UP_CWND_GAIN,
            State::ProbeRtt => PROBE_RTT_CWND_GAIN,
            _ => DEFAULT_CWND_GAIN,
        }
    }

    fn max_inflight(&self) -> u64 {
        let bytes = self
            .bdp(self.cwnd_gain())
            .saturating_add(self.aggregation_budget())
            .saturating_add(self.host_budget());
        self.quantized(bytes)
    }

    /// Returns the bytes that have to be in flight because ACKs arrive in batches (§5.6.4.2), as far as no queue holds them.
    ///
    /// A flow that shares a short path has its ACKs in batches too, between those of the other flows. A window for these
    /// makes the queue longer and the batches larger. While the ACKs are out, a queue that stays for ten rounds keeps the
    /// link as busy as a larger window would, unless the ACKs pause in each round: then the round trips may be long because
    /// of the pauses, not of a queue.
    fn aggregation_budget(&self) -> u64 {
        let extra = self.model.aggregation.extra();
        let path = self.model.min_rtt.get().unwrap_or_default();
        if !self.params.is_short(path) {
            return extra;
        }
        let bytes = |time: Duration| scaled(self.model.bw(), time.as_secs_f64());
        let empty = path + self.late_hosts().unwrap_or_default();
        let queued = bytes(self.last_rounds.rtt().saturating_sub(empty));
        let paused = bytes(self.last_rounds.gap().saturating_sub(path));
        extra.saturating_sub(queued).max(extra.min(paused))
    }

    /// Returns by how much longer than the path's round trip the hosts are late, as far as it is measured. A window of twice
    /// the BDP makes up for a shorter delay.
    fn late_hosts(&self) -> Option<Duration> {
        let path = self.model.min_rtt.get()?;
        Some(self.host_delay.get()?.saturating_sub(path))
    }

    /// Returns the bytes that the rate delivers while the hosts, not the path, hold packets and ACKs back.
    ///
    /// Inside a cluster the path's round trip can be a tenth of a millisecond, and a time slice of the scheduler several.
    /// Twice the BDP is then a fraction of what the path delivers in one time slice: the window limits the rate, BBR
    /// measures the lower rate and lowers the window, and the flow stays slow. So the part of the round trip that the
    /// hosts add counts too, up to a bound. Before a visit to ProbeRTT measured it, that part may as well be a queue. Round
    /// trips exceed the path's by half of a uniform delay on average; if they exceed it less, hosts are no longer late.
    fn host_budget(&self) -> u64 {
        let srtt = self.observed.srtt;
        let path = self.model.min_rtt.get().unwrap_or(srtt);
        let above = srtt.saturating_sub(path);
        let delay = self.late_hosts().map_or(above, |late| late.min(2 * above));
        let delay = delay.min(self.params.host_delay);
        scaled(self.model.bw(), delay.as_secs_f64()).min(MAX_WINDOW)
    }

    /// Sets the rate that holds before any is measured: the initial window per round trip (§5.6.2).
    pub(super) fn set_nominal_pacing_rate(&mut self, rtt: Option<Duration>) {
        let rtt = rtt.unwrap_or(NOMINAL_RTT).max(Duration::from_micros(1)).as_secs_f64();
        let rate = scaled(self.sizes.initial_window(), STARTUP_PACING_GAIN / rtt);
        self.output.set_pacing_rate(rate, self.sizes.mtu());
    }

    /// Sets the pacing rate to `gain` times the model's. Until the pipe was full once, the rate only rises: all samples
    /// may have been limited by the application.
    pub(super) fn set_pacing_rate(&mut self, gain: f64) {
        let rate = scaled(self.model.bw(), gain * PACING_MARGIN);
        if self.full_pipe.is_reached() {
            self.output.set_pacing_rate(rate, self.sizes.mtu());
        } else {
            self.output.raise_pacing_rate(rate, self.sizes.mtu());
        }
    }

    /// Sets the burst to a millisecond of the rate (§5.6.3), or half of a shorter round trip, late hosts included: a longer
    /// burst than that is a queue in itself, and every flow on the path adds one.
    pub(super) fn set_quantum(&mut self) {
        let path = self.model.min_rtt.get().unwrap_or(BURST * 2);
        let late = self.late_hosts().unwrap_or_default();
        let time = BURST.min((path + late) / 2);
        self.output.set_quantum(time, self.sizes.mtu());
    }

    /// Raises the window by `newly_acked` bytes, up to what the model asks for (§5.6.4.6).
    ///
    /// It grows no further than to twice the most bytes in flight of this round and the last. Rates of bursts with gaps
    /// between look like aggregation, and would open a window that nothing ever filled; a window in use is never more
    /// than half empty.
    pub(super) fn set_cwnd(&mut self, newly_acked: u64) {
        let max_inflight = self.max_inflight();
        let grown = self.output.grown_cwnd(newly_acked, self.usage.slow_start_limit());
        if self.full_pipe.is_reached() {
            self.output.set_cwnd(grown.min(max_inflight));
        } else if self.output.cwnd() < max_inflight
            || self.sampler.delivered() < self.sizes.initial_window()
        {
            self.output.set_cwnd(grown);
        }
        self.output.raise_cwnd(self.sizes.min_window());
        if self.state == State::ProbeRtt {
            self.output.cap_cwnd(self.probe_rtt_cwnd());
        }
        self.output.cap_cwnd(self.cwnd_cap());
    }

    /// Returns the largest window that recent congestion allows (§5.6.4.7).
    fn cwnd_cap(&self) -> u64 {
        let cap = match self.state {
            State::ProbeBwDown | State::ProbeBwRefill | State::ProbeBwUp | State::Drain => {
                self.model.long_term.get()
            }
            State::ProbeBwCruise | State::ProbeRtt => self.inflight_with_headroom(),
            _ => UNBOUNDED,
        };
        cap.min(self.model.short_term.inflight()).max(self.sizes.min_window())
    }
}
