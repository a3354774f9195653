//! The description of one option, and the check of a value against it.

use std::fmt;

use thiserror::Error;

/// Unit of an option's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A bare ratio or count.
    None,
    /// Datagrams of the path's size.
    Packets,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
    /// Bytes.
    Bytes,
}

impl Unit {
    /// Returns the unit in words, for help; empty for [`Unit::None`].
    pub const fn describe(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Packets => "packets",
            Self::Milliseconds => "milliseconds",
            Self::Microseconds => "microseconds",
            Self::Bytes => "bytes",
        }
    }
}

/// Type, default and bounds of an option; bounds are inclusive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OptionKind {
    /// A whole number.
    Integer {
        /// Value of an option that is not given.
        default: u64,
        /// Smallest value allowed.
        min: u64,
        /// Largest value allowed.
        max: u64,
    },
    /// A real number.
    Number {
        /// Value of an option that is not given.
        default: f64,
        /// Smallest value allowed.
        min: f64,
        /// Largest value allowed.
        max: f64,
    },
    /// A switch.
    Boolean {
        /// Value of an option that is not given.
        default: bool,
    },
    /// One of a few words.
    Choice {
        /// Value of an option that is not given.
        default: &'static str,
        /// Words allowed: printable ASCII without spaces, quotes and backslashes.
        among: &'static [&'static str],
    },
}

impl OptionKind {
    /// Returns the value of an option that is not given.
    pub const fn default_value(self) -> Value {
        match self {
            Self::Integer { default, .. } => Value::Integer(default),
            Self::Number { default, .. } => Value::Number(default),
            Self::Boolean { default } => Value::Boolean(default),
            Self::Choice { default, .. } => Value::Choice(default),
        }
    }

    /// Returns the allowed values in words, for help.
    pub fn range(self) -> String {
        match self {
            Self::Integer { min, max, .. } => format!("{min} to {max}"),
            Self::Number { min, max, .. } => format!("{min} to {max}"),
            Self::Boolean { .. } => "true or false".to_owned(),
            Self::Choice { among, .. } => among.join(", "),
        }
    }

    /// Returns the type in words, for messages.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Integer { .. } => "a whole number",
            Self::Number { .. } => "a number",
            Self::Boolean { .. } => "true or false",
            Self::Choice { .. } => "a word",
        }
    }
}

/// One option of an algorithm or a backend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OptionSpec {
    /// Key in a configuration, snake case.
    pub name: &'static str,
    /// Type, default and bounds.
    pub kind: OptionKind,
    /// Unit of the number; [`Unit::None`] for a boolean and for a word.
    pub unit: Unit,
    /// One sentence for operators: what the option does and when to change it.
    pub summary: &'static str,
}

impl OptionSpec {
    /// Returns `value` in the type of the option; a whole number becomes a real one where the option is real.
    ///
    /// # Errors
    /// [`OptionError::Type`] for a value of another type and for NaN, [`OptionError::Bounds`] for a value outside the
    /// bounds, [`OptionError::Choice`] for a word that is not allowed.
    pub fn check(&self, value: Value) -> Result<Value, OptionError> {
        match (self.kind, value) {
            (OptionKind::Integer { min, max, .. }, Value::Integer(given)) => {
                self.within(given, min, max)?;
            }
            (OptionKind::Number { .. }, Value::Integer(given)) => {
                return self.check(Value::Number(given as f64));
            }
            (OptionKind::Number { min, max, .. }, Value::Number(given)) if !given.is_nan() => {
                self.within(given, min, max)?;
            }
            (OptionKind::Boolean { .. }, Value::Boolean(_)) => {}
            (OptionKind::Choice { among, .. }, Value::Choice(given)) => {
                if !among.contains(&given) {
                    let name = self.name;
                    return Err(OptionError::Choice { name, among });
                }
            }
            _ => {
                return Err(OptionError::Type { name: self.name, expected: self.kind.describe() });
            }
        }
        Ok(value)
    }

    fn within<T: PartialOrd + ToString>(
        &self,
        given: T,
        min: T,
        max: T,
    ) -> Result<(), OptionError> {
        if given >= min && given <= max {
            return Ok(());
        }
        Err(OptionError::Bounds { name: self.name, min: min.to_string(), max: max.to_string() })
    }

    /// Returns the place of the option called `name` in `specs`.
    ///
    /// # Errors
    /// [`OptionError::Unknown`] if there is none.
    pub fn find(specs: &[Self], name: &str) -> Result<usize, OptionError> {
        let place = specs.iter().position(|spec| spec.name == name);
        place.ok_or_else(|| OptionError::Unknown {
            name: name.to_owned(),
            known: specs.iter().map(|spec| spec.name).collect(),
        })
    }
}

/// A value of an option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Value of an [`OptionKind::Integer`].
    Integer(u64),
    /// Value of an [`OptionKind::Number`].
    Number(f64),
    /// Value of an [`OptionKind::Boolean`].
    Boolean(bool),
    /// Value of an [`OptionKind::Choice`].
    Choice(&'static str),
}

impl fmt::Display for Value {
    /// Writes the value as a configuration does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => value.fmt(f),
            Self::Number(value) => value.fmt(f),
            Self::Boolean(value) => value.fmt(f),
            Self::Choice(word) => write!(f, "\"{word}\""),
        }
    }
}

/// Reason why an option was refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum OptionError {
    /// No option has that name.
    #[error("unknown option `{name}`, expected one of: {}", .known.join(", "))]
    Unknown {
        /// Name that was given.
        name: String,
        /// Names of all options.
        known: Vec<&'static str>,
    },
    /// The value has another type.
    #[error("option `{name}` expects {expected}")]
    Type {
        /// Name of the option.
        name: &'static str,
        /// Type of the option in words.
        expected: &'static str,
    },
    /// The value lies outside the bounds.
    #[error("option `{name}` must lie between {min} and {max}")]
    Bounds {
        /// Name of the option.
        name: &'static str,
        /// Smallest value allowed.
        min: String,
        /// Largest value allowed.
        max: String,
    },
    /// The word is none of those allowed.
    #[error("option `{name}` must be one of: {}", .among.join(", "))]
    Choice {
        /// Name of the option.
        name: &'static str,
        /// Words allowed.
        among: &'static [&'static str],
    },
}
