//! Bytes sent and acknowledged, in bins of equal time.

use std::time::Duration;

use crate::Time;

/// Length of the window over which bytes are compared, in initial round trips: 3.5, as a fraction (WINDOW_SIZE_FACTOR).
const WINDOW: (u64, u64) = (7, 2);
/// Bins in a window (W).
const BINS: usize = 10;
/// Bins by which the comparison looks back at most; after a longer round trip it is left out (EXTRA_BINS).
const EXTRA_BINS: usize = 15;
/// Bins that an initial round trip reaches into: BINS / WINDOW, rounded up.
const ROUND_TRIP_BINS: usize = 3;
/// Part of the bytes sent that is missing at a full path, in hundredths (THRESH).
const MISSING: u128 = 26;

/// The latest bins of a path's first slow start.
///
/// The draft fills the bins when an ACK comes, and gives those that passed without one the value before. What was sent is known
/// exactly, so bins of sent bytes are filled when a packet leaves, too.
#[derive(Clone, Debug)]
pub(crate) struct Bins {
    /// Length of a bin, nanoseconds, never 0.
    pub(super) width: u64,
    /// End of the present bin.
    end: Time,
    /// Number of the present bin. The first one, 0, has no length: it ended when the bins began.
    present: usize,
    /// Number of the bin in which the application last had nothing to send.
    limited: usize,
    sent: Ring<{ EXTRA_BINS + BINS + 1 }>,
    acked: Ring<{ BINS + 1 }>,
}

impl Bins {
    /// Begins bins for a path whose first round trip took `rtt`.
    pub(crate) fn new(now: Time, rtt: Duration) -> Self {
        let (windows, round_trips) = WINDOW;
        let width = nanos(rtt).saturating_mul(windows) / (round_trips * BINS as u64);
        let width = width.max(1);
        Self {
            width,
            end: now + Duration::from_nanos(width),
            present: 1,
            limited: 0,
            sent: Ring::default(),
            acked: Ring::default(),
        }
    }

    /// Returns whether a whole window has passed since anything was counted.
    pub(crate) fn are_stale(&self, now: Time) -> bool {
        let counted = self.sent.newest.max(self.acked.newest);
        self.at(now).0.saturating_sub(1).saturating_sub(counted) > BINS
    }

    /// The application has nothing to send though there is room.
    pub(crate) fn on_app_limited(&mut self, now: Time) {
        self.advance(now);
        self.limited = self.present;
    }

    /// Counts a packet that leaves.
    pub(crate) fn on_sent(&mut self, now: Time, bytes: u64) {
        self.advance(now);
        self.sent.fill(self.present - 1);
        self.sent.total = self.sent.total.saturating_add(bytes);
    }

    /// Counts acknowledged bytes, in the bin that ended last if none were counted since. Returns whether that was so.
    pub(crate) fn on_acked(&mut self, now: Time, bytes: u64) -> bool {
        self.advance(now);
        let ended = self.present - 1;
        let first = ended > self.acked.newest;
        if first {
            self.acked.fill(ended - 1);
        }
        self.acked.total = self.acked.total.saturating_add(bytes);
        self.acked.fill(ended);
        self.sent.fill(ended);
        first
    }

    /// Compares the bytes delivered in the latest window with those sent in the window one round trip before. Returns false
    /// if the application paused since: then what is sent follows its bursts, not the window.
    pub(crate) fn is_path_full(&self, rtt: Duration) -> bool {
        let newest = self.acked.newest;
        let rtt = nanos(rtt);
        let Ok(back) = usize::try_from(rtt / self.width) else {
            return false;
        };
        // The window before needs one bin more, for a round trip that ends within a bin.
        let first = newest.saturating_sub(back).saturating_sub(BINS + 1);
        if back >= EXTRA_BINS || newest <= BINS + back || first < self.limited {
            return false;
        }
        let part = rtt % self.width;
        let sent_by = |bin: usize| {
            let within = self.sent.at(bin) - self.sent.at(bin - 1);
            let late = u128::from(within) * u128::from(part) / u128::from(self.width);
            u128::from(self.sent.at(bin)) - late
        };
        let sent = sent_by(newest - back) - sent_by(newest - back - BINS);
        let delivered = self.acked.at(newest) - self.acked.at(newest - BINS);
        let missing = sent.saturating_sub(u128::from(delivered));
        sent > 0 && missing * 100 >= sent * MISSING
    }

    /// Returns the bytes delivered in about the latest initial round trip: an estimate of the BDP.
    pub(crate) fn delivered_in_round_trip(&self) -> u64 {
        let newest = self.acked.newest;
        self.acked.at(newest) - self.acked.at(newest.saturating_sub(ROUND_TRIP_BINS))
    }

    /// Returns the number and the end of the bin of `now`.
    fn at(&self, now: Time) -> (usize, Time) {
        if now < self.end {
            return (self.present, self.end);
        }
        let since = now.as_nanos() - self.end.as_nanos();
        let passed = since / self.width + 1;
        let end = self.end + Duration::from_nanos(passed.saturating_mul(self.width));
        let passed = usize::try_from(passed).unwrap_or(usize::MAX);
        (self.present.saturating_add(passed), end)
    }

    fn advance(&mut self, now: Time) {
        (self.present, self.end) = self.at(now);
    }
}

/// A running total, as it was at the end of each of the latest `N` bins.
#[derive(Clone, Debug)]
struct Ring<const N: usize> {
    total: u64,
    /// Number of the newest bin that has ended and has a value.
    newest: usize,
    values: [u64; N],
}

impl<const N: usize> Default for Ring<N> {
    fn default() -> Self {
        Self { total: 0, newest: 0, values: [0; N] }
    }
}

impl<const N: usize> Ring<N> {
    /// Gives all bins up to `bin` that have no value the present total.
    fn fill(&mut self, bin: usize) {
        let empty = bin.saturating_sub(self.newest).min(N);
        for back in 0..empty {
            self.values[(bin - back) % N] = self.total;
        }
        self.newest = self.newest.max(bin);
    }

    /// Returns the total at the end of one of the latest `N` bins.
    fn at(&self, bin: usize) -> u64 {
        self.values[bin % N]
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
