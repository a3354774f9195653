//! Whether the window was used: the rule that keeps an unused window from growing (RFC 9002 §7.8).

/// The largest flights of this round and the last, and how far they let the window grow.
///
/// Neither "the flight is at the window now" nor "the application ran out of data" makes a good rule. Pacing spreads
/// a window over most of a round trip, so the flight is below the window at nearly every instant; and a sender that
/// takes every wait for the pacer as proof of use lets three packets double a window. What counts here is the largest
/// flight of the last two rounds, `F`: slow start may grow the window to `2 F`, as a window that doubles in a round
/// was half as large when the round's flight left, and avoidance to `4/3 (F + one datagram)`. Pacing at 1.25 windows
/// per round trip brings the flight to the window even where round trips are a quarter shorter than the smoothed
/// one; the datagram stands for the part of a window that no whole packet fits into.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    round_end: u64,
    this_round: u64,
    last_round: u64,
}

impl Usage {
    /// A packet left, and `in_flight` is the flight with it.
    pub(crate) fn on_sent(&mut self, in_flight: u64) {
        self.this_round = self.this_round.max(in_flight);
    }

    /// Packets were acknowledged, `largest` the newest. True where this begins a new round.
    pub(crate) fn on_acked(&mut self, largest: u64, next_packet: u64, in_flight: u64) -> bool {
        if largest < self.round_end {
            return false;
        }
        self.round_end = next_packet;
        self.last_round = self.this_round;
        self.this_round = in_flight;
        true
    }

    /// After a congestion signal only flights that fit the new window tell anything.
    pub(crate) fn restart(&mut self, in_flight: u64) {
        self.this_round = in_flight;
        self.last_round = in_flight;
    }

    fn largest(&self) -> u64 {
        self.this_round.max(self.last_round)
    }

    /// Where slow start's growth ends.
    pub(crate) fn slow_start_limit(&self) -> u64 {
        self.largest().saturating_mul(2)
    }

    /// Where avoidance's growth ends.
    pub(crate) fn avoidance_limit(&self, mtu: u64) -> u64 {
        three_quarters_full(self.largest(), mtu)
    }
}

/// Whether a flight uses `cwnd`, by the measure of [`Usage::avoidance_limit`].
pub(crate) fn in_use(in_flight: u64, cwnd: u64, mtu: u64) -> bool {
    cwnd <= three_quarters_full(in_flight, mtu)
}

/// The largest window of which `flight` and one datagram make three quarters.
fn three_quarters_full(flight: u64, mtu: u64) -> u64 {
    let flight = flight.saturating_add(mtu);
    flight.saturating_add(flight / 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flight_counts_for_its_round_and_the_next() {
        let mut usage = Usage::default();
        usage.on_sent(30_000);
        assert!(usage.on_acked(0, 25, 0));
        assert!(!usage.on_acked(24, 30, 0));
        assert_eq!(usage.slow_start_limit(), 60_000);
        assert!(usage.on_acked(25, 31, 2_400));
        assert_eq!(usage.slow_start_limit(), 4_800);
    }

    #[test]
    fn flights_from_before_a_restart_are_forgotten() {
        let mut usage = Usage::default();
        usage.on_sent(30_000);
        assert!(usage.on_acked(0, 25, 30_000));
        usage.restart(1_200);
        assert_eq!(usage.slow_start_limit(), 2_400);
        assert!(usage.on_acked(25, 31, 0));
        assert_eq!(usage.slow_start_limit(), 2_400);
    }

    #[test]
    fn two_packets_use_the_smallest_window_and_its_fractions() {
        for cwnd in 2_400..3_600 {
            assert!(in_use(2_400, cwnd, 1_200), "{cwnd}");
        }
        assert!(!in_use(2_400, 6_000, 1_200));
    }
}
