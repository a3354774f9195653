//! The simulator's random numbers.

/// SplitMix64: a small seeded generator whose sequence is the same on every machine.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Returns a generator with the sequence of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns 64 random bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.bits() % bound as u64).expect("less than a `usize`")
    }

    /// Returns a number from 0 up to, not including, 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns true with probability `p`; draws nothing if `p` is 0.
    pub fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && self.unit() < p
    }

    /// Returns a number with the Poisson distribution of that mean, which is small.
    pub fn poisson(&mut self, mean: f64) -> u32 {
        let limit = (-mean).exp();
        let mut product = self.unit();
        let mut number = 0;
        while product > limit {
            product *= self.unit();
            number += 1;
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_comes_true_as_often_as_it_says() {
        let mut rng = Rng::new(1);
        let hits = (0..100_000).filter(|_| rng.chance(0.3)).count();
        assert!((29_500..30_500).contains(&hits), "{hits}");
    }

    #[test]
    fn poisson_has_its_mean_and_the_same_variance() {
        let mut rng = Rng::new(1);
        let drawn: Vec<_> = (0..10_000).map(|_| f64::from(rng.poisson(12.0))).collect();
        let mean = drawn.iter().sum::<f64>() / 1e4;
        let variance = drawn.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / 1e4;
        assert!((11.8..12.2).contains(&mean), "{mean}");
        assert!((11.0..13.0).contains(&variance), "{variance}");
    }
}
