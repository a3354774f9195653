//! A metric is declared once: the field that counts it says its kind, its name and its labels, and the field's
//! documentation is its help.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};

use super::page::{Page, Show};
use crate::observe::distribution::{Bounds, Distribution};
use crate::observe::histogram::Histogram;

/// Name and value of each label of a sample.
pub type Labels<'a> = Vec<(&'static str, &'a str)>;

/// A struct of figures, with the labels that all of its samples have.
#[derive(Debug)]
pub struct Labelled<'a, T: 'a> {
    /// Labels of all samples.
    pub labels: Labels<'a>,
    /// The figures.
    pub figures: &'a T,
}

impl<'a, T> Labelled<'a, T> {
    /// Returns a part of the figures under the same labels.
    pub fn part<U: 'a>(&self, part: impl FnOnce(&'a T) -> &'a U) -> Labelled<'a, U> {
        Labelled { labels: self.labels.clone(), figures: part(self.figures) }
    }

    /// Returns each value of a map under these labels and those of its key, whose names are `own`.
    pub fn each<K: LabelValues + 'a, U: 'a>(
        &self,
        own: &[&'static str],
        map: impl FnOnce(&'a T) -> &'a BTreeMap<K, U>,
    ) -> Vec<Labelled<'a, U>> {
        let entries = map(self.figures).iter();
        let under = |(key, figures): (&'a K, &'a U)| {
            let mut labels = self.labels.clone();
            labels.extend(own.iter().copied().zip(key.values()));
            Labelled { labels, figures }
        };
        entries.map(under).collect()
    }
}

/// A struct whose fields are metrics. `metrics!` implements it.
pub trait Metrics: Sized {
    /// Writes the families of the fields, each with the samples of all `instances`.
    fn write(instances: &[Labelled<'_, Self>], page: &mut Page);
}

impl<T: Metrics> Show for T {
    fn show(&self, page: &mut Page) {
        let one = Labelled { labels: Vec::new(), figures: self };
        T::write(&[one], page);
    }
}

/// The content of a field: one number, or one for each value of its labels.
pub trait Figure {
    /// Adds the samples to the page's last family. `own` are the names of the labels by which the samples differ.
    fn samples(&self, labels: &Labels<'_>, own: &[&'static str], page: &mut Page);
}

macro_rules! number {
    ($($number:ty),*) => {$(
        impl Figure for $number {
            fn samples(&self, labels: &Labels<'_>, _: &[&'static str], page: &mut Page) {
                page.sample(labels, self);
            }
        }
    )*};
}

number!(u64, usize, f64);

impl Figure for AtomicU64 {
    fn samples(&self, labels: &Labels<'_>, _: &[&'static str], page: &mut Page) {
        page.sample(labels, self.load(Ordering::Relaxed));
    }
}

/// Figure that the system may not have; then there is no sample.
impl<T: Figure> Figure for Option<T> {
    fn samples(&self, labels: &Labels<'_>, own: &[&'static str], page: &mut Page) {
        if let Some(figure) = self {
            figure.samples(labels, own, page);
        }
    }
}

impl Figure for Histogram {
    fn samples(&self, labels: &Labels<'_>, _: &[&'static str], page: &mut Page) {
        page.buckets(labels, self);
    }
}

impl<B: Bounds> Figure for Distribution<B> {
    fn samples(&self, labels: &Labels<'_>, _: &[&'static str], page: &mut Page) {
        page.distribution(labels, self);
    }
}

/// A value, or values, of labels.
pub trait LabelValues {
    /// Returns a value for each label of the metric.
    fn values(&self) -> impl Iterator<Item = &str>;
}

impl LabelValues for &'static str {
    fn values(&self) -> impl Iterator<Item = &str> {
        std::iter::once(*self)
    }
}

impl LabelValues for String {
    fn values(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.as_str())
    }
}

/// One sample per key.
impl<K: LabelValues, V: Display> Figure for BTreeMap<K, V> {
    fn samples(&self, labels: &Labels<'_>, own: &[&'static str], page: &mut Page) {
        for (key, value) in self {
            let mut labels = labels.clone();
            labels.extend(own.iter().copied().zip(key.values()));
            page.sample(&labels, value);
        }
    }
}

