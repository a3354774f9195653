//! The one list of keys: what each is called, what it may hold, what it holds where it is not given, and why.
//!
//! The parser takes types, bounds and defaults from here, the printer its order, and the manual everything.

mod edge;
mod handler;
mod limits;
mod process;
mod proxy;
mod quic;
mod route;

use std::borrow::Cow;
use std::time::Duration;

use sluicegate_dataplane::Backend;
use sluicegate_options::{OptionKind, OptionSpec, Unit, Value};

use crate::units::{format_duration, format_size};

/// Type and bounds of a key's value; bounds are inclusive.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Numbers with units in a string.
    Duration { min: Duration, max: Duration },
    /// Bytes: a string with a unit or a plain integer.
    Size { min: u64, max: u64 },
    /// A whole number of `unit`.
    Count {
        min: u64,
        max: u64,
        unit: &'static str,
    },
    /// As [`Kind::Count`], or the string `"never"`.
    CountOrNever {
        min: u64,
        max: u64,
        unit: &'static str,
    },
    /// A real number without a unit.
    Ratio { min: f64, max: f64 },
    /// On or off.
    Switch,
    /// The name of a backend of the dataplane.
    Backend,
    /// One of a few words.
    Choice { among: &'static [&'static str] },
    /// One of a few whole numbers.
    Number { among: &'static [u16] },
    /// Any text of up to `max` bytes.
    Text { max: usize },
    /// Text that may stand in an HTTP field value.
    FieldValue { max: usize },
    /// What other parts of the file refer to: letters, digits, `-`, `_`, `.`.
    Name { max: usize },
    /// A file or folder; relative to the folder of the configuration file.
    Path,
    /// A table with a header of its own, or several, in words.
    Table { words: &'static str },
    /// Something with a reader of its own, in words.
    Form { words: &'static str },
}

impl Kind {
    /// What is expected, for an error and for the manual.
    pub(crate) fn expectation(&self) -> String {
        match self {
            Self::Duration { min, max } => {
                format!(
                    "a duration from {} to {}",
                    toml_duration(*min),
                    toml_duration(*max)
                )
            }
            Self::Size { min, max } => {
                format!(
                    "a size from {} to {}, or a number of bytes",
                    toml_size(*min),
                    toml_size(*max)
                )
            }
            Self::Count { min, max, unit: "" } => format!("a whole number from {min} to {max}"),
            Self::Count { min, max, unit } => format!("a number of {unit} from {min} to {max}"),
            Self::CountOrNever { min, max, unit } => {
                format!("a number of {unit} from {min} to {max}, or \"never\"")
            }
            Self::Ratio { min, max } => format!("a number from {min:?} to {max:?}"),
            Self::Switch => "true or false".to_owned(),
            Self::Choice { among } => format!("one of: {}", among.join(", ")),
            Self::Number { among } => {
                let among: Vec<String> = among.iter().map(u16::to_string).collect();
                format!("one of: {}", among.join(", "))
            }
            Self::Backend => format!("one of: {}", Backend::ALL.map(Backend::name).join(", ")),
            Self::Text { max } => format!("a string of up to {max} bytes"),
            Self::FieldValue { max } => {
                format!("a string of 1 to {max} visible ASCII characters and inner spaces")
            }
            Self::Name { max } => {
                format!("a string of 1 to {max} letters, digits, `-`, `_` or `.`")
            }
            Self::Path => "a path, relative to the folder of this file".to_owned(),
            Self::Table { words } | Self::Form { words } => (*words).to_owned(),
        }
    }
}

/// What holds where a key is not given.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Given {
    /// It must be given; an example, as TOML.
    Required(&'static str),
    /// This value, as TOML.
    Default(&'static str),
    /// This value, of an option that the dataplane describes.
    Option(&'static OptionSpec),
    /// Nothing; the words say what that means.
    Unset(&'static str),
}

impl Given {
    /// The default as TOML.
    pub(crate) fn default_toml(&self) -> Option<Cow<'static, str>> {
        match self {
            Self::Required(_) | Self::Unset(_) => None,
            Self::Default(text) => Some(Cow::Borrowed(text)),
            Self::Option(spec) => Some(Cow::Owned(option_toml(spec, spec.kind.default_value()))),
        }
    }
}

/// A value of an option of the dataplane as TOML.
pub(crate) fn option_toml(spec: &OptionSpec, value: Value) -> String {
    match (spec.unit, value) {
        (Unit::Bytes, Value::Integer(bytes)) => toml_size(bytes),
        (Unit::Microseconds, Value::Integer(count)) => toml_duration(micros(count)),
        (Unit::Milliseconds, Value::Integer(count)) => toml_duration(millis(count)),
        (_, Value::Number(number)) => format!("{number:?}"),
        (_, value) => value.to_string(),
    }
}

/// A duration as a TOML value.
pub(crate) fn toml_duration(duration: Duration) -> String {
    format!("\"{}\"", format_duration(duration))
}

/// A size as a TOML value.
pub(crate) fn toml_size(bytes: u64) -> String {
    format!("\"{}\"", format_size(bytes))
}

/// One key of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) given: Given,
    /// More values worth showing, as TOML.
    pub(crate) examples: &'static [&'static str],
    /// What it does and why one would change it, for operators.
    pub(crate) summary: &'static str,
}

/// A group of keys under one header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    /// As in a header, without brackets: `listener.tls`.
    pub(crate) name: &'static str,
    /// May occur many times: `[[name]]`.
    pub(crate) many: bool,
    /// For operators.
    pub(crate) summary: &'static str,
    keys: &'static [Key],
    /// Further keys, which the dataplane describes.
    specs: &'static [&'static [OptionSpec]],
}

