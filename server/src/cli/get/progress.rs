//! A line on a terminal that shows how a download advances.

use std::io::Write;
use std::time::{Duration, Instant};

/// Time between two updates of the line.
const PERIOD: Duration = Duration::from_millis(200);

/// The line. It appears once a download takes longer than a period.
pub(super) struct ProgressLine<W> {
    /// The terminal; `None` if no line is wanted.
    pub(super) out: Option<W>,
    start: Instant,
    next: Instant,
    shown: bool,
}

impl<W: Write> ProgressLine<W> {
    /// Begins a line, for a download that begins now.
    pub(super) fn new(out: Option<W>, now: Instant) -> ProgressLine<W> {
        ProgressLine { out, start: now, next: now + PERIOD, shown: false }
    }

    /// Shows so many bytes, of as many as the response has announced.
    pub(super) fn on_bytes(&mut self, bytes: u64, announced: Option<u64>, now: Instant) {
        let Some(out) = &mut self.out else {
            return;
        };
        if now < self.next {
            return;
        }
        self.next = now + PERIOD;
        self.shown = true;
        let line = line(bytes, announced, now.saturating_duration_since(self.start));
        // A lost line is no reason to stop.
        let _ = write!(out, "\r\x1b[K{line}").and_then(|()| out.flush());
    }

    /// Removes the line.
    pub(super) fn finish(&mut self) {
        if let Some(out) = self.out.as_mut().filter(|_| self.shown) {
            let _ = write!(out, "\r\x1b[K").and_then(|()| out.flush());
        }
        self.shown = false;
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few digits are printed")]
fn line(bytes: u64, announced: Option<u64>, time: Duration) -> String {
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let whole = announced.filter(|all| *all >= bytes && *all > 0);
    let whole = whole.map(|all| {
        let percent = u128::from(bytes) * 100 / u128::from(all);
        format!(" of {:.1} MB, {percent} %", megabytes(all))
    });
    let seconds = time.as_secs_f64();
    let rate = if seconds > 0.0 { megabytes(bytes) / seconds } else { 0.0 };
    format!("{:.1} MB{}, {rate:.1} MB/s", megabytes(bytes), whole.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_base::clock;

    #[test]
    fn a_line_has_the_size_the_part_and_the_rate() {
        let second = Duration::from_secs(1);
        assert_eq!(line(5_000_000, Some(20_000_000), second), "5.0 MB of 20.0 MB, 25 %, 5.0 MB/s");
        assert_eq!(line(5_000_000, None, 2 * second), "5.0 MB, 2.5 MB/s");
        assert_eq!(line(1, Some(0), Duration::ZERO), "0.0 MB, 0.0 MB/s");
        assert_eq!(line(u64::MAX, Some(u64::MAX), second).matches("100 %").count(), 1);
    }

    #[test]
    fn a_short_download_shows_nothing_and_a_long_one_leaves_nothing() {
        let start = clock::now();
        let mut written = Vec::new();
        let mut progress = ProgressLine::new(Some(&mut written), start);
        progress.on_bytes(1, None, start);
        progress.finish();
        assert_eq!(written, b"");
        let mut progress = ProgressLine::new(Some(&mut written), start);
        progress.on_bytes(1_000_000, None, start + PERIOD);
        progress.on_bytes(1_000_001, None, start + PERIOD);
        progress.finish();
        assert_eq!(String::from_utf8(written).unwrap(), "\r\x1b[K1.0 MB, 5.0 MB/s\r\x1b[K");
        ProgressLine::<Vec<u8>>::new(None, start).on_bytes(1, None, start + PERIOD);
    }
}
