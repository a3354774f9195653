//! Adding up what several threads counted.

use std::collections::BTreeMap;

/// A figure, or a struct of figures, of which several parties have one each.
///
/// A struct gets it from `summed!`, so that no field can be left out. Where a figure has a rule of its own, the struct
/// takes itself apart instead, as a histogram does.
pub trait Sum {
    /// Adds another party's.
    fn add_up(&mut self, more: &Self);
}

impl Sum for u64 {
    fn add_up(&mut self, more: &Self) {
        *self += more;
    }
}

/// Place by place, of slices of one length.
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

/// Key by key; one that only the other has is taken over.
impl<K: Ord + Clone, T: Sum + Default> Sum for BTreeMap<K, T> {
    fn add_up(&mut self, more: &Self) {
        for (key, more) in more {
            self.entry(key.clone()).or_default().add_up(more);
        }
    }
}

/// Makes the struct as it is written, and its [`Sum`]: that of each field.
macro_rules! summed {
    (
        $(#[$attribute:meta])*
        $seen:vis struct $name:ident {
            $($(#[$about:meta])* $open:vis $field:ident: $figure:ty,)*
        }
    ) => {
        $(#[$attribute])*
        $seen struct $name {
            $($(#[$about])* $open $field: $figure,)*
        }

        impl $crate::observe::sum::Sum for $name {
            fn add_up(&mut self, more: &Self) {
                $($crate::observe::sum::Sum::add_up(&mut self.$field, &more.$field);)*
            }
        }
    };
}

pub(crate) use summed;

#[cfg(test)]
mod tests {
    use super::*;

    summed! {
        #[derive(Debug, Default, PartialEq, Eq)]
        struct Hive {
            bees: u64,
            combs: [u64; 2],
            honey: BTreeMap<&'static str, Jars>,
        }
    }

    summed! {
        #[derive(Debug, Default, PartialEq, Eq)]
        struct Jars {
            full: u64,
            empty: u64,
        }
    }

    #[test]
    fn each_field_is_added_to_its_own_and_each_key_to_its_own() {
        let jars = |full, empty| Jars { full, empty };
        let mut sum = Hive {
            bees: 1,
            combs: [2, 3],
            honey: BTreeMap::from([("clover", jars(4, 5)), ("heather", jars(6, 7))]),
        };
        sum.add_up(&Hive {
            bees: 10,
            combs: [20, 30],
            honey: BTreeMap::from([("heather", jars(60, 70)), ("linden", jars(80, 90))]),
        });
        let expected = Hive {
            bees: 11,
            combs: [22, 33],
            honey: BTreeMap::from([
                ("clover", jars(4, 5)),
                ("heather", jars(66, 77)),
                ("linden", jars(80, 90)),
            ]),
        };
        assert_eq!(sum, expected);
    }
}
