//! Datagrams of a connection that achieve nothing, which an overloaded worker does not take (RFC 9000 §21.9).

use std::time::{Duration, Instant};

/// Datagrams that a new connection may send before it achieves anything.
const FIRST: u32 = 64;
/// Most of them that a connection may have earned.
const MOST: u32 = 256;
/// Those that a datagram earns which achieves something, for others such as PINGs and spurious retransmissions.
const EARNED: u32 = 2;
/// Bytes of streams in a datagram that achieves something, even if none of them is new: a client sends lost data again in
/// large datagrams, and a flood of these is no worse than one of uploads.
const LARGE: u64 = 256;
/// Time in which a connection earns a datagram by waiting.
const PERIOD: Duration = Duration::from_millis(10);

/// Totals that a connection has received so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Received {
    /// Packets that were decrypted.
    pub(super) packets: usize,
    /// Bytes that the client has acknowledged.
    pub(super) acknowledged: u64,
    /// Bytes of streams up to the largest offset of each.
    pub(super) new: u64,
    /// Bytes of streams, repeated ones included.
    pub(super) streams: u64,
}

/// Account of the datagrams that a connection may send without achieving anything.
#[derive(Debug)]
pub(super) struct Progress {
    /// Datagrams that may come.
    credit: u32,
    /// Time for which the connection got credit; `None` before the first datagram.
    since: Option<Instant>,
}

impl Progress {
    /// Returns the account of a connection that has received nothing.
    pub(super) fn new() -> Self {
        Self {
            credit: FIRST,
            since: None,
        }
    }

    /// Returns whether an overloaded worker is to take a datagram that arrives at `now`.
    pub(super) fn is_in_credit(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        let waited = now.saturating_duration_since(since);
        if waited >= PERIOD {
            self.since = Some(now);
            let earned = u32::try_from(waited.as_nanos() / PERIOD.as_nanos());
            self.earn(earned.unwrap_or(MOST));
        }
        self.credit > 0
    }

    /// Counts a datagram that was taken. One that could not be decrypted costs nothing: anybody can send it.
    pub(super) fn on_datagram(&mut self, before: Received, after: Received) {
        if after.packets == before.packets {
            return;
        }
        let achieves = after.acknowledged > before.acknowledged
            || after.new > before.new
            || after.streams - before.streams >= LARGE;
        if achieves {
            self.earn(EARNED);
        } else {
            self.credit = self.credit.saturating_sub(1);
        }
    }

    fn earn(&mut self, datagrams: u32) {
        self.credit = self.credit.saturating_add(datagrams).min(MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Received = Received {
        packets: 1,
        acknowledged: 0,
        new: 0,
        streams: 0,
    };

    /// Returns how many of 10,000 datagrams are in credit, one each `step`, if they are as `datagram` says.
    fn in_credit(datagram: Received, step: Duration) -> usize {
        let (mut progress, start) = (Progress::new(), crate::clock::now());
        let mut taken = 0;
        for n in 0..10_000 {
            if progress.is_in_credit(start + step * n) {
                taken += 1;
                progress.on_datagram(Received::default(), datagram);
            }
        }
        taken
    }

    #[test]
    fn datagrams_that_achieve_nothing_are_in_credit_at_a_low_rate() {
        assert_eq!(in_credit(ONE, Duration::ZERO), 64);
        // A second, in which a hundred are earned.
        let in_a_second = in_credit(ONE, Duration::from_micros(100));
        assert!((160..=165).contains(&in_a_second), "{in_a_second}");
        assert_eq!(in_credit(ONE, PERIOD), 10_000);
    }

    #[test]
    fn datagrams_that_acknowledge_or_bring_data_are_in_credit_at_any_rate() {
        let acknowledging = Received {
            acknowledged: 1,
            ..ONE
        };
        let new = Received { new: 1, ..ONE };
        let again = Received {
            streams: LARGE,
            ..ONE
        };
        for datagram in [acknowledging, new, again] {
            assert_eq!(in_credit(datagram, Duration::ZERO), 10_000);
        }
        let little = Received {
            streams: LARGE - 1,
            ..ONE
        };
        assert_eq!(in_credit(little, Duration::ZERO), 64);
    }

    #[test]
    fn datagrams_that_were_not_decrypted_cost_nothing() {
        assert_eq!(in_credit(Received::default(), Duration::ZERO), 10_000);
    }

    #[test]
    fn credit_is_bounded() {
        let (mut progress, now) = (Progress::new(), crate::clock::now());
        assert!(progress.is_in_credit(now));
        let later = now + Duration::from_secs(3600);
        let mut left = 0;
        while progress.is_in_credit(later) {
            progress.on_datagram(Received::default(), ONE);
            left += 1;
        }
        assert_eq!(left, 256);
    }
}
