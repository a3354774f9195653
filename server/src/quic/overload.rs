//! Overload of a worker, which spends most of its time on received datagrams.

use std::time::{Duration, Instant};

/// Shortest time over which the share of the receive phases is judged: a handshake or two may fill a shorter one.
const WINDOW: Duration = Duration::from_millis(20);
/// Windows in a row that show overload. One alone may be a burst, or a thread that had to wait.
const WINDOWS: u8 = 2;
/// Time for which a worker counts as overloaded after the last of these windows.
const WHILE: Duration = Duration::from_secs(1);

/// Overload of a worker, by the share of its time that its receive phases take.
#[derive(Debug, Default)]
pub(super) struct Overload {
    /// Start of the present window, at the end of a receive phase; `None` before the first.
    start: Option<Instant>,
    /// Time that receive phases have taken since.
    spent: Duration,
    /// Windows in a row in which they took too much.
    windows: u8,
    /// End of the time for which the worker counts as overloaded.
    until: Option<Instant>,
}

impl Overload {
    /// Notes a receive phase that took `spent` and ended at `now`. The worker counts as overloaded if such phases have taken
    /// more than `percent` of each of [`WINDOWS`] windows.
    pub(super) fn on_phase(&mut self, spent: Duration, percent: u64, now: Instant) {
        let Some(start) = self.start else {
            self.start = Some(now);
            return;
        };
        self.spent += spent;
        let elapsed = now.saturating_duration_since(start);
        if elapsed < WINDOW {
            return;
        }
        let share = u128::from(percent) * elapsed.as_nanos();
        self.windows = if 100 * self.spent.as_nanos() > share {
            self.windows.saturating_add(1)
        } else {
            0
        };
        if self.windows >= WINDOWS {
            self.until = Some(now + WHILE);
        }
        (self.start, self.spent) = (Some(now), Duration::ZERO);
    }

    /// Returns whether the worker counts as overloaded.
    pub(super) fn is_on(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}
