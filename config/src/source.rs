//! A file being read: its text, and errors with their places in it.

use std::path::Path;

use sluicegate_cc::Registry;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{Error, Position, nearest};
use crate::schema::{Key, Table};

/// Text of a configuration.
pub(crate) struct Text {
    /// Name of the file, for errors.
    pub(crate) file: String,
    /// Text of the file, followed by the texts of the included files.
    pub(crate) text: String,
    /// Offsets of the included files, in order.
    pub(crate) included: Vec<Included>,
}

/// A file that a configuration includes.
pub(crate) struct Included {
    /// Byte offset of its text.
    pub(crate) start: usize,
    /// Name of the file, for errors.
    pub(crate) file: String,
}

/// The file, its text, and what its values are checked against.
pub(crate) struct Source<'a> {
    /// Name of the file, for errors.
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
    /// Offsets of the included files, in order.
    pub(crate) included: &'a [Included],
    /// Folder where relative paths start.
    pub(crate) folder: &'a Path,
    pub(crate) registry: &'a Registry,
    /// The top level of a file, with all tables in it.
    pub(crate) top: &'static Table,
}

impl Source<'_> {
    /// Returns the file and the place in it of byte `offset`.
    pub(crate) fn place(&self, offset: usize) -> (&str, Position) {
        let count = self.included.partition_point(|file| file.start <= offset);
        let end = self.included.get(count).map_or(self.text.len(), |next| next.start);
        let (file, start) = match count.checked_sub(1).and_then(|last| self.included.get(last)) {
            Some(file) => (file.file.as_str(), file.start),
            None => (self.file, 0),
        };
        let text = self.text.get(start..end).unwrap_or_default();
        (file, Position::of(text, offset - start))
    }

    /// Returns an error at byte `offset`.
    pub(crate) fn error(
        &self,
        offset: usize,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Error {
        let (file, position) = self.place(offset);
        Error {
            file: file.into(),
            position: Some(position),
            found: found.into(),
            expected: expected.into(),
            nearest: None,
            others: None,
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
        let own = own_word(word).filter(|own| known.contains(own));
        let own = own.map(str::to_owned);
        error.nearest = own.or_else(|| nearest(word, known.iter().copied()));
        error
    }

    /// Refuses the first key of `entries` that is not `known`.
    pub(crate) fn refuse_unknown(
        &self,
        entries: &DeTable<'_>,
        place: &str,
        known: &[&str],
    ) -> Result<(), Error> {
        match strangers(entries, known).first() {
            None => Ok(()),
            Some((at, word)) => Err(self.unknown_key(*at, word, place, known)),
        }
    }

    /// Refuses the first key of `entries` that is none of `table`, as [`Source::unknown_of`] describes it.
    pub(crate) fn refuse_unknown_in(
        &self,
        entries: &DeTable<'_>,
        table: &Table,
    ) -> Result<(), Error> {
        let known: Vec<&str> = table.keys().map(|key| key.name).collect();
        match strangers(entries, &known).first() {
            None => Ok(()),
            Some(&(at, word)) => Err(self.unknown_of(table, at, word, entries)),
        }
    }

    /// Returns the error about a key of `entries` that is none of `table`. It names the table that the key belongs to, if that is one
    /// around `table` or inside it, if no key of `table` looks like it, or if it stands at the top level, where all keys are
    /// tables.
    pub(crate) fn unknown_of(
        &self,
        table: &Table,
        at: usize,
        word: &str,
        entries: &DeTable<'_>,
    ) -> Error {
        let known: Vec<&str> = table.keys().map(|key| key.name).collect();
        let known = known.as_slice();
        let place = match table.name {
            "" => "at the top level".to_owned(),
            _ => format!("in {}", table.header()),
        };
        if table.name.is_empty()
            && let Some(header) = table_header(word, entries.get(word).map(Spanned::get_ref))
        {
            let found = format!("unknown table {header}");
            return self.unknown(at, found, word, known);
        }
        let error = self.unknown_key(at, word, &place, known);
        let has_it = |owner: &Table| owner.keys().any(|key| key.name == word);
        let tables = self.top.inner().into_iter().map(|(table, _)| table);
        let mut owners: Vec<Table> = tables.filter(has_it).collect();
        let within = format!("{}.", table.name);
        let has_inner = owners.iter().any(|owner| owner.name.starts_with(&within));
        if has_inner {
            owners.retain(|owner| owner.name.starts_with(&within));
        }
        let is_around = |owner: &&Table| {
            let rest = table.name.strip_prefix(owner.name);
            rest.is_some_and(|rest| rest.starts_with('.'))
        };
        let (owners, remedy) = if let Some(around) = owners.iter().find(is_around) {
            (around.header(), format!("move it above {}", table.header()))
        } else if (error.nearest.is_none() || has_inner || table.name.is_empty())
            && !owners.is_empty()
        {
            let headers: Vec<String> = owners.iter().map(Table::header).collect();
            (headers.join(" or "), "move it there".to_owned())
        } else {
            return error;
        };
        Error {
            found: format!("`{word}` belongs to {owners}; {remedy}"),
            expected: String::new(),
            nearest: None,
            ..error
        }
    }

    /// Returns the error about a key that `table`, whose header is at byte `at`, needs and does not have.
    pub(crate) fn missing(&self, table: &Table, at: usize, key: &Key) -> Error {
        let found = format!("{} has no `{}`", table.header(), key.name);
        self.error(at, found, key.kind.expectation())
    }

    fn unknown_key(&self, at: usize, word: &str, place: &str, known: &[&str]) -> Error {
        let found = format!("unknown key `{}` {place}", shown(word));
        self.unknown(at, found, word, known)
    }
}

/// Returns the keys of `entries` that are not `known`, with their places, in the order of the file.
pub(crate) fn strangers<'a>(entries: &'a DeTable<'_>, known: &[&str]) -> Vec<(usize, &'a str)> {
    let keys = entries.keys().map(|key| (key.span().start, key.get_ref().as_ref()));
    let mut strangers: Vec<_> = keys.filter(|(_, word)| !known.contains(word)).collect();
    strangers.sort_unstable();
    strangers
}

/// Returns the header of a table in a file, `[name]` or `[[name]]`; `None` for any other value.
fn table_header(name: &str, value: Option<&DeValue<'_>>) -> Option<String> {
    let name = shown(name);
    match value? {
        DeValue::Table(_) => Some(format!("[{name}]")),
        DeValue::Array(list) => {
            let first = list.iter().next()?;
            first.get_ref().is_table().then(|| format!("[[{name}]]"))
        }
        _ => None,
    }
}

/// Returns the key or table for which nginx, Caddy or HAProxy has this word, or the one that replaced it.
fn own_word(word: &str) -> Option<&'static str> {
    Some(match word {
        "location" => "route",
        "gzip" | "brotli" | "zstd" | "encode" | "compression" => "compress",
        "listen" | "bind" => "address",
        "server_name" => "host",
        "proxy_pass" | "reverse_proxy" => "proxy",
        "file_server" => "files",
        "return" | "redir" => "redirect",
        "hystart" => "slow_start",
        _ => return None,
    })
}

/// Returns a word from a file, escaped and cut to fit one line of an error.
pub(crate) fn shown(word: &str) -> String {
    const LONGEST: usize = 60;
    let mut out: String = word.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if word.chars().nth(LONGEST).is_some() {
        out.push('…');
    }
    out
}
