//! Times at which requests are due.

use std::time::{Duration, Instant};

/// Evenly spaced times of which a thread has every n-th.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    start: Instant,
    /// Times per second, of all threads together.
    rate: f64,
    /// Number of the next time, counted from the start.
    next: u64,
    step: u64,
}

impl Schedule {
    /// Makes a schedule of `rate` times per second of which the user has number `first` and every `step`-th after it.
    pub(crate) fn new(start: Instant, rate: f64, first: u64, step: u64) -> Self {
        Schedule {
            start,
            rate,
            next: first,
            step,
        }
    }

    /// Returns the next time. It is computed from the start, so that no error adds up.
    pub(crate) fn next(&self) -> Instant {
        self.start + Duration::from_secs_f64(count(self.next) / self.rate)
    }

    /// Returns the next time if it has come.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        let next = self.next();
        (next <= now).then_some(next)
    }

    /// Goes on to the time after the next.
    pub(crate) fn advance(&mut self) {
        self.next += self.step;
    }

    /// Takes the next `count` times.
    pub(crate) fn take(&mut self, count: u64) -> impl Iterator<Item = Instant> {
        (0..count).map(|_| {
            let next = self.next();
            self.advance();
            next
        })
    }

    /// Returns how many times have come up to `now` and are still the next ones.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and far below 2^53"
    )]
    pub(crate) fn behind(&self, now: Instant) -> u64 {
        if self.next() > now {
            return 0;
        }
        let elapsed = now.saturating_duration_since(self.start).as_secs_f64();
        let last = (elapsed * self.rate).floor() as u64;
        last.saturating_sub(self.next) / self.step.max(1) + 1
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
fn count(count: u64) -> f64 {
    count as f64
}

/// Rule by which a connection sends requests.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// A request as soon as a response is complete.
    Closed,
    /// Requests per second, from the end of its handshake on.
    Rate(f64),
    /// Requests at the times of a schedule of its own.
    Scheduled(Schedule),
    /// Requests that the thread submits, by a schedule of all connections.
    Shared,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any time will do")]
    fn threads_share_evenly_spaced_times() {
        let start = Instant::now();
        let mut threads = [0, 1, 2].map(|first| Schedule::new(start, 1000.0, first, 3));
        let mut times = Vec::new();
        for thread in &mut threads {
            while let Some(due) = thread.due(start + Duration::from_millis(99)) {
                times.push(due);
                thread.advance();
            }
            assert!(thread.next() > start + Duration::from_millis(99));
        }
        times.sort_unstable();
        let expected: Vec<_> = (0..100).map(|i| start + Duration::from_millis(i)).collect();
        let error = |(a, b): (&Instant, &Instant)| {
            let error = a.saturating_duration_since(*b) + b.saturating_duration_since(*a);
            error < Duration::from_micros(1)
        };
        assert_eq!(times.len(), expected.len());
        assert!(times.iter().zip(&expected).all(error));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any time will do")]
    fn times_that_nobody_took_are_counted() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start, 100.0, 0, 1);
        assert_eq!(schedule.behind(start), 1);
        schedule.advance();
        assert_eq!(schedule.behind(start), 0);
        assert_eq!(schedule.behind(start + Duration::from_millis(95)), 9);
    }
}
