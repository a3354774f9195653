//! The text of a configuration, with that of the files that it includes.
//!
//! The texts stand one behind the other, so that a byte offset names a place in any of them. Each file is read as TOML on its own
//! first, and begins with the header of a table; so none continues a table or a string of the one before it.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};
use sluicegate_cc::Registry;
use toml::de::{DeTable, DeValue};

use crate::environment::{Environment, filled};
use crate::error::{Error, Position};
use crate::parse::syntax;
use crate::schema::{Kind, Table};
use crate::source::{Included, Source, Text, shown};
use crate::value::entries;

/// Largest text of all files together, bytes.
pub(crate) const MAX_TEXT: u64 = 16 << 20;
/// Most files that are included.
const MAX_INCLUDED: usize = 1000;
/// Key with the patterns.
const KEY: &str = "include";

/// Function that reads a file of at most so many bytes.
pub(crate) type ReadFile = fn(&Path, u64) -> io::Result<Vec<u8>>;

/// Reads a file, and those that it includes. Their patterns start at `folder`. A mistake in the text of the file itself is left to
/// [`parse`](crate::parse::parse).
///
/// # Errors
/// A file cannot be read or included.
pub(crate) fn read(
    path: &Path,
    folder: &Path,
    top: &'static Table,
    read_file: ReadFile,
    environment: Environment<'_>,
) -> Result<Text, Error> {
    let file = path.display().to_string();
    let text = read_text(path, &file, MAX_TEXT, read_file)?;
    let mut all = Text { file, text, included: Vec::new() };
    if !top.keys().any(|key| key.name == KEY) {
        return Ok(all);
    }
    for (at, pattern) in patterns(&all.text) {
        let pattern = match filled(&pattern, environment) {
            Ok(filled) => filled.unwrap_or(pattern),
            Err(missing) => return Err(all.refuse_at(at, missing.found, &missing.expected)),
        };
        for path in matches(folder, &pattern).map_err(|found| all.refuse_at(at, found, PATTERN))? {
            let name = path.display().to_string();
            if path == folder.join(Path::new(&all.file).file_name().unwrap_or_default())
                || all.included.iter().any(|known| known.file == name)
            {
                continue;
            }
            if all.included.len() == MAX_INCLUDED {
                let found = format!("more than {MAX_INCLUDED} files for `{KEY}`");
                return Err(all.refuse_at(at, found, "fewer files"));
            }
            all.add(&path, name, top, read_file)?;
        }
    }
    Ok(all)
}

/// Pattern in words.
const PATTERN: &str =
    "a file, or a pattern of files with *, ? or [a-z], relative to the folder of this file";

impl Text {
    /// Returns an error about byte `at` of the file itself.
    fn refuse_at(&self, at: usize, found: String, expected: &str) -> Error {
        let position = Some(Position::of(&self.text, at));
        Error { position, ..refuse(&self.file, found, expected) }
    }

    fn add(
        &mut self,
        path: &Path,
        file: String,
        top: &'static Table,
        read_file: ReadFile,
    ) -> Result<(), Error> {
        let room = MAX_TEXT.saturating_sub(self.text.len() as u64);
        let text = read_text(path, &file, room, read_file)?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        check(&file, text, top)?;
        self.text.push('\n');
        self.included.push(Included { start: self.text.len(), file });
        self.text.push_str(text);
        Ok(())
    }
}

/// Checks that a file may stand behind any other one.
fn check(file: &str, text: &str, top: &'static Table) -> Result<(), Error> {
    let registry = Registry::builtin();
    let source =
        Source { file, text, included: &[], folder: Path::new(""), registry: &registry, top };
    let document = DeTable::parse(text).map_err(|error| syntax(&source, &error))?;
    let lines = text.lines().map(str::trim_start);
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let code = line.trim_start();
        if !code.is_empty() && !code.starts_with('#') {
            at += line.len() - code.len();
            break;
        }
        at += line.len();
    }
    let mut code = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    if code.next().is_some_and(|first| !first.starts_with('[')) {
        let found = "a key at the beginning of an included file";
        let expected = "the header of a table, such as [[route]]";
        return Err(source.error(at, found, expected));
    }
    for key in top.keys() {
        let value = document.get_ref().get(key.name);
        if let (Kind::Tables { table, .. }, Some(value)) = (key.kind, value)
            && !value.get_ref().is_array()
        {
            let found = format!("a part of {} without its header", table.header());
            let expected = format!("{} above it, in the same file", table.header());
            return Err(source.error(value.span().start, found, expected));
        }
    }
    Ok(())
}

/// Returns the patterns of a file with their places. What is no pattern is left to the parser.
fn patterns(text: &str) -> Vec<(usize, String)> {
    let Ok(document) = DeTable::parse(text) else {
        return Vec::new();
    };
    let Some(value) = document.get_ref().get(KEY) else {
        return Vec::new();
    };
    let all = entries(value.get_ref(), value.span().start, 0..=usize::MAX);
    let words = all.into_iter().filter_map(|(at, value)| match value {
        DeValue::String(word) => Some((at, word.to_string())),
        _ => None,
    });
    words.collect()
}

/// Returns the files of a pattern in the order of their names. Hidden files match only a pattern that has their dot. A name without
/// wildcards stands for itself, whether there is such a file or not.
fn matches(folder: &Path, pattern: &str) -> Result<Vec<PathBuf>, String> {
    if pattern.is_empty() || pattern.contains("**") {
        return Err(format!("\"{}\" for `{KEY}`", shown(pattern)));
    }
    if !pattern.contains(['*', '?', '[']) {
        return Ok(vec![folder.join(pattern)]);
    }
    let whole = match folder.to_str() {
        _ if pattern.starts_with('/') => pattern.to_owned(),
        None => return Err(format!("`{KEY}` beside a folder whose name is not UTF-8")),
        Some("") => pattern.to_owned(),
        Some(folder) => format!("{}/{pattern}", Pattern::escape(folder)),
    };
    let options = MatchOptions {
        case_sensitive: true,
        require_literal_separator: true,
        require_literal_leading_dot: true,
    };
    let found = glob::glob_with(&whole, options)
        .map_err(|error| format!("\"{}\" for `{KEY}`: {}", shown(pattern), error.msg))?;
    let files = found.take(MAX_INCLUDED + 2);
    files.collect::<Result<_, _>>().map_err(|error| format!("`{KEY}`: {error}"))
}

fn read_text(path: &Path, file: &str, most: u64, read_file: ReadFile) -> Result<String, Error> {
    let bytes = read_file(path, most)
        .map_err(|error| refuse(file, format!("cannot be read: {error}"), TOML))?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(&error.as_bytes()[..valid]);
        let byte = error.as_bytes().get(valid).copied().unwrap_or_default();
        let position = Some(Position::of(&text, valid));
        Error { position, ..refuse(file, format!("byte 0x{byte:02x} is not UTF-8"), TOML) }
    })
}

const TOML: &str = "a configuration in TOML";

fn refuse(file: &str, found: impl Display, expected: &str) -> Error {
    Error {
        file: file.into(),
        position: None,
        found: found.to_string(),
        expected: expected.to_owned(),
        nearest: None,
        others: None,
    }
}
