//! The memory budget of the process: how much it may hold, and whether that is used up.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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
        MemoryBudget {
            limit,
            ..MemoryBudget::default()
        }
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
        used > self.limit - self.limit / HYSTERESIS
    }

    /// Takes a measurement in bytes. Returns whether memory is short now, if that has changed. One thread calls it.
    pub fn measured(&self, used: u64) -> Option<bool> {
        self.used.store(used, Ordering::Relaxed);
        let before = self.is_short();
        let short = if before {
            self.is_close(used)
        } else {
            self.limit > 0 && used >= self.limit
        };
        self.short.store(short, Ordering::Relaxed);
        let began = short && !before;
        self.shortages
            .fetch_add(u64::from(began), Ordering::Relaxed);
        (short != before).then_some(short)
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
    }
}
