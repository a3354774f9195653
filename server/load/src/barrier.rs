//! The start that the schedules of all threads have in common.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longest sleep of a thread that waits for the start.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_millis(1);
/// Time from the last arrival to the start, in which every thread wakes up to learn it: ten of the sleeps above.
const LEAD: Duration = Duration::from_millis(10);

/// A barrier: the start is set when the last thread arrives.
pub(crate) struct StartBarrier {
    missing: AtomicU64,
    start: OnceLock<Instant>,
    clock: fn() -> Instant,
}

impl StartBarrier {
    /// Makes a barrier for so many threads, each of which takes a [`BarrierArrival`].
    pub(crate) fn new(threads: u64, clock: fn() -> Instant) -> Self {
        StartBarrier { missing: AtomicU64::new(threads), start: OnceLock::new(), clock }
    }

    /// Returns what a thread drops to arrive.
    pub(crate) fn arrival(&self) -> BarrierArrival<'_> {
        BarrierArrival(self)
    }

    /// Returns the start, once all threads have arrived.
    pub(crate) fn start(&self) -> Option<Instant> {
        self.start.get().copied()
    }
}

/// A thread's arrival. To drop it is to arrive, so that no thread waits for one that has failed.
pub(crate) struct BarrierArrival<'a>(&'a StartBarrier);

impl<'a> BarrierArrival<'a> {
    pub(crate) fn barrier(&self) -> &'a StartBarrier {
        self.0
    }
}

impl Drop for BarrierArrival<'_> {
    fn drop(&mut self) {
        if self.0.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            // No other thread is the last one.
            let _ = self.0.start.set((self.0.clock)() + LEAD);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any time will do")]
    fn the_start_comes_after_the_last_arrival_and_is_one_for_all() {
        let barrier = StartBarrier::new(3, Instant::now);
        let mut arrivals: Vec<_> = (0..3).map(|_| barrier.arrival()).collect();
        let last = arrivals.pop();
        drop(arrivals);
        assert_eq!(barrier.start(), None);
        let before = Instant::now();
        drop(last);
        let start = barrier.start().unwrap();
        assert!(start >= before + LEAD);
        assert_eq!(barrier.start(), Some(start));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any time will do")]
    fn a_thread_that_panics_keeps_nobody_waiting() {
        let barrier = StartBarrier::new(2, Instant::now);
        std::thread::scope(|scope| {
            let arrival = barrier.arrival();
            let thread = scope.spawn(move || {
                let _arrival = arrival;
                panic!("it is meant to");
            });
            assert!(thread.join().is_err());
        });
        assert_eq!(barrier.start(), None);
        drop(barrier.arrival());
        assert!(barrier.start().is_some());
    }
}
