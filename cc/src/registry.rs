//! The algorithms that a build knows, by name.

use thiserror::Error;

use crate::algorithm::Algorithm;
use crate::algorithms::BUILTIN;

/// A list of algorithms with distinct names.
#[derive(Clone, Debug)]
pub struct Registry {
    algorithms: Vec<Algorithm>,
}

/// A second algorithm of the same name was offered to a [`Registry`].
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("an algorithm named `{name}` is registered already")]
pub struct DuplicateName {
    /// The name that is taken.
    pub name: &'static str,
}

impl Registry {
    /// Returns a registry without algorithms.
    pub const fn empty() -> Self {
        Self { algorithms: Vec::new() }
    }

    /// Returns a registry of this crate's algorithms.
    pub fn builtin() -> Self {
        Self { algorithms: BUILTIN.to_vec() }
    }

    /// Adds an algorithm, of this crate or of another.
    ///
    /// # Errors
    ///
    /// [`DuplicateName`] when the name is taken; the registry is then unchanged.
    pub fn register(&mut self, algorithm: Algorithm) -> Result<(), DuplicateName> {
        if self.find(algorithm.name).is_some() {
            return Err(DuplicateName { name: algorithm.name });
        }
        self.algorithms.push(algorithm);
        Ok(())
    }

    /// Returns the algorithm of that name.
    pub fn find(&self, name: &str) -> Option<&Algorithm> {
        self.algorithms.iter().find(|a| a.name == name)
    }

    /// Returns every algorithm, in the order of registration.
    pub fn iter(&self) -> std::slice::Iter<'_, Algorithm> {
        self.algorithms.iter()
    }

    /// Returns every name, in the order of registration.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &'static str> {
        self.algorithms.iter().map(|a| a.name)
    }
}

impl<'a> IntoIterator for &'a Registry {
    type Item = &'a Algorithm;
    type IntoIter = std::slice::Iter<'a, Algorithm>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builtin_names_are_distinct_and_found() {
        let mut again = Registry::empty();
        for algorithm in &Registry::builtin() {
            assert_eq!(again.register(*algorithm), Ok(()));
            assert_eq!(again.find(algorithm.name).map(|a| a.name), Some(algorithm.name));
        }
        assert!(again.names().eq(Registry::builtin().names()));
    }

    #[test]
    fn name_taken_is_refused() {
        let mut registry = Registry::builtin();
        let before = registry.iter().len();
        assert_eq!(registry.register(BUILTIN[0]), Err(DuplicateName { name: BUILTIN[0].name }));
        assert_eq!(registry.iter().len(), before);
    }

    #[test]
    fn every_default_lies_within_its_own_bounds() {
        for algorithm in &Registry::builtin() {
            let mut options = algorithm.defaults();
            for (spec, value) in algorithm.defaults().iter() {
                assert_eq!(
                    options.set(spec.name, value),
                    Ok(()),
                    "{}.{}",
                    algorithm.name,
                    spec.name
                );
                assert!(!spec.summary.is_empty());
            }
        }
    }
}
