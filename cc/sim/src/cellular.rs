//! Rates of cellular links over time, made up from the statistics of public measurements.

use std::time::Duration;

use super::Rng;

/// A kind of cellular link. The rate's logarithm follows an autoregressive process, interrupted by outages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cellular {
    /// 2.5G in a car: the trace `Verizon-EVDO-driving` of Winstein, Sivaraman and Balakrishnan (Sprout, NSDI 2013), which
    /// Mahimahi distributes.
    Evdo,
    /// 3G in a car: `TMobile-UMTS-driving` of the same.
    Umts,
    /// 4G in a car: `ATT-LTE-driving` of the same.
    Lte,
    /// 5G with millimetre waves on foot: the 121 traces of Narayanan and others (Lumos5G, IMC 2020).
    MmWave,
}

/// Time between changes of the rate.
const STEP: Duration = Duration::from_millis(100);

/// What the measurements show. Outages are the gaps of half a second and more; the traces of 5G have a sample a second, so
/// there they are those of a second.
#[derive(Clone, Copy, Debug)]
struct Statistics {
    /// Geometric mean of the rate outside outages, Mbit/s.
    median: f64,
    /// Standard deviation of the rate's natural logarithm.
    spread: f64,
    /// Correlation of that logarithm with itself a second later.
    correlation: f64,
    /// Largest rate, Mbit/s.
    most: f64,
    /// Mean time from one outage to the next, seconds.
    outage_every: f64,
    /// Shortest and mean length of an outage, seconds.
    outage: (f64, f64),
}

impl Cellular {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Evdo, Self::Umts, Self::Lte, Self::MmWave];

    const fn statistics(self) -> Statistics {
        match self {
            Self::Evdo => Statistics {
                median: 0.49,
                spread: 0.86,
                correlation: 0.48,
                most: 3.0,
                outage_every: 7.0,
                outage: (0.5, 1.08),
            },
            Self::Umts => Statistics {
                median: 1.67,
                spread: 0.9,
                correlation: 0.67,
                most: 10.0,
                outage_every: 11.9,
                outage: (0.5, 1.2),
            },
            Self::Lte => Statistics {
                median: 4.42,
                spread: 0.75,
                correlation: 0.74,
                most: 20.0,
                outage_every: 21.8,
                outage: (0.5, 0.97),
            },
            Self::MmWave => Statistics {
                median: 296.0,
                spread: 1.33,
                correlation: 0.82,
                most: 2_000.0,
                outage_every: 53.9,
                outage: (1.0, 2.26),
            },
        }
    }

    /// Returns the geometric mean of the rate outside outages, bits per second.
    pub fn median(self) -> u64 {
        bits(self.statistics().median)
    }

    /// Returns the rates of such a link for this long, bits per second, each with the time from which it applies. Zero is an
    /// outage.
    pub fn rates(self, seed: u64, duration: Duration) -> Vec<(Duration, u64)> {
        let numbers = self.statistics();
        let mut rng = Rng::new(seed);
        let kept = numbers.correlation.powf(STEP.as_secs_f64());
        let added = (1.0 - kept * kept).sqrt();
        let mut level = normal(&mut rng);
        let mut next_outage = exponential(&mut rng, numbers.outage_every);
        let mut outage_ends = 0.0;
        let times = std::iter::successors(Some(Duration::ZERO), |at| Some(*at + STEP));
        let rates = times.take_while(|at| *at < duration).map(|at| {
            level = kept * level + added * normal(&mut rng);
            let seconds = at.as_secs_f64();
            if seconds >= next_outage {
                let (shortest, mean) = numbers.outage;
                outage_ends = next_outage + shortest + exponential(&mut rng, mean - shortest);
                next_outage = outage_ends + exponential(&mut rng, numbers.outage_every - mean);
            }
            if seconds < outage_ends {
                return (at, 0);
            }
            let rate = numbers.median * (numbers.spread * level).exp();
            (at, bits(rate.min(numbers.most)))
        });
        rates.collect()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a rate in whole bits; far below the limit")]
fn bits(mbit: f64) -> u64 {
    (mbit * 1e6) as u64
}

/// Returns a number of the standard normal distribution.
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.unit()).cos()
}

/// Returns a number of the exponential distribution.
fn exponential(rng: &mut Rng, mean: f64) -> f64 {
    -mean * (1.0 - rng.unit()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs(rates: &[(Duration, u64)]) -> Vec<Option<f64>> {
        let log = |rate: u64| (rate > 0).then(|| (rate as f64 / 1e6).ln());
        rates.iter().map(|(_, rate)| log(*rate)).collect()
    }

    #[test]
    fn traces_have_the_statistics_of_the_measurements() {
        for kind in Cellular::ALL {
            let wanted = kind.statistics();
            let trace = kind.rates(1, Duration::from_secs(200_000));
            let logs = logs(&trace);
            let up: Vec<_> = logs.iter().flatten().copied().collect();
            let mean = up.iter().sum::<f64>() / up.len() as f64;
            let variance = up.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / up.len() as f64;
            let pairs = logs.iter().zip(logs.iter().skip(10));
            let products: Vec<_> =
                pairs.filter_map(|(a, b)| Some(((*a)? - mean) * ((*b)? - mean))).collect();
            let correlation = products.iter().sum::<f64>() / products.len() as f64 / variance;
            let outages: Vec<_> = trace
                .chunk_by(|a, b| (a.1 == 0) == (b.1 == 0))
                .filter(|run| run[0].1 == 0)
                .map(|run| run.len() as f64 / 10.0)
                .collect();
            let every = 200_000.0 / outages.len() as f64;
            let lasts = outages.iter().sum::<f64>() / outages.len() as f64;
            let near = |found: f64, wanted: f64, room: f64| {
                assert!((found / wanted - 1.0).abs() < room, "{kind:?}: {found}, {wanted}");
            };
            // The largest rate cuts off the tail.
            near(mean.exp(), wanted.median, 0.1);
            near(variance.sqrt(), wanted.spread, 0.1);
            near(correlation, wanted.correlation, 0.05);
            near(every, wanted.outage_every, 0.05);
            near(lasts, wanted.outage.1, 0.05);
        }
    }

    #[test]
    fn same_seed_gives_the_same_trace_and_a_longer_one_begins_with_it() {
        let minute = Duration::from_secs(60);
        let short = Cellular::Lte.rates(3, minute);
        assert_eq!(short, Cellular::Lte.rates(3, 2 * minute)[..600]);
        assert_ne!(short, Cellular::Lte.rates(4, minute));
    }
}
