//! Bounds the retries of a pool.

use std::cell::Cell;

use tokio::time::Instant;

/// Units that a retry costs. So a request earns as many units as the retries have percent of the requests.
const RETRY: u64 = 100;
/// Units that each millisecond earns: ten retries per second are always possible.
const PER_MILLISECOND: u64 = 1;
/// Most units that are saved up: a hundred retries.
const CAPACITY: u64 = 100 * RETRY;

/// Budget of the retries of a pool on one origin thread, so that retries do not multiply the load when all upstreams fail.
#[derive(Debug)]
pub(super) struct RetryBudget {
    /// Share of the requests that may be repeated, percent.
    percent: u64,
    /// Units left.
    units: Cell<u64>,
    /// Time up to which milliseconds have earned units.
    earned_until: Cell<Instant>,
}

impl RetryBudget {
    pub(super) fn new(percent: u64, now: Instant) -> RetryBudget {
        RetryBudget { percent, units: Cell::new(CAPACITY), earned_until: Cell::new(now) }
    }

    /// Takes a request, which earns a part of a retry.
    pub(super) fn on_request(&self) {
        self.earn(self.percent);
    }

    /// Returns whether a retry is allowed, and takes its units.
    pub(super) fn take(&self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.earned_until.get());
        let passed = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        if passed > 0 {
            self.earned_until.set(now);
            self.earn(passed.saturating_mul(PER_MILLISECOND));
        }
        let left = self.units.get().checked_sub(RETRY);
        self.units.set(left.unwrap_or(self.units.get()));
        left.is_some()
    }

    fn earn(&self, units: u64) {
        let sum = self.units.get().saturating_add(units);
        self.units.set(sum.min(CAPACITY));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::proxy::tests::run;

    /// Returns how many retries are allowed when each of `requests` wants one.
    fn allowed(budget: &RetryBudget, requests: usize, now: Instant) -> usize {
        let wanted = std::iter::repeat_with(|| {
            budget.on_request();
            budget.take(now)
        });
        wanted.take(requests).filter(|allowed| *allowed).count()
    }

    #[test]
    fn retries_are_a_share_of_the_requests_beside_ten_per_second() {
        run(async {
            let start = Instant::now();
            let budget = RetryBudget::new(20, start);
            // What was saved up comes on top; the first request could not add to it.
            assert_eq!(allowed(&budget, 10_001, start), 2000 + 100);
            assert_eq!(allowed(&budget, 1000, start), 200);
            let mut now = start;
            let mut sum = 0;
            for _ in 0..1000 {
                now += Duration::from_millis(10);
                sum += usize::from(budget.take(now));
            }
            assert!((99..=101).contains(&sum), "{sum} in ten seconds");
        });
    }

    #[test]
    fn nothing_is_saved_up_beyond_a_hundred_retries() {
        run(async {
            let start = Instant::now();
            let budget = RetryBudget::new(100, start);
            let late = start + Duration::from_secs(86_400);
            let taken = std::iter::repeat_with(|| budget.take(late));
            assert_eq!(taken.take(1000).filter(|allowed| *allowed).count(), 100);
        });
    }

    #[test]
    fn zero_percent_leaves_ten_retries_per_second() {
        run(async {
            let now = Instant::now();
            let budget = RetryBudget::new(0, now);
            assert_eq!(allowed(&budget, 5000, now), 100);
            assert_eq!(allowed(&budget, 5000, now + Duration::from_secs(1)), 10);
        });
    }
}
