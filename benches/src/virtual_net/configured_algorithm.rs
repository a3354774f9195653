//! An algorithm of this product with its options.

use std::fmt;

use sluicegate_cc::{Algorithm, Options, Registry, Value};

use super::error::SimulationError;

/// An algorithm of this product, and its options that are not at their defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConfiguredAlgorithm {
    /// Name in the registry.
    pub algorithm: &'static str,
    /// Names and values of options; the others have their defaults.
    pub options: &'static [(&'static str, Value)],
}

impl ConfiguredAlgorithm {
    /// Returns an algorithm at its default options.
    pub const fn of(algorithm: &'static str) -> Self {
        Self { algorithm, options: &[] }
    }

    /// Returns the algorithm with all its options.
    ///
    /// # Errors
    ///
    /// There is no such algorithm, or it refuses an option.
    pub fn find(self) -> Result<(Algorithm, Options), SimulationError> {
        let registry = Registry::builtin();
        let found = registry.find(self.algorithm).copied();
        let algorithm =
            found.ok_or_else(|| SimulationError::UnknownAlgorithm(self.algorithm.to_owned()))?;
        let mut options = algorithm.defaults();
        for &(name, value) in self.options {
            options.set(name, value)?;
        }
        Ok((algorithm, options))
    }
}

impl fmt::Display for ConfiguredAlgorithm {
    /// Writes the name, and each option as in `cubic,slow_start=search`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.algorithm)?;
        for (name, value) in self.options {
            match value {
                Value::Choice(word) => write!(f, ",{name}={word}")?,
                value => write!(f, ",{name}={value}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn algorithm_has_its_options_and_the_defaults_of_the_others() {
        let configured = ConfiguredAlgorithm {
            algorithm: "cubic",
            options: &[("slow_start", Value::Choice("search")), ("pacing", Value::Boolean(false))],
        };
        assert_eq!(configured.to_string(), "cubic,slow_start=search,pacing=false");
        let (algorithm, options) = configured.find().expect("of the registry");
        assert_eq!(options.choice("slow_start"), "search");
        assert!(!options.boolean("pacing"));
        let (_, plain) = ConfiguredAlgorithm::of("cubic").find().expect("of the registry");
        assert_eq!(plain, algorithm.defaults());
        assert_eq!(plain.integer("min_window"), options.integer("min_window"));
    }

    #[test]
    fn unknown_algorithm_and_refused_option_are_errors() {
        let unknown = ConfiguredAlgorithm::of("no-such-algorithm").find();
        assert!(matches!(unknown, Err(SimulationError::UnknownAlgorithm(_))));
        let refused = ConfiguredAlgorithm {
            algorithm: "cubic",
            options: &[("slow_start", Value::Choice("none"))],
        };
        assert!(matches!(refused.find(), Err(SimulationError::RefusedOption(_))));
    }
}
