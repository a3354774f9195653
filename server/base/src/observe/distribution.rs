//! Histograms of figures of any unit, each with few buckets of its own.

use std::marker::PhantomData;

use super::sum::Sum;

/// Upper bounds of the buckets of a [`Distribution`], in the unit of its metric.
pub trait Bounds {
    /// Bounds from the lowest to the highest; a last bucket counts what is larger.
    const ALL: &'static [f64];
}

/// Declares types that stand for the bounds of distributions.
#[doc(hidden)]
#[macro_export]
macro_rules! __bounds {
    ($($(#[$attribute:meta])* $seen:vis $name:ident = [$($bound:expr),+ $(,)?];)+) => {$(
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $seen enum $name {}

        impl $crate::observe::distribution::Bounds for $name {
            const ALL: &'static [f64] = &[$($bound),+];
        }
    )+};
}

pub use __bounds as bounds;

/// Histogram of finite numbers. To record is a search among few numbers and two additions.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution<B> {
    buckets: Box<[u64]>,
    sum: f64,
    bounds: PhantomData<B>,
}

/// The sum is never NaN.
impl<B: PartialEq> Eq for Distribution<B> {}

impl<B: Bounds> Default for Distribution<B> {
    fn default() -> Self {
        let buckets = vec![0; B::ALL.len() + 1].into_boxed_slice();
        Distribution { buckets, sum: 0.0, bounds: PhantomData }
    }
}

impl<B: Bounds> Distribution<B> {
    /// Records a number; one that is not finite counts nowhere.
    pub fn record(&mut self, value: f64) {
        if value.is_finite() {
            self.buckets[B::ALL.partition_point(|bound| *bound < value)] += 1;
            self.sum += value;
        }
    }

    /// Returns how many numbers were recorded.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the sum of the recorded numbers.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// Returns each bound with how many numbers were not larger.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let mut sum = 0;
        B::ALL.iter().zip(&self.buckets).map(move |(bound, count)| {
            sum += count;
            (*bound, sum)
        })
    }
}

impl<B> Sum for Distribution<B> {
    fn add_up(&mut self, more: &Self) {
        self.buckets.add_up(&more.buckets);
        self.sum += more.sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    bounds! {
        /// Bounds of a test.
        Few = [0.0, 0.5, 2.0];
    }

    #[test]
    fn number_lies_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        let mut some = Distribution::<Few>::default();
        for value in [0.0, 0.25, 0.5, 2.0, 2.5, f64::NAN, f64::INFINITY] {
            some.record(value);
        }
        let cumulative: Vec<_> = some.cumulative().collect();
        assert_eq!(cumulative, [(0.0, 1), (0.5, 3), (2.0, 4)]);
        assert_eq!((some.count(), some.sum()), (5, 5.25));
        let mut all = some.clone();
        all.add_up(&some);
        assert_eq!((all.count(), all.sum()), (10, 10.5));
    }
}
