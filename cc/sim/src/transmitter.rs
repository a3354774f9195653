//! The sending end of a link, whose rate changes at given times.

use std::time::Duration;

use sluicegate_cc::Time;

/// Sends packets one after the other.
#[derive(Clone, Debug)]
pub(super) struct Transmitter {
    /// Bits per second, each with the time from which it applies.
    rate: Vec<(Duration, u64)>,
    /// Place of the rate that applies.
    index: usize,
    busy_until: Time,
}

impl Transmitter {
    /// Returns an idle transmitter. The rates are ascending in time, the first at 0; `u64::MAX` takes no time.
    pub(super) const fn new(rate: Vec<(Duration, u64)>) -> Self {
        Self { rate, index: 0, busy_until: Time::ZERO }
    }

    /// Returns when the last packet has left.
    pub(super) const fn busy_until(&self) -> Time {
        self.busy_until
    }

    /// Sends `bytes` at `now`, or after those before, and returns when they have left.
    pub(super) fn send(&mut self, now: Time, bytes: u64) -> Time {
        self.busy_until = self.finish(self.busy_until.max(now), bytes);
        self.busy_until
    }

    /// Returns when `bytes` whose transmission begins at `start` have left, across changes of rate.
    fn finish(&mut self, start: Time, bytes: u64) -> Time {
        let mut at = start.as_nanos();
        let mut nanobits = u128::from(bytes) * 8_000_000_000;
        loop {
            let next = self.rate.get(self.index + 1);
            let next = next.map_or(u64::MAX, |(from, _)| nanos(*from));
            if next <= at {
                self.index += 1;
                continue;
            }
            let rate = self.rate.get(self.index).map_or(1, |r| r.1);
            if rate == u64::MAX {
                return Time::from_nanos(at);
            }
            let rate = u128::from(rate.max(1));
            let needed = nanobits.div_ceil(rate);
            let until_next = u128::from(next - at);
            if needed <= until_next {
                return Time::from_nanos(at + u64::try_from(needed).unwrap_or(u64::MAX));
            }
            nanobits -= until_next * rate;
            at = next;
        }
    }
}

/// Returns the nanoseconds, at most `u64::MAX`.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
