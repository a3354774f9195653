//! The distribution of request times, as HdrHistogram's tools write and plot it.

use std::fmt::Write as _;

use hdrhistogram::Histogram;

/// Nanoseconds of a millisecond.
const MILLIS: f64 = 1e6;

/// Lines for each halving of the distance to 100 %.
const TICKS_PER_HALF: u32 = 5;

/// Returns the distribution of times in the text form of HdrHistogram's tools (`.hgrm`), milliseconds.
#[expect(clippy::cast_precision_loss, reason = "three decimals are written")]
pub(crate) fn percentiles(histogram: &Histogram<u64>) -> String {
    let mut text = String::from("       Value     Percentile TotalCount 1/(1-Percentile)\n\n");
    let mut count = 0;
    for step in histogram.iter_quantiles(TICKS_PER_HALF) {
        count += step.count_since_last_iteration();
        let (value, quantile) =
            (step.value_iterated_to() as f64 / MILLIS, step.quantile_iterated_to());
        let _ = write!(text, "{value:>12.3} {quantile:>14.12} {count:>10}");
        if quantile < 1.0 {
            let _ = write!(text, " {:>14.2}", 1.0 / (1.0 - quantile));
        }
        text.push('\n');
    }
    let (mean, deviation) = (histogram.mean() / MILLIS, histogram.stdev() / MILLIS);
    let (max, total) = (histogram.max() as f64 / MILLIS, histogram.len());
    let _ = writeln!(text, "#[Mean    = {mean:>12.3}, StdDeviation   = {deviation:>12.3}]");
    let _ = writeln!(text, "#[Max     = {max:>12.3}, Total count    = {total:>12}]");
    let (buckets, sub_buckets) = (histogram.buckets(), histogram.distinct_values());
    let _ = writeln!(text, "#[Buckets = {buckets:>12}, SubBuckets     = {sub_buckets:>12}]");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_is_in_the_distribution() {
        let mut histogram = Histogram::new(3).unwrap();
        for millis in 1..=1000_u64 {
            histogram.record(millis * 1_000_000).unwrap();
        }
        let text = percentiles(&histogram);
        let lines: Vec<Vec<f64>> = text
            .lines()
            .skip(2)
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split_whitespace().map(|word| word.parse().unwrap()).collect())
            .collect();
        assert!(lines.is_sorted_by(|a, b| a[0] <= b[0] && a[1] <= b[1] && a[2] <= b[2]));
        let median = lines.iter().find(|line| line[1] >= 0.5).unwrap();
        assert!((499.0..502.0).contains(&median[0]), "{median:?}");
        let last = lines.last().unwrap();
        assert_eq!((last[1], last[2], last.len()), (1.0, 1000.0, 3));
        assert!(text.contains("Total count    =         1000]"), "{text}");
    }

    #[test]
    fn a_run_without_responses_has_a_distribution() {
        let text = percentiles(&Histogram::new(3).unwrap());
        assert!(text.contains("Total count    =            0]"), "{text}");
    }
}