/// Declares a struct whose fields are metrics, and implements [`Metrics`] for it; `struct Name: Sum` also implements
/// [`Sum`](crate::observe::sum::Sum) by field.
///
/// A field's documentation is its help on the page, and the order of the fields is that of the page. Behind the type stands
/// - `counter("name")`, `gauge("name")` or `histogram("name")`: a family of its own;
/// - `counter("name" by "label")`: one with a sample for each value of a label, of which a map or an array counts each;
/// - `counter("name", label = "value"; "Help.")`: a family with a constant label, to which the fields after it add samples by
///   `also(label = "other")`; its help does not stand for the field alone;
/// - `group`: a struct of metrics itself;
/// - `each("label")`: a map from the value of a label, or of several, to a struct of metrics;
/// - `each_configured("label")`: the same of all values of the configuration. A series of another value ends with it, also where counters go
///   on from an earlier process.
#[doc(hidden)]
#[macro_export]
macro_rules! __metrics {
    (
        $(#[$attribute:meta])*
        $seen:vis struct $name:ident: Sum {
            $($(#[doc = $help:literal])+ $open:vis $field:ident: $figure:ty = $kind:ident $(($($spec:tt)*))?,)*
        }
    ) => {
        $crate::observe::metrics::metrics! {
            $(#[$attribute])*
            $seen struct $name {
                $($(#[doc = $help])+ $open $field: $figure = $kind $(($($spec)*))?,)*
            }
        }

        impl $crate::observe::sum::Sum for $name {
            fn add_up(&mut self, more: &Self) {
                $($crate::observe::sum::Sum::add_up(&mut self.$field, &more.$field);)*
            }
        }
    };
    (
        $(#[$attribute:meta])*
        $seen:vis struct $name:ident {
            $($(#[doc = $help:literal])+ $open:vis $field:ident: $figure:ty = $kind:ident $(($($spec:tt)*))?,)*
        }
    ) => {
        $(#[$attribute])*
        $seen struct $name {
            $($(#[doc = $help])+ $open $field: $figure,)*
        }

        impl $crate::observe::metrics::Metrics for $name {
            fn write(
                instances: &[$crate::observe::metrics::Labelled<'_, Self>],
                page: &mut $crate::observe::metrics::Page,
            ) {
                $($crate::observe::metrics::metrics!(
                    @$kind [concat!($($help),+)] instances page $field $(($($spec)*))?
                );)*
            }
        }
    };
    (@counter $($rest:tt)*) => {
        $crate::observe::metrics::metrics!(@family "counter" $($rest)*)
    };
    (@gauge $($rest:tt)*) => {
        $crate::observe::metrics::metrics!(@family "gauge" $($rest)*)
    };
    (@histogram $($rest:tt)*) => {
        $crate::observe::metrics::metrics!(@family "histogram" $($rest)*)
    };
    (@family $kind:literal [$help:expr] $all:ident $page:ident $field:ident ($name:literal $(by $($own:literal),+)?)) => {
        $page.family($kind, $name, $help.trim_start());
        for one in $all {
            $crate::observe::metrics::Figure::samples(&one.figures.$field, &one.labels, &[$($($own),+)?], $page);
        }
    };
    (@family $kind:literal [$doc:expr] $all:ident $page:ident $field:ident
        ($name:literal, $label:ident = $value:literal; $help:literal)) => {
        $page.family($kind, $name, $help);
        $crate::observe::metrics::metrics!(@also [$doc] $all $page $field ($label = $value));
    };
    (@also [$doc:expr] $all:ident $page:ident $field:ident ($label:ident = $value:literal)) => {
        for one in $all {
            let mut labels = one.labels.clone();
            labels.push((stringify!($label), $value));
            $crate::observe::metrics::Figure::samples(&one.figures.$field, &labels, &[], $page);
        }
    };
    (@group [$doc:expr] $all:ident $page:ident $field:ident) => {
        let parts: Vec<_> = $all.iter().map(|one| one.part(|all| &all.$field)).collect();
        $crate::observe::metrics::Metrics::write(&parts, $page);
    };
    (@each [$doc:expr] $all:ident $page:ident $field:ident ($($label:literal),+)) => {
        let parts: Vec<_> =
            $all.iter().flat_map(|one| one.each(&[$($label),+], |all| &all.$field)).collect();
        $crate::observe::metrics::Metrics::write(&parts, $page);
    };
    (@each_configured $doc:tt $all:ident $page:ident $field:ident $own:tt) => {
        $page.bounded(|page| {
            $crate::observe::metrics::metrics!(@each $doc $all page $field $own);
        });
    };
}

pub use __metrics as metrics;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::sum::Sum;

    metrics! {
        /// A hive.
        #[derive(Debug, Default, PartialEq, Eq)]
        struct Hive: Sum {
            /// Bees that
            /// live here.
            bees: u64 = gauge("bees"),
            /// Eggs laid in the morning.
            morning: u64 = counter("eggs_total", time = "morning"; "Eggs laid."),
            /// Eggs laid in the evening.
            evening: u64 = also(time = "evening"),
            /// Visits, by flower.
            visits: BTreeMap<&'static str, u64> = counter("visits_total" by "flower"),
            /// Jars in the cellar.
            cellar: Jars = group,
            /// Flowers, by field.
            fields: BTreeMap<String, Field> = each("field"),
        }
    }

    metrics! {
        /// Jars of honey.
        #[derive(Debug, Default, PartialEq, Eq)]
        struct Jars: Sum {
            /// Full jars.
            full: u64 = gauge("jars_full"),
            /// Jars opened.
            opened: u64 = counter("jars_opened_total"),
        }
    }

    metrics! {
        /// A field of flowers.
        #[derive(Debug, Default, PartialEq, Eq)]
        struct Field: Sum {
            /// Flowers.
            flowers: u64 = gauge("flowers"),
        }
    }

    fn hive(by: u64) -> Hive {
        Hive {
            bees: by,
            morning: 2 * by,
            evening: 3 * by,
            visits: BTreeMap::from([("clover", 4 * by), ("linden", 5 * by)]),
            cellar: Jars { full: 6 * by, opened: 7 * by },
            fields: BTreeMap::from([
                ("high".to_owned(), Field { flowers: 8 * by }),
                ("low".to_owned(), Field { flowers: 9 * by }),
            ]),
        }
    }

    #[test]
    fn each_field_is_added_to_its_own_and_each_key_to_its_own() {
        let mut sum = hive(1);
        sum.add_up(&hive(10));
        assert_eq!(sum, hive(11));
        let mut other = hive(10);
        other.visits = BTreeMap::from([("heather", 7)]);
        sum.add_up(&other);
        let visits = [("clover", 44), ("heather", 7), ("linden", 55)];
        assert_eq!(sum.visits, BTreeMap::from(visits));
    }

    #[test]
    fn a_family_has_its_samples_in_one_place_and_its_help_from_the_field() {
        let (one, two) = (hive(1), hive(10));
        let instances = [("a", &one), ("b", &two)]
            .map(|(name, figures)| Labelled { labels: vec![("hive", name)], figures });
        let mut page = Page::default();
        Hive::write(&instances, &mut page);
        let expected = [
            "# HELP bees Bees that live here.",
            "# TYPE bees gauge",
            "bees{hive=\"a\"} 1",
            "bees{hive=\"b\"} 10",
            "# HELP eggs_total Eggs laid.",
            "# TYPE eggs_total counter",
            "eggs_total{hive=\"a\",time=\"morning\"} 2",
            "eggs_total{hive=\"b\",time=\"morning\"} 20",
            "eggs_total{hive=\"a\",time=\"evening\"} 3",
            "eggs_total{hive=\"b\",time=\"evening\"} 30",
            "# HELP visits_total Visits, by flower.",
            "# TYPE visits_total counter",
            "visits_total{hive=\"a\",flower=\"clover\"} 4",
            "visits_total{hive=\"a\",flower=\"linden\"} 5",
            "visits_total{hive=\"b\",flower=\"clover\"} 40",
            "visits_total{hive=\"b\",flower=\"linden\"} 50",
            "# HELP jars_full Full jars.",
            "# TYPE jars_full gauge",
            "jars_full{hive=\"a\"} 6",
            "jars_full{hive=\"b\"} 60",
            "# HELP jars_opened_total Jars opened.",
            "# TYPE jars_opened_total counter",
            "jars_opened_total{hive=\"a\"} 7",
            "jars_opened_total{hive=\"b\"} 70",
            "# HELP flowers Flowers.",
            "# TYPE flowers gauge",
            "flowers{hive=\"a\",field=\"high\"} 8",
            "flowers{hive=\"a\",field=\"low\"} 9",
            "flowers{hive=\"b\",field=\"high\"} 80",
            "flowers{hive=\"b\",field=\"low\"} 90",
        ];
        let text = page.into_text();
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }
}
