//! Histograms of durations.

use std::time::Duration;

use super::sum::Sum;

/// Longest duration of each bucket; a last bucket counts longer ones.
pub const BOUNDS: [Duration; 22] = [
    Duration::from_micros(5),
    Duration::from_micros(10),
    Duration::from_micros(25),
    Duration::from_micros(50),
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_millis(2500),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
];

/// Histogram in a plain array. To record is a search among 22 numbers and two additions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    buckets: [u64; BOUNDS.len() + 1],
    sum_ns: u64,
}

impl Histogram {
    /// Records a duration.
    pub fn record(&mut self, duration: Duration) {
        let bucket = BOUNDS.partition_point(|bound| *bound < duration);
        self.buckets[bucket] += 1;
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    /// Returns the number of recorded durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the sum of the recorded durations.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns)
    }

    /// Returns each bound with the number of durations that were not longer.
    pub fn cumulative(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let mut sum = 0;
        BOUNDS.iter().zip(&self.buckets).map(move |(bound, count)| {
            sum += count;
            (*bound, sum)
        })
    }
}

/// A sum of durations that does not fit saturates.
impl Sum for Histogram {
    fn add_up(&mut self, more: &Self) {
        // Named one by one, so that none is forgotten.
        let Histogram { buckets, sum_ns } = more;
        self.buckets.add_up(buckets);
        self.sum_ns = self.sum_ns.saturating_add(*sum_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_lies_in_the_first_bucket_that_is_long_enough() {
        assert!(BOUNDS.is_sorted());
        for (index, bound) in BOUNDS.iter().enumerate() {
            let mut histogram = Histogram::default();
            histogram.record(*bound);
            histogram.record(*bound + Duration::from_nanos(1));
            let not_longer: Vec<u64> = histogram.cumulative().map(|(_, count)| count).collect();
            let expected = |at: usize| match at.cmp(&index) {
                std::cmp::Ordering::Less => 0,
                std::cmp::Ordering::Equal => 1,
                std::cmp::Ordering::Greater => 2,
            };
            assert_eq!(not_longer, (0..BOUNDS.len()).map(expected).collect::<Vec<_>>());
            assert_eq!(histogram.count(), 2);
        }
    }

    #[test]
    fn sums_are_those_of_all_that_was_recorded() {
        let (mut first, mut second) = (Histogram::default(), Histogram::default());
        first.record(Duration::from_micros(1500));
        second.record(Duration::from_secs(3600));
        second.record(Duration::from_nanos(700));
        first.add_up(&second);
        assert_eq!(first.count(), 3);
        assert_eq!(first.sum(), Duration::from_nanos(3_600_001_500_700));
        first.record(Duration::MAX);
        first.record(Duration::MAX);
        assert_eq!((first.count(), first.sum()), (5, Duration::from_nanos(u64::MAX)));
    }
}
