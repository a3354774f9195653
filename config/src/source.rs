//! A file being read: where things stand in it, and how its tables are opened.

use std::borrow::Cow;
use std::cell::RefCell;
use std::path::Path;

use sluicegate_cc::Registry;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{Error, Position, nearest};
use crate::schema::{Given, Key, Table};
use crate::value::{Item, kind_of};

/// What is the same for every value of a file.
pub(crate) struct Source<'a> {
    /// For errors.
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
    /// Where relative paths start.
    pub(crate) folder: &'a Path,
    pub(crate) registry: &'a Registry,
}

impl Source<'_> {
    /// An error at byte `offset`.
    pub(crate) fn error(
        &self,
        offset: usize,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Error {
        Error {
            file: self.file.to_owned(),
            position: Some(Position::of(self.text, offset)),
            found: found.into(),
            expected: expected.into(),
            nearest: None,
        }
    }

    /// An error about a word that is none of `known`.
    pub(crate) fn unknown(
        &self,
        offset: usize,
        found: String,
        word: &str,
        known: &[&str],
    ) -> Error {
        let mut error = self.error(offset, found, format!("one of: {}", known.join(", ")));
        error.nearest = nearest(word, known.iter().copied());
        error
    }

    /// An error at the first key of `entries` that is not `known`.
    pub(crate) fn refuse_unknown(
        &self,
        entries: &DeTable<'_>,
        place: &str,
        known: &[&str],
    ) -> Result<(), Error> {
        let strangers = entries
            .keys()
            .filter(|k| !known.contains(&k.get_ref().as_ref()));
        match strangers.min_by_key(|k| k.span().start) {
            None => Ok(()),
            Some(key) => {
                let word = key.get_ref();
                let found = format!("unknown key `{}` {place}", shown(word));
                Err(self.unknown(key.span().start, found, word, known))
            }
        }
    }
}

/// A word from a file, fit for one line of an error.
pub(crate) fn shown(word: &str) -> String {
    const LONGEST: usize = 60;
    let mut out: String = word
        .chars()
        .take(LONGEST)
        .flat_map(char::escape_debug)
        .collect();
    if word.chars().nth(LONGEST).is_some() {
        out.push('…');
    }
    out
}

/// A table of a file, or one that is not there and so holds defaults.
pub(crate) struct Section<'a> {
    pub(crate) source: &'a Source<'a>,
    pub(crate) table: &'static Table,
    entries: Option<&'a DeTable<'a>>,
    /// Byte offset of the header.
    pub(crate) at: usize,
    /// The keys asked for so far.
    asked: RefCell<Vec<&'static str>>,
}

impl<'a> Section<'a> {
    /// Opens the table `value`; every key in it is one of `table`.
    pub(crate) fn open(
        source: &'a Source<'a>,
        table: &'static Table,
        value: &'a Spanned<DeValue<'a>>,
    ) -> Result<Self, Error> {
        let at = value.span().start;
        let DeValue::Table(entries) = value.get_ref() else {
            let found = format!("{} for `{}`", kind_of(value.get_ref()), table.name);
            return Err(source.error(at, found, format!("a table {}", table.header())));
        };
        let known: Vec<&str> = table.keys().map(|k| k.name).collect();
        source.refuse_unknown(entries, &format!("in {}", table.header()), &known)?;
        Ok(Self {
            entries: Some(entries),
            ..Self::absent(source, table, at)
        })
    }

    /// Opens every table of the array `value`.
    pub(crate) fn open_many(
        source: &'a Source<'a>,
        table: &'static Table,
        value: &'a Spanned<DeValue<'a>>,
    ) -> Result<Vec<Self>, Error> {
        let DeValue::Array(entries) = value.get_ref() else {
            let found = format!("{} for `{}`", kind_of(value.get_ref()), table.name);
            return Err(source.error(value.span().start, found, table.header()));
        };
        entries
            .iter()
            .map(|entry| Self::open(source, table, entry))
            .collect()
    }

    /// A table with every key at its default.
    pub(crate) fn absent(source: &'a Source<'a>, table: &'static Table, at: usize) -> Self {
        Self {
            source,
            table,
            entries: None,
            at,
            asked: RefCell::default(),
        }
    }

    /// The value of a key as it stands in the file.
    pub(crate) fn raw(&self, name: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.entries.and_then(|entries| entries.get(name))
    }

    /// The value of a key, or its default; `None` where it is unset or the default is the dataplane's.
    ///
    /// # Panics
    /// If the schema does not list `name`, or lists a default that is not TOML: reading any file shows it.
    pub(crate) fn item(&self, name: &'static str) -> Result<Option<Item<'a>>, Error> {
        let key = self
            .table
            .keys()
            .find(|k| k.name == name)
            .expect("the schema lists the key");
        self.asked.borrow_mut().push(name);
        if let Some(value) = self.raw(name) {
            let (at, value) = (value.span().start, Cow::Borrowed(value.get_ref()));
            return Ok(Some(Item {
                source: self.source,
                key,
                value,
                at,
            }));
        }
        match key.given {
            Given::Unset(_) | Given::Option(_) => Ok(None),
            Given::Required(_) => Err(self.missing(&key)),
            Given::Default(text) => {
                let value = DeValue::parse(text)
                    .expect("the schema's default is TOML")
                    .into_inner();
                Ok(Some(Item {
                    source: self.source,
                    key,
                    value: Cow::Owned(value),
                    at: self.at,
                }))
            }
        }
    }

    /// The value of a key that is required or has a default.
    pub(crate) fn given(&self, name: &'static str) -> Result<Item<'a>, Error> {
        self.item(name)
            .map(|item| item.expect("the schema does not leave the key unset"))
    }

    /// Where a key's value stands, or the header if it is not given.
    pub(crate) fn position(&self, name: &str) -> usize {
        self.raw(name).map_or(self.at, |value| value.span().start)
    }

    /// Ends the reading of this table.
    pub(crate) fn finish(self) {
        debug_assert!(
            self.table
                .keys()
                .all(|k| self.asked.borrow().contains(&k.name)),
            "a key of {} is described but not read",
            self.table.header()
        );
    }

    fn missing(&self, key: &Key) -> Error {
        let found = format!("{} has no `{}`", self.table.header(), key.name);
        self.source.error(self.at, found, key.kind.expectation())
    }
}
