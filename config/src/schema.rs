//! Keys and tables as data: the parser, the printer, the manual and the JSON Schema read the same description.

use std::borrow::Cow;
use std::time::Duration;

use sluicegate_options::{OptionKind, OptionSpec, Unit, Value};

use crate::units::{toml_duration, toml_size};

/// Type and bounds of a key's value; bounds are inclusive.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// A string of numbers with units.
    Duration { min: Duration, max: Duration },
    /// Bytes: a string with a unit, or a plain integer.
    Size { min: u64, max: u64 },
    /// A [`Kind::Size`], or the string `"auto"`.
    SizeOrAuto { min: u64, max: u64 },
    /// A whole number of `unit`.
    Count { min: u64, max: u64, unit: &'static str },
    /// A [`Kind::Count`], or the string `"never"`.
    CountOrNever { min: u64, max: u64, unit: &'static str },
    /// A real number without a unit.
    Ratio { min: f64, max: f64 },
    /// A boolean.
    Switch,
    /// The name of a backend of the dataplane.
    Backend,
    /// One of a few words.
    Choice { among: &'static [&'static str] },
    /// One of a few whole numbers.
    Number { among: &'static [u16] },
    /// A string of up to `max` bytes.
    Text { max: usize },
    /// A string that is a valid HTTP field value.
    FieldValue { max: usize },
    /// A name that other keys refer to: letters, digits, `-`, `_`, `.`.
    Name { max: usize },
    /// A file or folder; a relative path starts at the folder of the configuration file.
    Path,
    /// `"stdout"`, or a [`Kind::Path`].
    LogTarget,
    /// A string that `read` checks and brings into its canonical form.
    Word { words: &'static str, read: ReadWord },
    /// One [`Kind::Word`], or a list of `min` to `max` of them; `each` adds to the sentence.
    Words { words: &'static str, each: &'static str, min: usize, max: usize, read: ReadWord },
    /// A [`Kind::Word`] or a table, or a list of 1 to `max` of them. A word stands for a table with its required key alone.
    WordsOrTables { words: &'static str, table: &'static Table, max: usize, read: ReadWord },
    /// `"auto"`, a list of cores, or ranges of cores in a string.
    Cores,
    /// An algorithm's name, or a table with the name and the algorithm's options.
    CongestionControl,
    /// A field name, or a list of them.
    FieldNames,
    /// A table from field names to values; `many` allows several values for a name.
    Fields { many: bool },
    /// A table from field names to values as they are.
    FieldValues,
    /// A table from suffixes of file names to media types.
    MediaTypes,
    /// A table from names of parameters for scripts to values.
    Params,
    /// A table from statuses of errors to files.
    ErrorPages,
    /// A table with a header of its own.
    Table(&'static Table),
    /// A [`Kind::Table`], or `word` for none.
    TableOr { table: &'static Table, word: &'static str, words: &'static str },
    /// A [`Kind::Word`], which stands for a table with one key, or the table.
    WordOrTable { words: &'static str, table: &'static Table, read: ReadWord },
    /// Tables with headers of their own, `max` at most.
    Tables { table: &'static Table, max: usize },
    /// A table with a header of its own, or 1 to `max` of them.
    TableOrTables { table: &'static Table, max: usize },
    /// One table, 1 to `max` of them, or `word` for none.
    TablesOr { table: &'static Table, max: usize, word: &'static str, words: &'static str },
}

/// Function that returns a word in its canonical form.
pub(crate) type ReadWord = fn(&str) -> Result<String, Refusal>;

/// Reason why a word was refused, where its type alone does not say it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusal(pub(crate) Option<Box<Reason>>);

impl Refusal {
    /// Returns a refusal that says why.
    pub(crate) fn because(reason: Reason) -> Self {
        Self(Some(Box::new(reason)))
    }
}

/// Parts of an error message.
#[derive(Clone, Debug)]
pub(crate) struct Reason {
    pub(crate) found: String,
    pub(crate) expected: String,
    pub(crate) nearest: Option<String>,
}

pub(crate) const fn duration(min: Duration, max: Duration) -> Kind {
    Kind::Duration { min, max }
}

pub(crate) const fn size(min: u64, max: u64) -> Kind {
    Kind::Size { min, max }
}

pub(crate) const fn count(min: u64, max: u64, unit: &'static str) -> Kind {
    Kind::Count { min, max, unit }
}

pub(crate) const fn ratio(min: f64, max: f64) -> Kind {
    Kind::Ratio { min, max }
}

pub(crate) const fn choice(among: &'static [&'static str]) -> Kind {
    Kind::Choice { among }
}

pub(crate) const fn name() -> Kind {
    Kind::Name { max: 64 }
}

pub(crate) const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

pub(crate) const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub(crate) const fn micros(count: u64) -> Duration {
    Duration::from_micros(count)
}

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;
pub(crate) const TIB: u64 = 1 << 40;

/// Most fields in a table of header edits.
pub(crate) const MAX_FIELDS: usize = 64;

impl Kind {
    /// Returns the table that the key holds, if it holds tables.
    pub(crate) const fn table(&self) -> Option<&'static Table> {
        match self {
            Self::Table(table)
            | Self::TableOr { table, .. }
            | Self::WordOrTable { table, .. }
            | Self::Tables { table, .. }
            | Self::TableOrTables { table, .. }
            | Self::TablesOr { table, .. }
            | Self::WordsOrTables { table, .. } => Some(table),
            _ => None,
        }
    }
}

/// Value of a key that is not in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Given {
    /// The key is required; holds an example, as TOML.
    Required(&'static str),
    /// Either this key or another one is required; holds an example, as TOML, and the other key.
    Either(&'static str, &'static str),
    /// The default, as TOML.
    Default(&'static str),
    /// The default of an option that the dataplane describes.
    Option(&'static OptionSpec),
    /// The key has no value; holds the meaning of that in words. A [`Kind::Table`] without required keys reads as an empty
    /// table.
    Unset(&'static str),
}

impl Given {
    /// Returns the example of a key without which a file may be refused, as TOML.
    pub(crate) const fn required_example(&self) -> Option<&'static str> {
        match self {
            Self::Required(example) | Self::Either(example, _) => Some(example),
            _ => None,
        }
    }

    pub(crate) fn default_toml(&self) -> Option<Cow<'static, str>> {
        match self {
            Self::Required(_) | Self::Either(..) | Self::Unset(_) => None,
            Self::Default(text) => Some(Cow::Borrowed(text)),
            Self::Option(spec) => Some(Cow::Owned(option_toml(spec, spec.kind.default_value()))),
        }
    }
}

/// Moment when a changed value takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reload {
    /// The next reload.
    Live,
    /// The next start; a reload that changes the value is refused.
    Restart,
}

/// One key of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) given: Given,
    /// More values worth showing, as TOML.
    pub(crate) examples: &'static [&'static str],
    pub(crate) reload: Reload,
    /// Effect of the key and the reason to change it, for operators.
    pub(crate) summary: &'static str,
}

/// A group of keys under one header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    /// The header without brackets: `listener.tls`; empty for the top level of a file.
    pub(crate) name: &'static str,
    /// Whether the table may occur many times: `[[name]]`.
    pub(crate) many: bool,
    /// Purpose of the table, for operators.
    pub(crate) summary: &'static str,
    /// Keys that are fields of the table's struct.
    pub(crate) fields: &'static [Key],
    /// Functions that return the keys above `fields`, which are declared elsewhere.
    pub(crate) first: &'static [fn() -> Vec<Key>],
    /// Functions that return the keys below `fields`, which are declared elsewhere.
    pub(crate) parts: &'static [fn() -> Vec<Key>],
}

impl Table {
    /// Returns the table's header as it stands in a file.
    pub(crate) fn header(&self) -> String {
        if self.many { format!("[[{}]]", self.name) } else { format!("[{}]", self.name) }
    }

    /// Returns whether the table has a key without which a file is refused.
    pub(crate) fn has_required_key(&self) -> bool {
        self.keys().any(|key| key.given.required_example().is_some())
    }

    /// Returns all keys, in the order of the manual.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> + use<> {
        let first = self.first.iter().flat_map(|keys| keys());
        let parts = self.parts.iter().flat_map(|keys| keys());
        first.chain(self.fields.iter().copied()).chain(parts)
    }

    /// Returns the tables inside this one, at any depth, each with the key that holds it, in the order of the manual.
    pub(crate) fn inner(&self) -> Vec<(Self, Key)> {
        let mut all = Vec::new();
        for key in self.keys() {
            if let Some(table) = key.kind.table() {
                all.push((*table, key));
                all.extend(table.inner());
            }
        }
        all
    }
}

impl Key {
    /// Returns the key of an option of the dataplane, which is read when a worker starts.
    pub(crate) const fn of(spec: &'static OptionSpec) -> Self {
        let kind = match (spec.kind, spec.unit) {
            (OptionKind::Boolean { .. }, _) => Kind::Switch,
            (OptionKind::Choice { among, .. }, _) => Kind::Choice { among },
            (OptionKind::Number { min, max, .. }, _) => Kind::Ratio { min, max },
            (OptionKind::Integer { min, max, .. }, Unit::Bytes) => Kind::Size { min, max },
            (OptionKind::Integer { min, max, .. }, Unit::Microseconds) => {
                Kind::Duration { min: micros(min), max: micros(max) }
            }
            (OptionKind::Integer { min, max, .. }, Unit::Milliseconds) => {
                Kind::Duration { min: millis(min), max: millis(max) }
            }
            (OptionKind::Integer { min, max, .. }, Unit::None | Unit::Packets) => {
                Kind::Count { min, max, unit: spec.unit.describe() }
            }
        };
        Self {
            name: spec.name,
            kind,
            given: Given::Option(spec),
            examples: &[],
            reload: Reload::Restart,
            summary: spec.summary,
        }
    }
}

/// Returns an option's value as TOML, as [`Key::of`] reads it.
pub(crate) fn option_toml(spec: &OptionSpec, value: Value) -> String {
    match (spec.unit, value) {
        (Unit::Bytes, Value::Integer(bytes)) => toml_size(bytes),
        (Unit::Microseconds, Value::Integer(count)) => toml_duration(micros(count)),
        (Unit::Milliseconds, Value::Integer(count)) => toml_duration(millis(count)),
        (_, Value::Number(number)) => format!("{number:?}"),
        (_, value) => value.to_string(),
    }
}
