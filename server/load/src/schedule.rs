//! Times at which requests are due.

use std::sync::Arc;
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
        Schedule { start, rate, next: first, step }
    }

    /// Returns the next time. It is computed from the start, so that no error adds up.
    pub(crate) fn next(&self) -> Instant {
        self.start + Duration::from_secs_f64(count(self.next) / self.rate)
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

/// Times of a script's lines, and the line that a connection has come to.
#[derive(Clone, Debug)]
pub(crate) struct Playback {
    /// Offsets of all lines; none is less than the one before.
    offsets: Arc<[Duration]>,
    /// Time from which the offsets count; none before the first handshake is complete.
    start: Option<Instant>,
    /// Index of the next line.
    next: usize,
}

impl Playback {
    /// Makes the playback of a script, before its first line.
    pub(crate) fn new(offsets: Arc<[Duration]>) -> Self {
        Playback { offsets, start: None, next: 0 }
    }

    /// Begins, unless it has begun.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.start.get_or_insert(now);
    }

    /// Returns the time of the next line, if it has begun.
    pub(crate) fn next(&self) -> Option<Instant> {
        let offset = self.offsets.get(self.next)?;
        self.start.map(|start| start + *offset)
    }

    /// Goes on to the line after the next. After the last line comes the first one, whose offset counts from there.
    pub(crate) fn advance(&mut self) {
        self.next += 1;
        if self.next == self.offsets.len() {
            self.next = 0;
            let length = self.offsets.last().copied().unwrap_or_default();
            self.start = self.start.map(|start| start + length);
        }
    }
}

/// Rule by which a connection sends requests.
#[derive(Clone, Debug, Default)]
pub(crate) enum Pace {
    /// A request as soon as a response is complete.
    #[default]
    Closed,
    /// Requests per second, from the end of its handshake on.
    Rate(f64),
    /// Requests at the times of a script.
    Script(Playback),
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
            while thread.next() <= start + Duration::from_millis(99) {
                times.push(thread.next());
                thread.advance();
            }
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

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any time will do")]
    fn a_script_is_played_from_its_begin_on_and_again() {
        let offsets = [5, 5, 20].map(Duration::from_millis);
        let mut playback = Playback::new(Arc::from(offsets));
        assert_eq!(playback.next(), None);
        let start = Instant::now();
        playback.begin(start);
        playback.begin(start + Duration::from_secs(1));
        for millis in [5, 5, 20, 25, 25, 40, 45] {
            let expected = start + Duration::from_millis(millis);
            assert_eq!(playback.next(), Some(expected), "{millis}");
            playback.advance();
        }
    }
}
