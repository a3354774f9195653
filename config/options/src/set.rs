//! A checked value for each option of a list.

use crate::{OptionError, OptionSpec, Value};

/// Checked values for all options of one algorithm.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    specs: &'static [OptionSpec],
    /// One value for each of `specs`, in its order.
    values: Vec<Value>,
}

impl Options {
    /// Returns every option of `specs` at its default.
    pub fn defaults(specs: &'static [OptionSpec]) -> Self {
        let values = specs.iter().map(|spec| spec.kind.default_value()).collect();
        Self { specs, values }
    }

    /// Gives one option a value. A real option takes a whole number, too.
    ///
    /// # Errors
    /// [`OptionError::Unknown`] for a name that is not in the list, else as [`OptionSpec::check`]. The option keeps its
    /// old value then.
    pub fn set(&mut self, name: &str, value: Value) -> Result<(), OptionError> {
        let place = OptionSpec::find(self.specs, name)?;
        self.values[place] = self.specs[place].check(value)?;
        Ok(())
    }

    /// Returns a whole number.
    ///
    /// # Panics
    /// If the algorithm declares no such option: a mistake in the algorithm, never in a configuration.
    pub fn integer(&self, name: &str) -> u64 {
        match self.value(name) {
            Some(Value::Integer(value)) => value,
            _ => panic!("no integer option `{name}` declared"),
        }
    }

    /// Returns a real number, never NaN.
    ///
    /// # Panics
    /// Panics as [`Options::integer`] does.
    pub fn number(&self, name: &str) -> f64 {
        match self.value(name) {
            Some(Value::Number(value)) => value,
            _ => panic!("no number option `{name}` declared"),
        }
    }

    /// Returns whether an option is on.
    ///
    /// # Panics
    /// Panics as [`Options::integer`] does.
    pub fn boolean(&self, name: &str) -> bool {
        match self.value(name) {
            Some(Value::Boolean(value)) => value,
            _ => panic!("no boolean option `{name}` declared"),
        }
    }

    /// Returns the word of an option.
    ///
    /// # Panics
    /// Panics as [`Options::integer`] does.
    pub fn choice(&self, name: &str) -> &'static str {
        match self.value(name) {
            Some(Value::Choice(word)) => word,
            _ => panic!("no choice option `{name}` declared"),
        }
    }

    /// Returns the value of an option, or `None` if the list has no such option.
    pub fn value(&self, name: &str) -> Option<Value> {
        let place = self.specs.iter().position(|spec| spec.name == name)?;
        self.values.get(place).copied()
    }

    /// Returns every option with its value, in the order of the list.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'static OptionSpec, Value)> {
        self.specs.iter().zip(self.values.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OptionKind, Unit};

    static SPECS: &[OptionSpec] = &[
        OptionSpec {
            name: "packets",
            kind: OptionKind::Integer { default: 2, min: 2, max: 64 },
            unit: Unit::Packets,
            summary: "",
        },
        OptionSpec {
            name: "beta",
            kind: OptionKind::Number { default: 0.7, min: 0.5, max: 1.0 },
            unit: Unit::None,
            summary: "",
        },
        OptionSpec {
            name: "on",
            kind: OptionKind::Boolean { default: true },
            unit: Unit::None,
            summary: "",
        },
        OptionSpec {
            name: "mode",
            kind: OptionKind::Choice { default: "auto", among: &["auto", "never"] },
            unit: Unit::None,
            summary: "",
        },
    ];

    #[test]
    fn defaults_are_those_of_the_specs() {
        let options = Options::defaults(SPECS);
        assert_eq!(options.integer("packets"), 2);
        assert_eq!(options.number("beta"), 0.7);
        assert!(options.boolean("on"));
        assert_eq!(options.choice("mode"), "auto");
        assert_eq!(options.iter().len(), 4);
    }

    #[test]
    fn bounds_are_inclusive_and_a_refused_value_changes_nothing() {
        let mut options = Options::defaults(SPECS);
        assert_eq!(options.set("packets", Value::Integer(64)), Ok(()));
        let refused = options.set("packets", Value::Integer(65));
        assert_eq!(
            refused.map_err(|e| e.to_string()),
            Err("option `packets` must lie between 2 and 64".to_owned())
        );
        assert_eq!(options.integer("packets"), 64);
        assert!(matches!(
            options.set("beta", Value::Number(f64::INFINITY)),
            Err(OptionError::Bounds { .. })
        ));
    }

    #[test]
    fn whole_number_serves_as_a_real_one_but_not_the_reverse() {
        let mut options = Options::defaults(SPECS);
        assert_eq!(options.set("beta", Value::Integer(1)), Ok(()));
        assert_eq!(options.number("beta"), 1.0);
        assert!(matches!(
            options.set("packets", Value::Number(3.0)),
            Err(OptionError::Type { .. })
        ));
        assert!(matches!(options.set("on", Value::Integer(1)), Err(OptionError::Type { .. })));
    }

    #[test]
    fn word_is_one_of_those_allowed() {
        let mut options = Options::defaults(SPECS);
        assert_eq!(options.set("mode", Value::Choice("never")), Ok(()));
        let refused = options.set("mode", Value::Choice("always"));
        assert_eq!(
            refused.map_err(|e| e.to_string()),
            Err("option `mode` must be one of: auto, never".to_owned())
        );
        assert_eq!(options.choice("mode"), "never");
        assert_eq!(Value::Choice("never").to_string(), "\"never\"");
        assert!(matches!(options.set("mode", Value::Boolean(true)), Err(OptionError::Type { .. })));
    }

    #[test]
    fn nan_is_refused() {
        let mut options = Options::defaults(SPECS);
        let refused = options.set("beta", Value::Number(f64::NAN));
        assert_eq!(refused, Err(OptionError::Type { name: "beta", expected: "a number" }));
    }

    #[test]
    fn unknown_name_lists_the_known_ones() {
        let refused = Options::defaults(SPECS).set("bata", Value::Number(0.7));
        assert_eq!(
            refused,
            Err(OptionError::Unknown {
                name: "bata".to_owned(),
                known: vec!["packets", "beta", "on", "mode"]
            })
        );
    }
}
