//! Options of an algorithm: described once, checked everywhere.

use thiserror::Error;

/// What a plain number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A bare ratio or count.
    None,
    /// Datagrams of the path's size.
    Packets,
    /// Milliseconds.
    Milliseconds,
    /// Bytes.
    Bytes,
}

impl Unit {
    /// In words, for help; empty where there is none.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Packets => "packets",
            Self::Milliseconds => "milliseconds",
            Self::Bytes => "bytes",
        }
    }
}

/// Type, default and bounds of an option; bounds are inclusive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OptionKind {
    /// A whole number.
    Integer {
        /// Where the option is not given.
        default: u64,
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// A real number.
    Number {
        /// Where the option is not given.
        default: f64,
        /// Smallest.
        min: f64,
        /// Largest.
        max: f64,
    },
    /// On or off.
    Boolean {
        /// Where the option is not given.
        default: bool,
    },
}

impl OptionKind {
    /// The value where the option is not given.
    pub const fn default_value(self) -> Value {
        match self {
            Self::Integer { default, .. } => Value::Integer(default),
            Self::Number { default, .. } => Value::Number(default),
            Self::Boolean { default } => Value::Boolean(default),
        }
    }

    /// What may be given, for help.
    pub fn range(self) -> String {
        match self {
            Self::Integer { min, max, .. } => format!("{min} to {max}"),
            Self::Number { min, max, .. } => format!("{min} to {max}"),
            Self::Boolean { .. } => "true or false".to_owned(),
        }
    }

    /// The type in words, for messages.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Integer { .. } => "a whole number",
            Self::Number { .. } => "a number",
            Self::Boolean { .. } => "true or false",
        }
    }
}

/// One option of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OptionSpec {
    /// The key in a configuration, snake case.
    pub name: &'static str,
    /// Type, default, bounds.
    pub kind: OptionKind,
    /// What the number counts.
    pub unit: Unit,
    /// One sentence for operators: what it does and when to touch it.
    pub summary: &'static str,
}

/// A value for an option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// For [`OptionKind::Integer`].
    Integer(u64),
    /// For [`OptionKind::Number`].
    Number(f64),
    /// For [`OptionKind::Boolean`].
    Boolean(bool),
}

impl std::fmt::Display for Value {
    /// As it is written in a configuration.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Integer(value) => value.fmt(f),
            Self::Number(value) => value.fmt(f),
            Self::Boolean(value) => value.fmt(f),
        }
    }
}

/// Why an option was refused.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum OptionError {
    /// No option has that name.
    #[error("unknown option `{name}`, expected one of: {}", .known.join(", "))]
    Unknown {
        /// As given.
        name: String,
        /// The names there are.
        known: Vec<&'static str>,
    },
    /// A value of another type.
    #[error("option `{name}` expects {expected}")]
    Type {
        /// The option.
        name: &'static str,
        /// The type in words.
        expected: &'static str,
    },
    /// A value outside the bounds.
    #[error("option `{name}` must lie between {min} and {max}")]
    Bounds {
        /// The option.
        name: &'static str,
        /// Smallest allowed.
        min: String,
        /// Largest allowed.
        max: String,
    },
}

/// A full, checked set of values for one algorithm's options.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    values: Vec<(&'static OptionSpec, Value)>,
}

impl Options {
    /// Every option of `specs` at its default.
    pub fn defaults(specs: &'static [OptionSpec]) -> Self {
        Self {
            values: specs
                .iter()
                .map(|spec| (spec, spec.kind.default_value()))
                .collect(),
        }
    }

    /// Gives one option a value. A whole number is taken where a real one is wanted.
    ///
    /// # Errors
    ///
    /// [`OptionError::Unknown`] for a name that is not there, [`OptionError::Type`] for a value of another type and
    /// for NaN, [`OptionError::Bounds`] for a value outside the bounds. The old value then stays.
    pub fn set(&mut self, name: &str, value: Value) -> Result<(), OptionError> {
        let Some(slot) = self.values.iter_mut().find(|(spec, _)| spec.name == name) else {
            return Err(OptionError::Unknown {
                name: name.to_owned(),
                known: self.values.iter().map(|(spec, _)| spec.name).collect(),
            });
        };
        slot.1 = checked(slot.0, value)?;
        Ok(())
    }

