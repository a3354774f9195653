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

/// A figure for each value of a label: a count, unless `T` is another.
#[derive(Debug, PartialEq, Eq)]
pub struct PerLabel<L, T = u64> {
    figures: Box<[T]>,
    label: PhantomData<L>,
}

impl<L: Label, T: Clone + Default> Default for PerLabel<L, T> {
    fn default() -> Self {
        let figures = vec![T::default(); L::ALL.len()].into_boxed_slice();
        PerLabel { figures, label: PhantomData }
    }
}

impl<L, T: Clone> Clone for PerLabel<L, T> {
    fn clone(&self) -> Self {
        PerLabel { figures: self.figures.clone(), label: PhantomData }
    }
}

impl<L> PerLabel<L> {
    /// Returns the sum over all values.
    pub fn total(&self) -> u64 {
        self.figures.iter().sum()
    }
}

impl<L: Label, T> Index<L> for PerLabel<L, T> {
    type Output = T;

    fn index(&self, label: L) -> &T {
        &self.figures[label.index()]
    }
}

impl<L: Label, T> IndexMut<L> for PerLabel<L, T> {
    fn index_mut(&mut self, label: L) -> &mut T {
        &mut self.figures[label.index()]
    }
}

impl<L, T: Sum> Sum for PerLabel<L, T> {
    fn add_up(&mut self, more: &Self) {
        self.figures.add_up(&more.figures);
    }
}

/// The samples of each value, zeros included. The first name is that of the label, the others are those of its figures.
impl<L: Label, T: Figure> Figure for PerLabel<L, T> {
    fn samples(&self, labels: &Labels<'_>, own: &[&'static str], page: &mut Page) {
        let Some((name, own)) = own.split_first() else {
            return;
        };
        for (label, figure) in L::ALL.iter().zip(&self.figures) {
            let mut labels = labels.clone();
            labels.push((*name, label.name()));
            figure.samples(&labels, own, page);
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

    #[test]
    fn labels_within_labels_have_their_names_in_order() {
        let mut counts = PerLabel::<Colour, PerLabel<Colour>>::default();
        counts[Colour::Blue][Colour::Red] += 3;
        let mut page = Page::default();
        page.family("counter", "mixed_total", "Mixed.");
        counts.samples(&Vec::new(), &["first", "second"], &mut page);
        let text = page.into_text();
        assert_eq!(text.lines().count(), 2 + 4, "{text}");
        assert!(text.contains("mixed_total{first=\"sky_blue\",second=\"red\"} 3\n"), "{text}");
    }
}
