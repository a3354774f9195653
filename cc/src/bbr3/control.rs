//! Rate, burst and window from the model (draft-ietf-ccwg-bbr-06 §5.6).

use std::time::Duration;

use super::Bbr3;
use super::params::{
    DEFAULT_CWND_GAIN, DOWN_PACING_GAIN, DRAIN_PACING_GAIN, NOMINAL_RTT, PACING_MARGIN,
    PROBE_RTT_CWND_GAIN, STARTUP_PACING_GAIN, UNBOUNDED, UP_CWND_GAIN, UP_PACING_GAIN, scaled,
};
use crate::{MAX_QUANTUM, MAX_WINDOW, State};

/// No rate grows past this, bytes per second.
const MAX_RATE: u64 = 1 << 50;

/// Datagrams a second that are sent whatever the estimate is. A rate measured across a long silence can be next to
/// nothing, and a flow that follows it would need as long again to find out better.
const MIN_RATE_PACKETS: u64 = 2;

/// Whether the window was fully used in this round or the one before.
#[derive(Debug, Default)]
pub(super) struct CwndLimit {
    this_round: bool,
    last_round: bool,
}

impl CwndLimit {
    pub(super) const fn note(&mut self, limited: bool) {
        self.this_round |= limited;
    }

    pub(super) const fn next_round(&mut self) {
        self.last_round = self.this_round;
        self.this_round = false;
    }

    pub(super) const fn get(&self) -> bool {
        self.this_round || self.last_round
    }
}

impl Bbr3 {
    /// The table of §5.6.1 in full: the pseudocode leaves these assignments out.
    pub(super) const fn pacing_gain(&self) -> f64 {
        match self.state {
            State::Startup => STARTUP_PACING_GAIN,
            State::Drain => DRAIN_PACING_GAIN,
            State::ProbeBwDown => DOWN_PACING_GAIN,
            State::ProbeBwUp => UP_PACING_GAIN,
            _ => 1.0,
        }
    }

    pub(super) const fn cwnd_gain(&self) -> f64 {
        match self.state {
            State::ProbeBwUp => UP_CWND_GAIN,
            State::ProbeRtt => PROBE_RTT_CWND_GAIN,
            _ => DEFAULT_CWND_GAIN,
        }
    }

    pub(super) const fn min_window(&self) -> u64 {
        self.params.min_window_packets.saturating_mul(self.mtu)
    }

    /// Bytes that `bw` delivers in `gain` round trips; the initial window where the round trip is unknown.
    pub(super) fn volume(&self, bw: u64, rtt: Option<Duration>, gain: f64) -> u64 {
        let Some(rtt) = rtt else {
            return self.initial_window;
        };
        scaled(bw, gain * rtt.as_secs_f64()).min(MAX_WINDOW)
    }

    pub(super) fn bdp(&self, gain: f64) -> u64 {
        self.volume(self.bw, self.min_rtt.get(), gain)
    }

    /// What has to be in flight for `bw` whatever the round trip is: bursts on both hosts, delayed ACKs (§5.6.4.2).
    fn quantized(&self, volume: u64) -> u64 {
        let volume = volume.max(self.quantum).max(self.min_window());
        if self.state == State::ProbeBwUp {
            volume + 2 * self.mtu
        } else {
            volume
        }
    }

    pub(super) fn inflight(&self, bw: u64, gain: f64) -> u64 {
        self.quantized(self.volume(bw, self.min_rtt.get(), gain))
    }

    fn max_inflight(&self) -> u64 {
        let volume = self
            .bdp(self.cwnd_gain())
            .saturating_add(self.aggregation.extra())
            .saturating_add(self.host_budget());
        self.quantized(volume)
    }

    /// What the rate delivers while the hosts, not the path, hold packets and ACKs back.
    ///
    /// Inside a cluster the path's round trip can be a tenth of a millisecond and a scheduler's turn several. Twice
    /// the path's volume is then a fraction of what one turn needs: the window holds the rate back, the lower rate is
    /// measured, the window follows it down, and the flow stays at a crawl. So the part of the round trip that is
    /// not the path's counts too, up to a bound small enough that a queue mistaken for it does no harm.
    fn host_budget(&self) -> u64 {
        let path = self.min_rtt.get().unwrap_or(self.srtt);
        let extra = self.srtt.saturating_sub(path).min(self.params.host_delay);
        scaled(self.bw, extra.as_secs_f64()).min(MAX_WINDOW)
    }

    /// Before any rate is known: the initial window per round trip (§5.6.2).
    pub(super) fn nominal_pacing_rate(&self, rtt: Option<Duration>) -> u64 {
        let rtt = rtt
            .unwrap_or(NOMINAL_RTT)
            .max(Duration::from_micros(1))
            .as_secs_f64();
        self.bounded_rate(scaled(self.initial_window, STARTUP_PACING_GAIN / rtt))
    }

    fn bounded_rate(&self, rate: u64) -> u64 {
        rate.clamp(MIN_RATE_PACKETS * self.mtu, MAX_RATE)
    }

    /// Until the pipe was full once, the rate only rises: all samples may have been limited by the application.
    pub(super) fn set_pacing_rate(&mut self, gain: f64) {
        let rate = self.bounded_rate(scaled(self.bw, gain * PACING_MARGIN));
        if self.full_pipe.reached || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// A millisecond of the rate, at most one GSO send and at least two datagrams (§5.6.3).
    pub(super) fn set_quantum(&mut self) {
        let floor = (2 * self.mtu).min(MAX_QUANTUM.max(self.mtu));
        self.quantum = (self.pacing_rate / 1_000).clamp(floor, MAX_QUANTUM.max(floor));
    }

    /// Raises the window by what was acknowledged, up to what the model asks for (§5.6.4.6).
    ///
    /// It grows no further than to twice the largest flight of this round and the last. Rates of bursts with gaps
    /// between look like aggregation, and would open a window that nothing ever filled; a window in use is never more
    /// than half empty.
    pub(super) fn set_cwnd(&mut self, newly_acked: u64) {
        let max_inflight = self.max_inflight();
        let limit = self.usage.slow_start_limit().min(MAX_WINDOW).max(self.cwnd);
        let grown = self.cwnd.saturating_add(newly_acked).min(limit);
        if self.full_pipe.reached {
            self.cwnd = grown.min(max_inflight);
        } else if self.cwnd < max_inflight || self.sampler.delivered() < self.initial_window {
            self.cwnd = grown;
        }
        self.cwnd = self.cwnd.max(self.min_window());
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        self.cwnd = self.cwnd.min(self.cwnd_cap());
    }

    /// What recent congestion allows (§5.6.4.7).
    fn cwnd_cap(&self) -> u64 {
        let cap = match self.state {
            State::ProbeBwDown | State::ProbeBwRefill | State::ProbeBwUp | State::Drain => {
                self.inflight_longterm
            }
            State::ProbeBwCruise | State::ProbeRtt => self.inflight_with_headroom(),
            _ => UNBOUNDED,
        };
        cap.min(self.short_term.inflight).max(self.min_window())
    }
}
