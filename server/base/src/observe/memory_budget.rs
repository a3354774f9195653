//! The memory budget of the process: how much it may hold, and whether that is used up.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use super::metrics::{Page, Show, metrics};

/// Part of the limit by which memory must fall below it before the budget suffices again: without it, each release of a
/// little memory would admit more than it made room for.
const HYSTERESIS: u64 = 10;

/// The memory budget; one thread measures, and all others ask whether memory is short.
#[derive(Debug, Default)]
pub struct MemoryBudget {
    /// Bytes that the process may hold; 0 sets no limit.
    limit: u64,
    used: AtomicU64,
    short: AtomicBool,
    shortages: AtomicU64,
    /// Bytes to free until memory suffices, by the last measurement, less what has been closed since.
    to_free: AtomicU64,
    measurements: AtomicU64,
    /// Measurements in a row that have found memory short.
    short_in_a_row: AtomicU64,
    /// Wakers of the threads that close connections.
    wakers: Mutex<Vec<Waker>>,
}

metrics! {
    /// Figures of the budget.
    #[derive(Debug)]
    struct Figures {
        /// Memory that the process may hold, bytes; 0 without a limit.
        limit: u64 = gauge("sluicegate_memory_limit_bytes"),
        /// Memory that the process held at the last measurement, bytes.
        used: u64 = gauge("sluicegate_memory_used_bytes"),
        /// 1 while memory is short, and new connections and requests are refused.
        short: u64 = gauge("sluicegate_memory_short"),
        /// Times that memory became short.
        shortages: u64 = counter("sluicegate_memory_shortages_total"),
    }
}

impl MemoryBudget {
    /// Returns a budget of `limit` bytes, 0 for none.
    pub fn new(limit: u64) -> MemoryBudget {
        MemoryBudget { limit, ..MemoryBudget::default() }
    }

    /// Returns the limit, bytes; 0 without one.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns whether the budget is used up.
    pub fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }

    /// Returns whether a process that holds `used` bytes is so close to the limit that memory, once short, would remain so.
    pub fn is_close(&self, used: u64) -> bool {
        used > self.sufficient()
    }

    /// Returns the bytes up to which memory suffices again after a shortage.
    fn sufficient(&self) -> u64 {
        self.limit - self.limit / HYSTERESIS
    }

    /// Has a thread woken at each measurement that finds bytes to free.
    pub fn wake_to_free(&self, waker: Waker) {
        self.wakers().push(waker);
    }

    /// Returns the bytes that connections to be closed are to free; 0 while memory is not close to the limit.
    pub fn to_free(&self) -> u64 {
        self.to_free.load(Ordering::Acquire)
    }

    /// Notes that a connection that held so many bytes is being closed.
    pub fn on_closed(&self, bytes: u64) {
        let less = |to_free: u64| Some(to_free.saturating_sub(bytes));
        let _ = self.to_free.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
    }

    /// Returns the number of measurements so far.
    pub fn measurements(&self) -> u64 {
        self.measurements.load(Ordering::Acquire)
    }

    /// Returns how many measurements in a row have found memory short.
    pub fn short_in_a_row(&self) -> u64 {
        self.short_in_a_row.load(Ordering::Relaxed)
    }

    fn wakers(&self) -> MutexGuard<'_, Vec<Waker>> {
        // No code panics while it holds the lock.
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a measurement in bytes. Returns whether memory is short now, if that has changed. One thread calls it.
    pub fn measured(&self, used: u64) -> Option<bool> {
        self.used.store(used, Ordering::Relaxed);
        let before = self.is_short();
        let short = if before { self.is_close(used) } else { self.limit > 0 && used >= self.limit };
        self.short.store(short, Ordering::Relaxed);
        let in_a_row = if short { self.short_in_a_row() + 1 } else { 0 };
        self.short_in_a_row.store(in_a_row, Ordering::Relaxed);
        let began = short && !before;
        self.shortages.fetch_add(u64::from(began), Ordering::Relaxed);
        self.ask_for_relief(used);
        (short != before).then_some(short)
    }

    /// Has connections closed until memory suffices.
    fn ask_for_relief(&self, used: u64) {
        if self.limit == 0 {
            return;
        }
        let to_free = used.saturating_sub(self.sufficient());
        self.to_free.store(to_free, Ordering::Release);
        self.measurements.fetch_add(1, Ordering::AcqRel);
        if to_free > 0 {
            self.wakers().iter().for_each(Waker::wake_by_ref);
        }
    }
}

impl Show for MemoryBudget {
    fn show(&self, page: &mut Page) {
        let figures = Figures {
            limit: self.limit,
            used: self.used.load(Ordering::Relaxed),
            short: u64::from(self.is_short()),
            shortages: self.shortages.load(Ordering::Relaxed),
        };
        figures.show(page);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;

    #[test]
    fn memory_is_short_from_the_limit_on_until_a_tenth_is_free() {
        let budget = MemoryBudget::new(1000);
        for (used, change, short) in [
            (999, None, false),
            (1000, Some(true), true),
            (5000, None, true),
            (901, None, true),
            (900, Some(false), false),
            (999, None, false),
            (1001, Some(true), true),
            (0, Some(false), false),
        ] {
            assert_eq!(budget.measured(used), change, "{used}");
            assert_eq!(budget.is_short(), short, "{used}");
        }
        assert_eq!(budget.shortages.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn without_a_limit_memory_is_never_short() {
        let budget = MemoryBudget::default();
        assert_eq!(budget.measured(u64::MAX), None);
        assert!(!budget.is_short());
        assert_eq!(budget.to_free(), 0);
    }

    #[derive(Default)]
    struct Wakes(AtomicU64);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn each_measurement_close_to_the_limit_says_what_to_free_and_wakes_those_who_do() {
        let budget = MemoryBudget::new(1000);
        let wakes = Arc::<Wakes>::default();
        budget.wake_to_free(Arc::clone(&wakes).into());
        for (used, to_free, woken) in [(900, 0, 0), (901, 1, 1), (1100, 200, 2), (0, 0, 2)] {
            budget.measured(used);
            assert_eq!(budget.to_free(), to_free, "{used}");
            assert_eq!(wakes.0.load(Ordering::Relaxed), woken, "{used}");
        }
        assert_eq!(budget.measurements(), 4);
        budget.measured(1000);
        budget.on_closed(30);
        assert_eq!(budget.to_free(), 70);
        budget.on_closed(80);
        assert_eq!(budget.to_free(), 0);
    }
}
