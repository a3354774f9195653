//! Parsing of a file: the text of TOML first, then its tables by their declarations.

use std::path::Path;

use sluicegate_cc::Registry;
use toml::de::DeTable;

use crate::environment::{self, Environment};
use crate::error::Error;
use crate::field::Record;
use crate::mistakes;
use crate::section::Section;
use crate::source::{Source, Text};

/// Reads `text` as a file whose top level is `R`; relative paths start at `folder`.
pub(crate) fn parse<R: Record>(
    text: &Text,
    folder: &Path,
    registry: &Registry,
    environment: Environment<'_>,
) -> Result<R, Error> {
    let Text { file, text, included } = text;
    let source = Source { file, text, included, folder, registry, top: R::TABLE };
    let mut document = DeTable::parse(text).map_err(|error| syntax(&source, &error))?;
    environment::fill(document.get_mut(), &source, environment)?;
    let entries = document.get_ref();
    let top = Section::of_entries(&source, *R::TABLE, 0, entries);
    let read = top.and_then(|top| R::read(&top));
    read.map_err(|error| error.beside(mistakes::of_keys(&source, R::TABLE, 0, entries)))
}

/// Returns what the TOML parser reports, in one line.
pub(crate) fn syntax(source: &Source<'_>, error: &toml::de::Error) -> Error {
    let at = error.span().map_or(0, |span| span.start);
    let message: Vec<&str> = error.message().lines().map(str::trim).collect();
    let message = message.join(", ");
    let (found, expected) = match message.split_once(", expected ") {
        Some((found, expected)) => (found, expected),
        None if message == "duplicate key" => {
            (message.as_str(), "each key once, and a [[table]] above the tables inside it")
        }
        None => (message.as_str(), "TOML"),
    };
    source.error(at, found, expected)
}
