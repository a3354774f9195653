//! One value of a file, read as the kind that its key declares.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sluicegate_dataplane::Backend;
use sluicegate_options::{Unit, Value};
use toml::de::{DeInteger, DeValue};

use crate::error::Error;
use crate::schema::{Given, Key, Kind, Refusal};
use crate::source::{Source, shown};
use crate::units::{format_duration, format_size, nearest_size, parse_duration, parse_size};

/// Type that is made of a word in its canonical form.
pub(crate) trait Word: Sized + PartialEq + ToString {
    /// Returns the value; `None` if the word is not canonical.
    fn of_canonical(word: String) -> Option<Self>;
}

impl Word for String {
    fn of_canonical(word: String) -> Option<Self> {
        Some(word)
    }
}

impl Word for SocketAddr {
    fn of_canonical(word: String) -> Option<Self> {
        word.parse().ok()
    }
}

/// A value with its key and its place.
pub(crate) struct Item<'a> {
    pub(crate) source: &'a Source<'a>,
    /// Name of the table that the key is in.
    pub(crate) table: &'static str,
    pub(crate) key: Key,
    pub(crate) value: Cow<'a, DeValue<'a>>,
    /// Byte offset of the value, or of the table's header where it is a default.
    pub(crate) at: usize,
}

/// Describes a value in words, for an error.
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

/// Returns the values of an array with their places. Any other value, and an array of a length that `count` does not
/// allow, stands for itself.
pub(crate) fn entries<'a>(
    value: &'a DeValue<'a>,
    at: usize,
    count: RangeInclusive<usize>,
) -> Vec<(usize, &'a DeValue<'a>)> {
    match value {
        DeValue::Array(entries) if count.contains(&entries.len()) => {
            entries.iter().map(|e| (e.span().start, e.get_ref())).collect()
        }
        one => vec![(at, one)],
    }
}

/// Returns a whole number; `None` below zero or beyond 64 bits.
pub(crate) fn whole(number: &DeInteger<'_>) -> Option<u64> {
    u64::from_str_radix(number.as_str().trim_start_matches('+'), number.radix()).ok()
}

