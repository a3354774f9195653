//! Datagrams of a connection that achieve nothing, which an overloaded worker does not take (RFC 9000 §21.9).

use std::time::{Duration, Instant};

/// Datagrams that a new connection may send before it achieves anything.
const FIRST: u32 = 64;
/// Most of them that a connection may have earned.
const MOST: u32 = 256;
/// Bytes acknowledged or received for which a connection may send a datagram more.
const BYTES: u64 = 32;
/// Time in which a connection earns a datagram by waiting.
const PERIOD: Duration = Duration::from_millis(10);

/// Account of the datagrams that a connection may send without achieving anything.
///
/// A datagram costs one. Those of honest clients acknowledge or bring far more than [`BYTES`] each, or there are few of them.
#[derive(Debug)]
pub(super) struct Progress {
    /// Datagrams that may come.
    credit: u32,
    /// Bytes acknowledged and received for which the connection got credit.
    counted: u64,
    /// Time for which the connection got credit; `None` before the first datagram.
    since: Option<Instant>,
}

impl Progress {
    /// Returns the account of a connection that has received nothing.
    pub(super) fn new() -> Self {
        Self {
            credit: FIRST,
            counted: 0,
            since: None,
        }
    }

    /// Counts a datagram that arrives at `now`, after `achieved` bytes were acknowledged or received. Returns whether it is in
    /// credit.
    pub(super) fn on_datagram(&mut self, achieved: u64, now: Instant) -> bool {
        let earned = achieved.saturating_sub(self.counted) / BYTES;
        self.counted += earned * BYTES;
        self.earn(earned);
        let since = *self.since.get_or_insert(now);
        let waited = now.saturating_duration_since(since);
        if waited >= PERIOD {
            self.since = Some(now);
            self.earn(u64::try_from(waited.as_nanos() / PERIOD.as_nanos()).unwrap_or(u64::MAX));
        }
        let is_in_credit = self.credit > 0;
        self.credit = self.credit.saturating_sub(1);
        is_in_credit
    }

    fn earn(&mut self, datagrams: u64) {
        let earned = u32::try_from(datagrams).unwrap_or(MOST);
        self.credit = self.credit.saturating_add(earned).min(MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many of `datagrams` are in credit, one each `step`, if each achieves `bytes`.
    fn in_credit(datagrams: u32, bytes: u64, step: Duration) -> usize {
        let (mut progress, start) = (Progress::new(), crate::clock::now());
        let mut sent = 0..datagrams;
        let mut is_in_credit =
            |n: u32| progress.on_datagram(u64::from(n) * bytes, start + step * n);
        sent.by_ref().filter(|n| is_in_credit(*n)).count()
    }

    #[test]
    fn datagrams_that_achieve_nothing_are_in_credit_at_a_low_rate() {
        let at_once = in_credit(10_000, 0, Duration::ZERO);
        assert_eq!(at_once, usize::try_from(FIRST).unwrap());
        // A second, in which a hundred are earned.
        let in_a_second = in_credit(10_000, 0, Duration::from_micros(100));
        assert!((160..=165).contains(&in_a_second), "{in_a_second}");
        assert_eq!(in_credit(10_000, 0, PERIOD), 10_000);
    }

    #[test]
    fn datagrams_that_achieve_a_little_are_in_credit_at_any_rate() {
        assert_eq!(in_credit(10_000, BYTES, Duration::ZERO), 10_000);
        // What is less than a datagram's worth is not lost.
        let half = in_credit(10_000, BYTES / 2, Duration::ZERO);
        assert!((5_000..5_100).contains(&half), "{half}");
    }

    #[test]
    fn credit_is_bounded() {
        let (mut progress, now) = (Progress::new(), crate::clock::now());
        assert!(progress.on_datagram(1 << 40, now));
        let later = now + Duration::from_secs(3600);
        let left = (0..1000).filter(|_| progress.on_datagram(1 << 40, later));
        assert_eq!(left.count(), usize::try_from(MOST).unwrap());
    }
}