    /// A whole number.
    ///
    /// # Panics
    ///
    /// When the algorithm declares no such option: a mistake in the algorithm, never in a configuration.
    pub fn integer(&self, name: &str) -> u64 {
        match self.value(name) {
            Some(Value::Integer(value)) => value,
            _ => panic!("no integer option `{name}` declared"),
        }
    }

    /// A real number, never NaN.
    ///
    /// # Panics
    ///
    /// As [`Options::integer`].
    pub fn number(&self, name: &str) -> f64 {
        match self.value(name) {
            Some(Value::Number(value)) => value,
            _ => panic!("no number option `{name}` declared"),
        }
    }

    /// On or off.
    ///
    /// # Panics
    ///
    /// As [`Options::integer`].
    pub fn boolean(&self, name: &str) -> bool {
        match self.value(name) {
            Some(Value::Boolean(value)) => value,
            _ => panic!("no boolean option `{name}` declared"),
        }
    }

    /// The value of an option, `None` where the algorithm has none of that name.
    pub fn value(&self, name: &str) -> Option<Value> {
        self.values
            .iter()
            .find(|(spec, _)| spec.name == name)
            .map(|&(_, value)| value)
    }

    /// Every option with its value, in the algorithm's order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'static OptionSpec, Value)> {
        self.values.iter().copied()
    }
}

/// `value` in the type that `spec` wants.
fn checked(spec: &'static OptionSpec, value: Value) -> Result<Value, OptionError> {
    let bounds = |min: String, max: String| OptionError::Bounds {
        name: spec.name,
        min,
        max,
    };
    match (spec.kind, value) {
        (OptionKind::Integer { min, max, .. }, Value::Integer(given)) => {
            if (min..=max).contains(&given) {
                Ok(value)
            } else {
                Err(bounds(min.to_string(), max.to_string()))
            }
        }
        (OptionKind::Number { .. }, Value::Integer(given)) => {
            checked(spec, Value::Number(given as f64))
        }
        (OptionKind::Number { min, max, .. }, Value::Number(given)) if !given.is_nan() => {
            if (min..=max).contains(&given) {
                Ok(value)
            } else {
                Err(bounds(min.to_string(), max.to_string()))
            }
        }
        (OptionKind::Boolean { .. }, Value::Boolean(_)) => Ok(value),
        _ => Err(OptionError::Type {
            name: spec.name,
            expected: spec.kind.describe(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static SPECS: &[OptionSpec] = &[
        OptionSpec {
            name: "packets",
            kind: OptionKind::Integer {
                default: 2,
                min: 2,
                max: 64,
            },
            unit: Unit::Packets,
            summary: "",
        },
        OptionSpec {
            name: "beta",
            kind: OptionKind::Number {
                default: 0.7,
                min: 0.5,
                max: 1.0,
            },
            unit: Unit::None,
            summary: "",
        },
        OptionSpec {
            name: "on",
            kind: OptionKind::Boolean { default: true },
            unit: Unit::None,
            summary: "",
        },
    ];

    #[test]
    fn defaults_are_what_the_specs_say() {
        let options = Options::defaults(SPECS);
        assert_eq!(options.integer("packets"), 2);
        assert_eq!(options.number("beta"), 0.7);
        assert!(options.boolean("on"));
        assert_eq!(options.iter().len(), 3);
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
        assert!(matches!(
            options.set("on", Value::Integer(1)),
            Err(OptionError::Type { .. })
        ));
    }

    #[test]
    fn nan_is_refused() {
        let mut options = Options::defaults(SPECS);
        let refused = options.set("beta", Value::Number(f64::NAN));
        assert_eq!(
            refused,
            Err(OptionError::Type {
                name: "beta",
                expected: "a number"
            })
        );
    }

    #[test]
    fn unknown_name_lists_the_known_ones() {
        let refused = Options::defaults(SPECS).set("bata", Value::Number(0.7));
        assert_eq!(
            refused,
            Err(OptionError::Unknown {
                name: "bata".to_owned(),
                known: vec!["packets", "beta", "on"]
            })
        );
    }
}
