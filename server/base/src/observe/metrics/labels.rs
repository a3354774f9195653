//! Counts by the values of a label.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

use super::declare::{Figure, Labels};
use super::page::Page;
use crate::observe::sum::Sum;

/// An enum whose variants are the values of a label. `labels!` implements it.
pub trait Label: Copy + 'static {
    /// Every value, in the order of [`Label::index`].
    const ALL: &'static [Self];

    /// Returns the position in [`Label::ALL`].
    fn index(self) -> usize;

    /// Returns the value as it stands on the metrics page.
    fn name(self) -> &'static str;
}

/// Declares an enum with the value of each variant as a label, and implements [`Label`] for it.
#[doc(hidden)]
#[macro_export]
macro_rules! __labels {
    (
        $(#[$attribute:meta])*
        $seen:vis enum $name:ident {
            $($(#[$about:meta])* $variant:ident = $label:literal,)*
        }
    ) => {
        $(#[$attribute])*
        $seen enum $name {
            $($(#[$about])* $variant,)*
        }

        impl $crate::observe::metrics::Label for $name {
            const ALL: &'static [Self] = &[$($name::$variant),*];

            fn index(self) -> usize {
                self as usize
            }

            fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $label,)*
                }
            }
        }
    };
}

pub use __labels as labels;

/// A count for each value of a label.
#[derive(Debug, PartialEq, Eq)]
pub struct PerLabel<L> {
    counts: Box<[u64]>,
    label: PhantomData<L>,
}

impl<L: Label> Default for PerLabel<L> {
    fn default() -> Self {
        PerLabel { counts: vec![0; L::ALL.len()].into_boxed_slice(), label: PhantomData }
    }
}

impl<L> Clone for PerLabel<L> {
    fn clone(&self) -> Self {
        PerLabel { counts: self.counts.clone(), label: PhantomData }
    }
}

impl<L: Label> Index<L> for PerLabel<L> {
    type Output = u64;

    fn index(&self, label: L) -> &u64 {
        &self.counts[label.index()]
    }
}

impl<L: Label> IndexMut<L> for PerLabel<L> {
    fn index_mut(&mut self, label: L) -> &mut u64 {
        &mut self.counts[label.index()]
    }
}

impl<L> Sum for PerLabel<L> {
    fn add_up(&mut self, more: &Self) {
        self.counts.add_up(&more.counts);
    }
}

/// One sample per value, zeros included.
impl<L: Label> Figure for PerLabel<L> {
    fn samples(&self, labels: &Labels<'_>, own: &[&'static str], page: &mut Page) {
        for (label, count) in L::ALL.iter().zip(&self.counts) {
            let mut labels = labels.clone();
            labels.extend(own.iter().map(|name| (*name, label.name())));
            page.sample(&labels, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    labels! {
        /// A colour.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Colour {
            /// The colour of a rose.
            Red = "red",
            /// The colour of the sky.
            Blue = "sky_blue",
        }
    }

    #[test]
    fn every_value_has_a_count_and_a_sample_of_its_own() {
        let mut counts = PerLabel::default();
        counts[Colour::Blue] += 2;
        let mut sum = counts.clone();
        sum[Colour::Red] += 1;
        sum.add_up(&counts);
        assert_eq!((sum[Colour::Red], sum[Colour::Blue]), (1, 4));
        let mut page = Page::default();
        page.family("counter", "seen_total", "Seen.");
        sum.samples(&Vec::new(), &["colour"], &mut page);
        let text = page.into_text();
        let samples: Vec<&str> = text.lines().skip(2).collect();
        let expected = ["seen_total{colour=\"red\"} 1", "seen_total{colour=\"sky_blue\"} 4"];
        assert_eq!(samples, expected);
    }
}
