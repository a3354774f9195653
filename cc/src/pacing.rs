//! Rate and burst from a window and a round-trip time (RFC 9002 §7.7).

use std::time::Duration;

use crate::MAX_QUANTUM;
use crate::rounding::whole;

/// Twice the window per round trip in slow start, so that the window can double within one.
pub(crate) const SLOW_START_GAIN: f64 = 2.0;

/// Time that a burst takes to send at the pacing rate.
pub(crate) const BURST: Duration = Duration::from_millis(1);

/// Rate, bytes per second, below which two datagrams in a row cause a noticeable delay.
const LOW_RATE: u64 = 150_000;

/// Shortest round trip that a rate is computed from.
const MIN_RTT: Duration = Duration::from_micros(1);

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Datagrams in a burst without a rate to derive it from (RFC 9002 §7.7).
const UNPACED_BURST: u64 = 10;

/// Returns the bytes per second that send `gain` windows per round trip; at least 1.
pub(crate) fn rate(cwnd: u64, srtt: Duration, gain: f64) -> u64 {
    whole(gain * cwnd as f64 / srtt.max(MIN_RTT).as_secs_f64()).max(1)
}

/// Returns the largest burst, bytes: what `rate` sends in `burst`, a part of a second, at most one GSO send.
pub(crate) fn quantum(rate: Option<u64>, burst: Duration, mtu: u64) -> u64 {
    let Some(rate) = rate else {
        return (UNPACED_BURST * mtu).min(MAX_QUANTUM).max(mtu);
    };
    let floor = if rate < LOW_RATE { mtu } else { 2 * mtu };
    debug_assert!(burst.as_secs() == 0, "a burst is shorter than a second");
    let nanos = u64::from(burst.subsec_nanos());
    // A product beyond 64 bits is more than any burst may have.
    let bytes = rate.saturating_mul(nanos) / NANOS_PER_SECOND;
    bytes.max(floor).min(MAX_QUANTUM).max(mtu)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_windows_per_round_trip() {
        assert_eq!(rate(12_000, Duration::from_millis(100), 1.25), 150_000);
        assert_eq!(rate(12_000, Duration::from_millis(100), 2.0), 240_000);
    }

    #[test]
    fn rate_is_finite_and_positive_at_the_ends_of_the_range() {
        assert_eq!(rate(u64::MAX, Duration::ZERO, 2.0), u64::MAX);
        assert_eq!(rate(2_400, Duration::MAX, 1.25), 1);
    }

    #[test]
    fn quantum_is_a_millisecond_between_its_bounds() {
        let quantum = |rate, mtu| quantum(rate, BURST, mtu);
        assert_eq!(quantum(Some(12_500_000), 1_200), 12_500);
        assert_eq!(quantum(Some(1_250_000_000), 1_200), 65_536);
        assert_eq!(quantum(Some(1_000_000), 1_200), 2_400);
        assert_eq!(quantum(Some(100_000), 1_200), 1_200);
        assert_eq!(quantum(None, 1_200), 12_000);
        assert_eq!(quantum(Some(1_250_000_000), 65_527), 65_536);
    }

    #[test]
    fn quantum_is_exact_for_any_part_of_a_second() {
        for (micros, bytes) in [(250, 31_250), (300, 37_500), (333, 41_625)] {
            let burst = Duration::from_micros(micros);
            assert_eq!(quantum(Some(125_000_000), burst, 1_200), bytes);
        }
        let longest = Duration::from_nanos(NANOS_PER_SECOND - 1);
        assert_eq!(quantum(Some(50_000), longest, 1_200), 49_999);
        assert_eq!(quantum(Some(u64::MAX), longest, 1_200), MAX_QUANTUM);
    }
}
