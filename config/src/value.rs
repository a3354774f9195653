//! One value of a file, read as what its key says it is.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sluicegate_dataplane::Backend;
use sluicegate_options::{Unit, Value};
use toml::de::{DeInteger, DeValue};

use crate::error::Error;
use crate::schema::{Given, Key, Kind};
use crate::source::{Source, shown};
use crate::units::{format_duration, format_size, parse_duration, parse_size};

/// A value with its key and its place.
pub(crate) struct Item<'a> {
    pub(crate) source: &'a Source<'a>,
    pub(crate) key: Key,
    pub(crate) value: Cow<'a, DeValue<'a>>,
    /// Byte offset of the value, or of the table's header where it is a default.
    pub(crate) at: usize,
}

/// A value in words, for an error.
pub(crate) fn kind_of(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("string \"{}\"", shown(text)),
        DeValue::Integer(number) => format!("integer {}", shown(&number.to_string())),
        DeValue::Float(number) => format!("float {}", shown(number.as_str())),
        DeValue::Boolean(on) => format!("boolean {on}"),
        DeValue::Datetime(time) => format!("datetime {time}"),
        DeValue::Array(_) => "an array".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// A whole number; `None` below zero or beyond 64 bits.
pub(crate) fn whole(number: &DeInteger<'_>) -> Option<u64> {
    u64::from_str_radix(number.as_str().trim_start_matches('+'), number.radix()).ok()
}

impl Item<'_> {
    /// The value is not what the key expects.
    pub(crate) fn refused(&self) -> Error {
        let found = format!("{} for `{}`", kind_of(&self.value), self.key.name);
        self.source
            .error(self.at, found, self.key.kind.expectation())
    }

    /// `value`, if it lies within the bounds; else an error that names the bound.
    fn within<T: PartialOrd>(
        &self,
        value: T,
        (min, max): (T, T),
        print: impl Fn(&T) -> String,
    ) -> Result<T, Error> {
        let side = match () {
            () if value < min => format!("below {}", print(&min)),
            () if value > max => format!("above {}", print(&max)),
            () => return Ok(value),
        };
        let found = format!("`{}` is {}, {side}", self.key.name, print(&value));
        Err(self
            .source
            .error(self.at, found, self.key.kind.expectation()))
    }

    pub(crate) fn duration(&self) -> Result<Duration, Error> {
        let Kind::Duration { min, max } = self.key.kind else {
            return Err(self.refused());
        };
        let value = self
            .value
            .as_str()
            .and_then(parse_duration)
            .ok_or_else(|| self.refused())?;
        self.within(value, (min, max), |d| format_duration(*d))
    }

    pub(crate) fn size(&self) -> Result<u64, Error> {
        let Kind::Size { min, max } = self.key.kind else {
            return Err(self.refused());
        };
        let value = match &*self.value {
            DeValue::String(text) => parse_size(text),
            DeValue::Integer(number) => whole(number),
            _ => None,
        };
        let value = value.ok_or_else(|| self.refused())?;
        self.within(value, (min, max), |bytes| format_size(*bytes))
    }

    pub(crate) fn count(&self) -> Result<u64, Error> {
        let (Kind::Count { min, max, .. } | Kind::CountOrNever { min, max, .. }) = self.key.kind
        else {
            return Err(self.refused());
        };
        let value = self
            .value
            .as_integer()
            .and_then(whole)
            .ok_or_else(|| self.refused())?;
        self.within(value, (min, max), u64::to_string)
    }

    /// `None` stands for never.
    pub(crate) fn count_or_never(&self) -> Result<Option<u64>, Error> {
        match self.value.as_str() {
            Some("never") => Ok(None),
            _ => self.count().map(Some),
        }
    }

    pub(crate) fn ratio(&self) -> Result<f64, Error> {
        let Kind::Ratio { min, max } = self.key.kind else {
            return Err(self.refused());
        };
        let value = real(&self.value).ok_or_else(|| self.refused())?;
        self.within(value, (min, max), |x| format!("{x:?}"))
    }

    pub(crate) fn switch(&self) -> Result<bool, Error> {
        self.value.as_bool().ok_or_else(|| self.refused())
    }

    /// The place of the value's word in the key's list.
    pub(crate) fn choice<T: Copy>(&self, meanings: &[T]) -> Result<T, Error> {
        let Kind::Choice { among } = self.key.kind else {
            return Err(self.refused());
        };
        debug_assert_eq!(among.len(), meanings.len());
        let word = self.value.as_str().ok_or_else(|| self.refused())?;
        let place = among.iter().position(|w| *w == word);
        place
            .and_then(|i| meanings.get(i))
            .copied()
            .ok_or_else(|| self.no_such(word, among))
    }

    /// One of the numbers of the key's list.
    pub(crate) fn number(&self) -> Result<u16, Error> {
        let Kind::Number { among } = self.key.kind else {
            return Err(self.refused());
        };
        let number = self.value.as_integer().and_then(whole);
        let known = among
            .iter()
            .find(|known| Some(u64::from(**known)) == number);
        known.copied().ok_or_else(|| self.refused())
    }

    pub(crate) fn backend(&self) -> Result<Backend, Error> {
        let word = self.value.as_str().ok_or_else(|| self.refused())?;
        word.parse()
            .map_err(|_| self.no_such(word, &Backend::ALL.map(Backend::name)))
    }

    fn no_such(&self, word: &str, known: &[&str]) -> Error {
        let found = format!("`{}` is \"{}\"", self.key.name, shown(word));
        self.source.unknown(self.at, found, word, known)
    }

    /// Text as the key's kind allows it.
    pub(crate) fn text(&self) -> Result<String, Error> {
        let text = self.value.as_str().ok_or_else(|| self.refused())?;
        let fits = |max: usize| (1..=max).contains(&text.len());
        let fine = match self.key.kind {
            Kind::Text { max } => text.len() <= max,
            Kind::Name { max } => {
                let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
                fits(max) && text.bytes().all(plain)
            }
            Kind::FieldValue { max } => {
                let plain = |b: u8| b.is_ascii_graphic() || b == b' ';
                fits(max) && text.bytes().all(plain) && text.trim() == text
            }
            _ => false,
        };
        if fine {
            Ok(text.to_owned())
        } else {
            Err(self.refused())
        }
    }

    /// A path, made to start at the file's folder.
    pub(crate) fn path(&self) -> Result<PathBuf, Error> {
        match self.value.as_str() {
            Some(text) if !text.is_empty() && !text.contains('\0') => {
                Ok(self.source.folder.join(Path::new(text)))
            }
            _ => Err(self.refused()),
        }
    }

    /// The value of an option that the dataplane describes.
    pub(crate) fn option(&self) -> Result<Value, Error> {
        debug_assert!(matches!(self.key.given, Given::Option(_)));
        match self.key.kind {
            Kind::Switch => self.switch().map(Value::Boolean),
            Kind::Size { .. } => self.size().map(Value::Integer),
            Kind::Duration { .. } => {
                let duration = self.duration()?;
                let (step, expected) = match self.key.given {
                    Given::Option(spec) if spec.unit == Unit::Milliseconds => {
                        (1_000_000, "whole milliseconds")
                    }
                    _ => (1_000, "whole microseconds"),
                };
                let nanos = u64::try_from(duration.as_nanos()).map_err(|_| self.refused())?;
                if !nanos.is_multiple_of(step) {
                    let found = format!("`{}` is {}", self.key.name, format_duration(duration));
                    return Err(self.source.error(self.at, found, expected));
                }
                Ok(Value::Integer(nanos / step))
            }
            Kind::Ratio { .. } => self.ratio().map(Value::Number),
            _ => self.count().map(Value::Integer),
        }
    }
}

/// A real number, whole ones too; never NaN.
pub(crate) fn real(value: &DeValue<'_>) -> Option<f64> {
    let text = match value {
        DeValue::Float(number) => number.as_str(),
        DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
        _ => return None,
    };
    text.parse().ok().filter(|x: &f64| !x.is_nan())
}