impl Item<'_> {
    /// Returns the error for a value that is not what the key expects.
    pub(crate) fn refused(&self) -> Error {
        self.refused_at(self.at, &self.value)
    }

    /// Returns the error for a part of the value at byte `at` that is not what the key expects.
    pub(crate) fn refused_at(&self, at: usize, value: &DeValue<'_>) -> Error {
        let found = format!("{} for `{}`", kind_of(value), self.key.name);
        self.source.error(at, found, self.key.kind.expectation())
    }

    /// Returns `value` if it lies within the bounds, else an error that names the bound.
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
        Err(self.source.error(self.at, found, self.key.kind.expectation()))
    }

    pub(crate) fn duration(&self) -> Result<Duration, Error> {
        let Kind::Duration { min, max } = self.key.kind else {
            return Err(self.refused());
        };
        let value = self.value.as_str().and_then(parse_duration).ok_or_else(|| self.refused())?;
        self.within(value, (min, max), |d| format_duration(*d))
    }

    pub(crate) fn size(&self) -> Result<u64, Error> {
        let (Kind::Size { min, max } | Kind::SizeOrAuto { min, max }) = self.key.kind else {
            return Err(self.refused());
        };
        let value = match &*self.value {
            DeValue::String(text) => parse_size(text),
            DeValue::Integer(number) => whole(number),
            _ => None,
        };
        let value = value.ok_or_else(|| Error {
            nearest: self.value.as_str().and_then(nearest_size),
            ..self.refused()
        })?;
        self.within(value, (min, max), |bytes| format_size(*bytes))
    }

    pub(crate) fn count(&self) -> Result<u64, Error> {
        let (Kind::Count { min, max, .. } | Kind::CountOrNever { min, max, .. }) = self.key.kind
        else {
            return Err(self.refused());
        };
        let value = self.value.as_integer().and_then(whole).ok_or_else(|| self.refused())?;
        self.within(value, (min, max), u64::to_string)
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

    /// Returns the meaning of the value's word: the one at the same place as the word in the key's list.
    pub(crate) fn choice<T: Copy>(&self, meanings: &[T]) -> Result<T, Error> {
        let Kind::Choice { among } = self.key.kind else {
            return Err(self.refused());
        };
        debug_assert_eq!(among.len(), meanings.len());
        let word = self.value.as_str().ok_or_else(|| self.refused())?;
        let place = among.iter().position(|w| *w == word);
        place.and_then(|i| meanings.get(i)).copied().ok_or_else(|| self.no_such(word, among))
    }

    pub(crate) fn number(&self, among: &[u16]) -> Result<u16, Error> {
        let number = self.value.as_integer().and_then(whole);
        let known = among.iter().find(|known| Some(u64::from(**known)) == number);
        known.copied().ok_or_else(|| self.refused())
    }

    pub(crate) fn backend(&self) -> Result<Backend, Error> {
        let word = self.value.as_str().ok_or_else(|| self.refused())?;
        word.parse().map_err(|_| self.no_such(word, &Backend::ALL.map(Backend::name)))
    }

    fn no_such(&self, word: &str, known: &[&str]) -> Error {
        let found = format!("`{}` is \"{}\"", self.key.name, shown(word));
        self.source.unknown(self.at, found, word, known)
    }

    /// Returns a word in the canonical form of the key's kind.
    pub(crate) fn word<W: Word>(&self) -> Result<W, Error> {
        self.word_at(self.at, &self.value)
    }

    /// Returns the word `value`, which stands at byte `at`.
    pub(crate) fn word_at<W: Word>(&self, at: usize, value: &DeValue<'_>) -> Result<W, Error> {
        let word = W::of_canonical(self.canonical(at, value)?);
        word.ok_or_else(|| self.refused_at(at, value))
    }

    /// Returns the words of a list, or a single word.
    pub(crate) fn words<W: Word>(&self) -> Result<Vec<W>, Error> {
        let entries = self.entries().into_iter();
        entries.map(|(at, value)| self.word_at(at, value)).collect()
    }

    /// Returns the words of a list, each once, or a single word.
    pub(crate) fn distinct_words<W: Word>(&self) -> Result<Vec<W>, Error> {
        let words = self.words()?;
        for (place, (at, value)) in self.entries().into_iter().enumerate() {
            if words[..place].contains(&words[place]) {
                let found = format!("{} twice in `{}`", kind_of(value), self.key.name);
                return Err(self.source.error(at, found, "each once"));
            }
        }
        Ok(words)
    }

    /// Returns the values of a list with their places. Any other value, and a list of a length that the key does not
    /// allow, stands for itself.
    pub(crate) fn entries(&self) -> Vec<(usize, &DeValue<'_>)> {
        match self.key.kind {
            Kind::Words { min, max, .. } => entries(&self.value, self.at, min..=max),
            Kind::WordsOrTables { max, .. } => entries(&self.value, self.at, 1..=max),
            _ => vec![(self.at, &*self.value)],
        }
    }

    /// Returns the word `value`, which stands at byte `at`, in the canonical form of the key's kind.
    fn canonical(&self, at: usize, value: &DeValue<'_>) -> Result<String, Error> {
        let word = value.as_str().ok_or_else(|| self.refused_at(at, value))?;
        let fits = |max: usize| (1..=max).contains(&word.len());
        let fine = match self.key.kind {
            Kind::Word { read, .. }
            | Kind::WordOrTable { read, .. }
            | Kind::Words { read, .. }
            | Kind::WordsOrTables { read, .. } => {
                return read(word).map_err(|refusal| self.refusal(at, value, refusal));
            }
            Kind::Text { max } => word.len() <= max,
            Kind::Name { max } => {
                let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
                fits(max) && word.bytes().all(plain)
            }
            Kind::FieldValue { max } => {
                let plain = |b: u8| b.is_ascii_graphic() || b == b' ';
                fits(max) && word.bytes().all(plain) && word.trim() == word
            }
            _ => false,
        };
        if fine { Ok(word.to_owned()) } else { Err(self.refused_at(at, value)) }
    }

    fn refusal(&self, at: usize, value: &DeValue<'_>, refusal: Refusal) -> Error {
        match refusal.0 {
            None => self.refused_at(at, value),
            Some(reason) => Error {
                nearest: reason.nearest,
                ..self.source.error(at, reason.found, reason.expected)
            },
        }
    }

    /// Returns a path; a relative one is joined to the file's folder.
    pub(crate) fn path(&self) -> Result<PathBuf, Error> {
        match self.value.as_str() {
            Some(text) if !text.is_empty() && !text.contains('\0') => {
                Ok(self.source.folder.join(Path::new(text)))
            }
            _ => Err(self.refused()),
        }
    }

    /// Returns the value of an option that the dataplane describes.
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
            Kind::Choice { among } => self.choice(among).map(Value::Choice),
            _ => self.count().map(Value::Integer),
        }
    }
}

/// Returns a real number; a whole one is taken, NaN is not.
pub(crate) fn real(value: &DeValue<'_>) -> Option<f64> {
    let text = match value {
        DeValue::Float(number) => number.as_str(),
        DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
        _ => return None,
    };
    text.parse().ok().filter(|x: &f64| !x.is_nan())
}