impl Table {
    /// The table's header as it stands in a file.
    pub(crate) fn header(&self) -> String {
        if self.many {
            format!("[[{}]]", self.name)
        } else {
            format!("[{}]", self.name)
        }
    }

    /// Its keys, in the order of the manual.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> + use<> {
        let described = self
            .specs
            .iter()
            .flat_map(|specs| specs.iter().map(Key::of));
        self.keys.iter().copied().chain(described)
    }
}

impl Key {
    /// The key of an option of the dataplane.
    fn of(spec: &'static OptionSpec) -> Self {
        let kind = match (spec.kind, spec.unit) {
            (OptionKind::Boolean { .. }, _) => Kind::Switch,
            (OptionKind::Number { min, max, .. }, _) => Kind::Ratio { min, max },
            (OptionKind::Integer { min, max, .. }, Unit::Bytes) => Kind::Size { min, max },
            (OptionKind::Integer { min, max, .. }, Unit::Microseconds) => Kind::Duration {
                min: micros(min),
                max: micros(max),
            },
            (OptionKind::Integer { min, max, .. }, Unit::Milliseconds) => Kind::Duration {
                min: millis(min),
                max: millis(max),
            },
            (OptionKind::Integer { min, max, .. }, Unit::None | Unit::Packets) => Kind::Count {
                min,
                max,
                unit: spec.unit.describe(),
            },
        };
        let given = Given::Option(spec);
        Self {
            name: spec.name,
            kind,
            given,
            examples: &[],
            summary: spec.summary,
        }
    }
}

pub(crate) use edge::{GROUP, LISTENER, RULE, TLS, TLS_MANY};
pub(crate) use handler::{FILES, FIXED, GENERATE, REDIRECT};
pub(crate) use limits::LIMITS;
pub(crate) use process::{ACCESS_LOG, ADMIN, LOG, QLOG, SERVER};
pub(crate) use proxy::PROXY;
pub(crate) use quic::QUIC;
pub(crate) use route::{REQUEST_HEADERS, RESPONSE_HEADERS, ROUTE};

/// Every table, in the order of the manual.
pub(crate) const TABLES: [&Table; 19] = [
    &SERVER,
    &GROUP,
    &LISTENER,
    &TLS,
    &RULE,
    &ROUTE,
    &FIXED,
    &REQUEST_HEADERS,
    &RESPONSE_HEADERS,
    &GENERATE,
    &FILES,
    &PROXY,
    &REDIRECT,
    &LIMITS,
    &QUIC,
    &QLOG,
    &LOG,
    &ADMIN,
    &ACCESS_LOG,
];

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

const fn micros(count: u64) -> Duration {
    Duration::from_micros(count)
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
