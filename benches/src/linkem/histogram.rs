//! A histogram of durations with a relative error of 3 %.

use std::time::Duration;

/// Buckets of each power of two, as a power of two.
const PRECISION: u32 = 5;

/// Counts durations in buckets whose width grows with their value.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    largest: u64,
}

impl Histogram {
    /// Adds a duration.
    pub fn add(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let index = bucket(nanos);
        if self.counts.len() <= index {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += 1;
        self.total += 1;
        self.largest = self.largest.max(nanos);
    }

    /// Returns a duration that `percent` percent of those added do not exceed; `None` if there are none.
    pub fn percentile(&self, percent: f64) -> Option<Duration> {
        let rank = (self.total as f64 * percent / 100.0).ceil().max(1.0);
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen as f64 >= rank
        })?;
        Some(Duration::from_nanos(upper(found).min(self.largest)))
    }

    /// Returns the largest duration added; `None` if there are none.
    pub fn max(&self) -> Option<Duration> {
        (self.total > 0).then(|| Duration::from_nanos(self.largest))
    }
}

/// Returns the bucket of a value: itself below 32, then 32 buckets for each power of two.
fn bucket(nanos: u64) -> usize {
    let shift = nanos.max(1).ilog2().saturating_sub(PRECISION);
    let index = (u64::from(shift) << PRECISION) + (nanos >> shift);
    usize::try_from(index).unwrap_or(usize::MAX)
}

/// Returns the largest value of a bucket.
fn upper(index: usize) -> u64 {
    let index = index as u64 + 1;
    let power = (index >> PRECISION).saturating_sub(1);
    let lowest_of_next = u128::from(index - (power << PRECISION)) << power;
    u64::try_from(lowest_of_next - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_their_values_and_are_narrow() {
        for nanos in (0..10_000).chain((10..64).map(|power| (1 << power) - 1)) {
            let index = bucket(nanos);
            let lowest = index.checked_sub(1).map_or(0, |before| upper(before) + 1);
            assert!((lowest..=upper(index)).contains(&nanos), "{nanos}");
            assert!(upper(index) - lowest <= lowest / 32, "{nanos}");
        }
    }

    #[test]
    fn percentiles_are_of_what_was_added() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.percentile(50.0), histogram.max()), (None, None));
        for micros in 1..=1_000 {
            histogram.add(Duration::from_micros(micros));
        }
        for (percent, micros) in [(0.0, 1.0), (50.0, 500.0), (99.0, 990.0), (100.0, 1000.0)] {
            let found = histogram.percentile(percent).expect("not empty");
            let ratio = found.as_secs_f64() * 1e6 / micros;
            assert!((1.0..1.04).contains(&ratio), "{percent}: {found:?}");
        }
        assert_eq!(histogram.max(), Some(Duration::from_millis(1)));
    }
}
