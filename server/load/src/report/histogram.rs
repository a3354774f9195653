//! A histogram of samples, drawn as h2load does.

use std::fmt::Write as _;

use crate::tally::Samples;
use crate::text::Form;

/// Number of buckets, all of the same width.
const BUCKETS: usize = 10;
/// Length of the longest bar, characters.
const LONGEST_BAR: u64 = 40;

/// Returns a line for each bucket from the smallest sample to the largest; none if these are equal. Each value is divided by `unit`.
#[expect(clippy::cast_precision_loss, reason = "few digits are written")]
pub(super) fn lines(samples: &Samples, unit: f64, form: Form) -> String {
    let mut text = String::new();
    let Some((min, max)) = samples.bounds().filter(|(min, max)| min < max) else {
        return text;
    };
    let counts = counts(samples, min, max);
    let most = counts.iter().max().copied().unwrap_or_default().max(1);
    let width = (max - min) as f64 / BUCKETS as f64;
    let edge = |bucket: usize| form((min as f64 + bucket as f64 * width) / unit);
    let percent = |count: u64| count as f64 * 100.0 / samples.len() as f64;
    let mut sum = 0;
    for (bucket, count) in counts.into_iter().enumerate() {
        sum += count;
        let bar = (count * LONGEST_BAR / most).max(u64::from(count > 0));
        let bar: String = (0..LONGEST_BAR).map(|at| if at < bar { '/' } else { ' ' }).collect();
        let _ = writeln!(
            text,
            "{:>10}-{:>10} [{bar}]({:6.2}/{:6.2}%)",
            edge(bucket),
            edge(bucket + 1),
            percent(count),
            percent(sum),
        );
    }
    text
}

/// Returns the number of samples in each bucket, whose lower edge belongs to it.
fn counts(samples: &Samples, min: u64, max: u64) -> [u64; BUCKETS] {
    let mut counts = [0; BUCKETS];
    let histogram = samples.histogram();
    for step in histogram.iter_recorded() {
        let value = histogram.median_equivalent(step.value_iterated_to());
        let distance = u128::from(value.clamp(min, max) - min);
        let bucket = distance * BUCKETS as u128 / u128::from(max - min);
        let bucket = usize::try_from(bucket).unwrap_or(BUCKETS);
        // The largest sample closes the last bucket.
        counts[bucket.min(BUCKETS - 1)] += step.count_since_last_iteration();
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::decimal;

    fn of(values: impl IntoIterator<Item = u64>) -> String {
        let mut samples = Samples::default();
        values.into_iter().for_each(|value| samples.add(value));
        lines(&samples, 1.0, decimal)
    }

    #[test]
    fn lines_are_those_of_h2load() {
        let values = [(0, 80), (10, 1), (15, 40), (99, 3), (100, 4)];
        let values = values.map(|(value, count)| vec![value; count]).concat();
        let expected =
            "      0.00-     10.00 [////////////////////////////////////////]( 62.50/ 62.50%)
     10.00-     20.00 [////////////////////                    ]( 32.03/ 94.53%)
     20.00-     30.00 [                                        ](  0.00/ 94.53%)
     30.00-     40.00 [                                        ](  0.00/ 94.53%)
     40.00-     50.00 [                                        ](  0.00/ 94.53%)
     50.00-     60.00 [                                        ](  0.00/ 94.53%)
     60.00-     70.00 [                                        ](  0.00/ 94.53%)
     70.00-     80.00 [                                        ](  0.00/ 94.53%)
     80.00-     90.00 [                                        ](  0.00/ 94.53%)
     90.00-    100.00 [///                                     ](  5.47/100.00%)
";
        assert_eq!(of(values), expected);
    }

    #[test]
    fn a_rare_sample_has_a_short_bar() {
        let text = of([vec![1; 1000], vec![2]].concat());
        let last =
            "      1.90-      2.00 [/                                       ](  0.10/100.00%)";
        assert_eq!(text.lines().last(), Some(last));
    }

    #[test]
    fn samples_that_are_equal_have_no_histogram() {
        assert_eq!(of([]), "");
        assert_eq!(of([7, 7, 7]), "");
    }

    #[test]
    fn any_samples_are_drawn() {
        for values in [[0, u64::MAX], [u64::MAX - 1, u64::MAX], [1_000_000, 1_000_001]] {
            let text = of(values);
            assert_eq!(text.lines().count(), BUCKETS, "{values:?}");
            assert!(text.ends_with("/100.00%)\n"), "{values:?}: {text}");
        }
    }
}
