//! Sums over the counts of several threads.

use std::collections::BTreeMap;

/// A figure, or a struct of figures, that several threads count separately.
///
/// A struct of metrics gets it from `metrics!`, so that no field can be left out.
pub trait Sum {
    /// Adds another thread's count.
    fn add_up(&mut self, more: &Self);
}

impl Sum for u64 {
    fn add_up(&mut self, more: &Self) {
        *self += more;
    }
}

/// Adds element by element; both slices have one length.
impl<T: Sum> Sum for [T] {
    fn add_up(&mut self, more: &Self) {
        for (sum, more) in self.iter_mut().zip(more) {
            sum.add_up(more);
        }
    }
}

impl<T: Sum, const N: usize> Sum for [T; N] {
    fn add_up(&mut self, more: &Self) {
        self.as_mut_slice().add_up(more);
    }
}

/// Adds key by key; a key that only `more` has is inserted.
impl<K: Ord + Clone, T: Sum + Default> Sum for BTreeMap<K, T> {
    fn add_up(&mut self, more: &Self) {
        for (key, more) in more {
            self.entry(key.clone()).or_default().add_up(more);
        }
    }
}
