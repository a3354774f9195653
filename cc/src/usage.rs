//! Use of the window: the rule that keeps an unused window from growing (RFC 9002 §7.8).

/// The most bytes in flight in this round and in the last, and how far they let the window grow.
///
/// Neither "as much is in flight as the window allows now" nor "the application ran out of data" makes a good rule.
/// Pacing spreads a window over most of a round trip, so fewer bytes than the window are in flight at nearly every
/// instant; and a sender that takes every wait for the pacer as proof of use lets three packets double a window. What
/// counts here is `F`, the most bytes in flight during the last two rounds: slow start may grow the window to `2 F`, as
/// a window that doubles in a round was half as large when the round's packets left, and congestion avoidance to
/// `4/3 (F + one datagram)`. Pacing at 1.25 windows per round trip fills the window even if round trips are a quarter
/// shorter than the smoothed one; the datagram stands for the part of a window that no whole packet fits into.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    round_end: u64,
    this_round: u64,
    last_round: u64,
}

impl Usage {
    /// A packet leaves; `in_flight` counts its bytes too.
    pub(crate) fn on_sent(&mut self, in_flight: u64) {
        self.this_round = self.this_round.max(in_flight);
    }

    /// Packets were acknowledged, `largest` the newest. Returns whether a new round begins.
    pub(crate) fn on_acked(&mut self, largest: u64, next_packet: u64, in_flight: u64) -> bool {
        if largest < self.round_end {
            return false;
        }
        self.round_end = next_packet;
        self.last_round = self.this_round;
        self.this_round = in_flight;
        true
    }

    /// Forgets all but `in_flight`: after a congestion signal only what fits the new window counts.
    pub(crate) fn restart(&mut self, in_flight: u64) {
        self.this_round = in_flight;
        self.last_round = in_flight;
    }

    /// Counts what was in flight before a restart that was wrong.
    pub(crate) fn include(&mut self, before: &Self) {
        self.last_round = self.last_round.max(before.largest());
    }

    fn largest(&self) -> u64 {
        self.this_round.max(self.last_round)
    }

    /// Returns the largest window that slow start may reach, bytes.
    pub(crate) fn slow_start_limit(&self) -> u64 {
        self.largest().saturating_mul(2)
    }

    /// Returns the largest window that congestion avoidance may reach, bytes.
    pub(crate) fn avoidance_limit(&self, mtu: u64) -> u64 {
        three_quarters_full(self.largest(), mtu)
    }
}

/// Returns whether `in_flight` bytes use `cwnd`, by the measure of [`Usage::avoidance_limit`].
pub(crate) fn in_use(in_flight: u64, cwnd: u64, mtu: u64) -> bool {
    cwnd <= three_quarters_full(in_flight, mtu)
}

/// Returns the largest window of which `in_flight` and one datagram make three quarters.
fn three_quarters_full(in_flight: u64, mtu: u64) -> u64 {
    let used = in_flight.saturating_add(mtu);
    used.saturating_add(used / 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_in_flight_count_for_their_round_and_the_next() {
        let mut usage = Usage::default();
        usage.on_sent(30_000);
        assert!(usage.on_acked(0, 25, 0));
        assert!(!usage.on_acked(24, 30, 0));
        assert_eq!(usage.slow_start_limit(), 60_000);
        assert!(usage.on_acked(25, 31, 2_400));
        assert_eq!(usage.slow_start_limit(), 4_800);
    }

    #[test]
    fn bytes_in_flight_before_a_restart_are_forgotten() {
        let mut usage = Usage::default();
        usage.on_sent(30_000);
        assert!(usage.on_acked(0, 25, 30_000));
        usage.restart(1_200);
        assert_eq!(usage.slow_start_limit(), 2_400);
        assert!(usage.on_acked(25, 31, 0));
        assert_eq!(usage.slow_start_limit(), 2_400);
    }

    #[test]
    fn bytes_in_flight_before_a_wrong_restart_count_for_a_round() {
        let mut usage = Usage::default();
        usage.on_sent(30_000);
        let before = usage;
        usage.restart(1_200);
        usage.include(&before);
        assert_eq!(usage.slow_start_limit(), 60_000);
        assert!(usage.on_acked(0, 25, 2_400));
        assert_eq!(usage.slow_start_limit(), 4_800);
    }

    #[test]
    fn two_packets_use_the_smallest_window_and_its_fractions() {
        for cwnd in 2_400..3_600 {
            assert!(in_use(2_400, cwnd, 1_200), "{cwnd}");
        }
        assert!(!in_use(2_400, 6_000, 1_200));
    }
}
