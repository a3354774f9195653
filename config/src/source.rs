//! A file being read: its text, and errors with their places in it.

use std::path::Path;

use sluicegate_cc::Registry;
use toml::de::DeTable;

use crate::error::{Error, Position, nearest};

/// The file, its text, and what its values are checked against.
pub(crate) struct Source<'a> {
    /// Name of the file, for errors.
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
    /// Folder where relative paths start.
    pub(crate) folder: &'a Path,
    pub(crate) registry: &'a Registry,
}

impl Source<'_> {
    /// Returns an error at byte `offset`.
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

    /// Returns an error about a word that is none of `known`, with the nearest of them.
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

    /// Refuses the first key of `entries` that is not `known`.
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

/// Returns a word from a file, escaped and cut to fit one line of an error.
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
