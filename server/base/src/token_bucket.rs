//! A token bucket.

use std::time::Duration;

/// Cost of one event: a token is counted in billionths, so that a nanosecond at one event per second is one.
const TOKEN: u64 = 1_000_000_000;

/// Allows a rate of events in the long run and a burst of them at once.
///
/// Time is what has passed since any fixed moment, the same for every call; a step back refills nothing.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    per_second: u32,
    capacity: u64,
    level: u64,
    last: Duration,
}

impl TokenBucket {
    /// Returns a limit that is full at the start. A `burst` of 0 allows nothing, a rate of 0 nothing after the burst.
    pub fn new(per_second: u32, burst: u32) -> TokenBucket {
        let capacity = u64::from(burst) * TOKEN;
        TokenBucket { per_second, capacity, level: capacity, last: Duration::ZERO }
    }

    /// Takes rate and burst of another limit. What has happened lately still counts.
    pub fn change_to(&mut self, other: TokenBucket) {
        let used = self.capacity - self.level;
        *self =
            TokenBucket { level: other.capacity.saturating_sub(used), last: self.last, ..other };
    }

    /// Returns whether one more event may happen at `now`; if so, it is counted.
    pub fn allow(&mut self, now: Duration) -> bool {
        self.allow_leaving(now, 0)
    }

    /// Returns whether one more event may happen at `now` and leave `rest` to others; if so, it is counted.
    pub fn allow_leaving(&mut self, now: Duration, rest: u32) -> bool {
        let passed = now.saturating_sub(self.last).as_nanos();
        self.last = self.last.max(now);
        let refill = passed.saturating_mul(u128::from(self.per_second));
        let refill = u64::try_from(refill).unwrap_or(u64::MAX);
        self.level = self.level.saturating_add(refill).min(self.capacity);
        match self.level.checked_sub(TOKEN) {
            Some(level) if level >= u64::from(rest) * TOKEN => {
                self.level = level;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(limit: &mut TokenBucket, now: Duration, tries: u32) -> usize {
        (0..tries).filter(|_| limit.allow(now)).count()
    }

    #[test]
    fn another_rate_holds_at_once_and_what_happened_before_counts() {
        let mut limit = TokenBucket::new(10, 10);
        let start = Duration::from_secs(1000);
        assert_eq!(allowed(&mut limit, start, 4), 4);
        limit.change_to(TokenBucket::new(100, 6));
        assert_eq!(allowed(&mut limit, start, 9), 2);
        assert_eq!(allowed(&mut limit, start + Duration::from_millis(30), 9), 3);
        limit.change_to(TokenBucket::new(1, 1));
        assert_eq!(allowed(&mut limit, start + Duration::from_millis(60), 9), 0);
        limit.change_to(TokenBucket::new(0, 0));
        assert_eq!(allowed(&mut limit, start + Duration::from_secs(9), 9), 0);
    }

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let mut limit = TokenBucket::new(100, 5);
        let start = Duration::from_secs(1000);
        assert_eq!(allowed(&mut limit, start, 20), 5);
        assert_eq!(allowed(&mut limit, start + Duration::from_millis(9), 20), 0);
        assert_eq!(allowed(&mut limit, start + Duration::from_millis(10), 20), 1);
        assert_eq!(allowed(&mut limit, start + Duration::from_secs(9), 20), 5);
    }

    #[test]
    fn events_that_leave_a_rest_take_no_part_of_it() {
        let mut limit = TokenBucket::new(100, 10);
        let start = Duration::from_secs(1000);
        let leaving =
            |limit: &mut TokenBucket, now| (0..20).filter(|_| limit.allow_leaving(now, 6)).count();
        assert_eq!(leaving(&mut limit, start), 4);
        assert_eq!(allowed(&mut limit, start, 20), 6);
        assert_eq!(leaving(&mut limit, start + Duration::from_millis(60)), 0);
        assert_eq!(leaving(&mut limit, start + Duration::from_millis(80)), 2);
    }

    #[test]
    fn the_long_run_rate_holds_at_any_step() {
        for step in [1, 333, 1_000_003] {
            let mut limit = TokenBucket::new(1000, 10);
            let mut passed = 0;
            let mut now = Duration::ZERO;
            while now < Duration::from_millis(200) {
                passed += usize::from(limit.allow(now));
                now += Duration::from_nanos(step * 1000);
                if passed > 1000 {
                    break;
                }
            }
            let most = 10 + 200;
            assert!(passed <= most + 1, "{passed} at {step} µs");
            assert!(step > 1000 || passed >= most - 1, "{passed} at {step} µs");
        }
    }

    #[test]
    fn time_that_steps_back_refills_nothing() {
        let mut limit = TokenBucket::new(1, 1);
        assert!(limit.allow(Duration::from_secs(100)));
        assert!(!limit.allow(Duration::from_secs(50)));
        assert!(!limit.allow(Duration::from_secs(100)));
        assert!(limit.allow(Duration::from_secs(101)));
    }

    #[test]
    fn extremes_neither_overflow_nor_pass_more_than_the_burst() {
        let mut limit = TokenBucket::new(u32::MAX, 3);
        assert_eq!(allowed(&mut limit, Duration::MAX, 10), 3);
        assert_eq!(allowed(&mut TokenBucket::new(0, 2), Duration::MAX, 10), 2);
        assert_eq!(allowed(&mut TokenBucket::new(9, 0), Duration::MAX, 10), 0);
        assert!(TokenBucket::new(u32::MAX, u32::MAX).allow(Duration::MAX));
    }
}
