//! Overload of a thread, which spends too much of its time on what clients send.

use std::time::{Duration, Instant};

/// Shortest time over which the share of such phases is judged: a handshake or two may fill a shorter one.
const WINDOW: Duration = Duration::from_millis(20);
/// Windows in a row that show overload. One alone may be a burst, or a thread that had to wait.
const WINDOWS: u8 = 2;
/// Time for which a thread counts as overloaded after the last of these windows.
const WHILE: Duration = Duration::from_secs(1);

/// Overload of a thread, by the share of its time that certain phases take: those in which a worker receives, or those in which a front
/// over TCP reads from connections that achieve nothing.
#[derive(Debug, Default)]
pub struct Overload {
    /// Start of the present window, at the end of a phase; `None` before the first.
    start: Option<Instant>,
    /// Time that phases have taken since.
    spent: Duration,
    /// Windows in a row in which they took too much.
    windows: u8,
    /// End of the time for which the thread counts as overloaded.
    until: Option<Instant>,
}

impl Overload {
    /// Adds time that belongs to the next phase.
    pub fn add(&mut self, spent: Duration) {
        self.spent += spent;
    }

    /// Notes a phase that took `spent` and ended at `now`. The thread counts as overloaded if such phases have taken
    /// more than `percent` of each of two windows of 20 ms.
    pub fn on_phase(&mut self, spent: Duration, percent: u64, now: Instant) {
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
        self.windows =
            if 100 * self.spent.as_nanos() > share { self.windows.saturating_add(1) } else { 0 };
        if self.windows >= WINDOWS {
            self.until = Some(now + WHILE);
        }
        (self.start, self.spent) = (Some(now), Duration::ZERO);
    }

    /// Returns whether the thread counts as overloaded.
    pub fn is_on(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether phases of so many milliseconds, one each 10 ms, with as much as `added` before each, are overload.
    fn is_overload(spent: u64, added: u64) -> bool {
        let (mut overload, start) = (Overload::default(), crate::clock::now());
        let mut now = start;
        for _ in 0..20 {
            now += Duration::from_millis(10);
            overload.add(Duration::from_millis(added));
            overload.on_phase(Duration::from_millis(spent), 50, now);
        }
        overload.is_on(now)
    }

    #[test]
    fn what_belongs_to_a_phase_counts_like_the_phase() {
        assert!(is_overload(6, 0));
        assert!(is_overload(0, 6));
        assert!(is_overload(3, 3));
        assert!(!is_overload(2, 2));
    }
}
