//! Values that the controller returns to the transport: window, pacing rate and burst.

use std::time::Duration;

use super::params::scaled;
use crate::{MAX_QUANTUM, MAX_WINDOW};

/// Largest rate, bytes per second.
const MAX_RATE: u64 = 1 << 50;

/// Lowest pacing rate, datagrams per second. A rate measured across a long silence can be close to zero, and a flow at
/// that rate would need as long again to correct it.
const MIN_RATE_PACKETS: u64 = 2;

/// The three values, bytes and bytes per second.
#[derive(Debug, Default)]
pub(super) struct Output {
    cwnd: u64,
    pacing_rate: u64,
    quantum: u64,
}

impl Output {
    /// Returns the congestion window.
    pub(super) const fn cwnd(&self) -> u64 {
        self.cwnd
    }

    pub(super) const fn pacing_rate(&self) -> u64 {
        self.pacing_rate
    }

    /// Returns the burst.
    pub(super) const fn quantum(&self) -> u64 {
        self.quantum
    }

    /// Sets the window.
    pub(super) const fn set_cwnd(&mut self, cwnd: u64) {
        self.cwnd = cwnd;
    }

    /// Raises the window to `floor`.
    pub(super) fn raise_cwnd(&mut self, floor: u64) {
        self.cwnd = self.cwnd.max(floor);
    }

    /// Lowers the window to `cap`.
    pub(super) fn cap_cwnd(&mut self, cap: u64) {
        self.cwnd = self.cwnd.min(cap);
    }

    /// Returns the window with `newly_acked` bytes more, at most `limit` unless it is larger already.
    pub(super) fn grown_cwnd(&self, newly_acked: u64, limit: u64) -> u64 {
        let limit = limit.min(MAX_WINDOW).max(self.cwnd);
        self.cwnd.saturating_add(newly_acked).min(limit)
    }

    /// Sets the pacing rate within its bounds.
    pub(super) fn set_pacing_rate(&mut self, rate: u64, mtu: u64) {
        self.pacing_rate = bounded_rate(rate, mtu);
    }

    /// Raises the pacing rate, within its bounds.
    pub(super) fn raise_pacing_rate(&mut self, rate: u64, mtu: u64) {
        self.pacing_rate = self.pacing_rate.max(bounded_rate(rate, mtu));
    }

    /// Sets the burst to what the rate sends in `time`, at most one GSO send and at least two datagrams (§5.6.3).
    pub(super) fn set_quantum(&mut self, time: Duration, mtu: u64) {
        let floor = (2 * mtu).min(MAX_QUANTUM.max(mtu));
        let burst = scaled(self.pacing_rate, time.as_secs_f64());
        self.quantum = burst.clamp(floor, MAX_QUANTUM.max(floor));
    }
}

fn bounded_rate(rate: u64, mtu: u64) -> u64 {
    rate.clamp(MIN_RATE_PACKETS * mtu, MAX_RATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_is_what_the_rate_sends_in_a_time_within_its_bounds() {
        let quantum = |rate: u64, micros: u64| {
            let mut output = Output::default();
            output.set_pacing_rate(rate, 1_200);
            output.set_quantum(Duration::from_micros(micros), 1_200);
            output.quantum()
        };
        assert_eq!(quantum(12_500_000, 1_000), 12_500);
        assert_eq!(quantum(125_000_000, 100), 12_500);
        assert_eq!(quantum(15_000_000, 100), 2_400, "two datagrams");
        assert_eq!(quantum(1_250_000_000, 1_000), MAX_QUANTUM);
    }
}
