//! Least, middle, largest and last value of a series, in bounded memory.

use hdrhistogram::Histogram;

use crate::number::whole;
use crate::summary::Spread;

/// Largest value that the histogram tells from larger ones.
const MAX: u64 = 1 << 40;

/// A series of numbers, each with a weight.
#[derive(Debug)]
pub(super) struct Series {
    /// Two significant digits; `None` if there is no memory for it.
    histogram: Option<Histogram<u64>>,
    /// Steps of the histogram in one unit of the series.
    scale: f64,
    range: Option<(f64, f64)>,
    last: f64,
}

impl Series {
    pub(super) fn new(scale: f64) -> Series {
        let histogram = Histogram::new_with_bounds(1, MAX, 2).ok();
        Series { histogram, scale, range: None, last: 0.0 }
    }

    /// Adds a value that held for `weight`.
    pub(super) fn add(&mut self, value: f64, weight: u64) {
        let (min, max) = self.range.unwrap_or((value, value));
        self.range = Some((min.min(value), max.max(value)));
        self.last = value;
        if let Some(histogram) = &mut self.histogram {
            // One that is too large counts as the largest.
            let step = whole(value * self.scale).clamp(1, MAX);
            let _ = histogram.record_n(step, weight);
        }
    }

    pub(super) fn spread(&self) -> Option<Spread> {
        let (min, max) = self.range?;
        let median = self.histogram.as_ref().filter(|histogram| !histogram.is_empty());
        let median = median.map(|h| h.value_at_quantile(0.5) as f64 / self.scale);
        let median = median.unwrap_or(self.last).clamp(min, max);
        Some(Spread { min, median, max, end: self.last })
    }
}
