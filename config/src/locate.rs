//! Finds where a value stands in a file, for mistakes that only the server can find.

use std::fmt;
use std::path::{Path, absolute};

use sluicegate_cc::Registry;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::environment;
use crate::error::Position;
use crate::field::Record as _;
use crate::included;
use crate::load::read_again;
use crate::source::Source;
use crate::tables::Config;

/// Step on the way from the top level of a file to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Key of a table.
    Key(&'static str),
    /// Place in a list of tables, counted from 0; a table that stands in place of a list is its first one.
    Index(usize),
}

/// Place of a value in a file, or in one that it includes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the file.
    pub file: String,
    /// Place in that file.
    pub position: Position,
}

impl fmt::Display for Place {
    /// Writes the place as errors do: `file:line:column`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.position.line, self.position.column)
    }
}

/// Returns where the value at the end of `steps` stands in the file `path`, or else the last value on the way to it. Returns
/// `None` if the file cannot be read any more, or has nothing of it.
pub fn locate(path: &Path, steps: &[Step]) -> Option<Place> {
    let whole = absolute(path).ok()?;
    let folder = whole.parent()?;
    let text =
        included::read(path, folder, Config::TABLE, read_again, &environment::of_process).ok()?;
    let document = DeTable::parse(&text.text).ok()?;
    let (first, rest) = steps.split_first()?;
    let Step::Key(name) = first else {
        return None;
    };
    let mut value = document.get_ref().get(*name)?;
    for step in rest {
        let Some(next) = follow(value, *step) else {
            break;
        };
        value = next;
    }
    let source = Source {
        file: &text.file,
        text: &text.text,
        included: &text.included,
        folder,
        registry: &Registry::builtin(),
        top: Config::TABLE,
    };
    let (file, position) = source.place(value.span().start);
    Some(Place { file: file.to_owned(), position })
}

fn follow<'a>(value: &'a Spanned<DeValue<'a>>, step: Step) -> Option<&'a Spanned<DeValue<'a>>> {
    match (value.get_ref(), step) {
        (DeValue::Table(table), Step::Key(name)) => table.get(name),
        (DeValue::Table(_), Step::Index(0)) => Some(value),
        (DeValue::Array(list), Step::Index(index)) => list.get(index),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_or_what_there_is_of_its_way_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("edge.toml");
        let text = "[[listener]]\ntls = { key = \"k\" }\n[[route]]\npath = \"/\"\n[[route]]\n  [route.files]\n  root = \"r\"\n";
        std::fs::write(&file, text).unwrap();
        let at =
            |steps: &[Step]| locate(&file, steps).map(|at| (at.position.line, at.position.column));
        use Step::{Index, Key};
        let root = [Key("route"), Index(1), Key("files"), Key("root")];
        assert_eq!(at(&root), Some((7, 10)));
        let key = [Key("listener"), Index(0), Key("tls"), Index(0), Key("key")];
        assert_eq!(at(&key), Some((2, 15)));
        assert_eq!(at(&[Key("route"), Index(0), Key("host")]), Some((3, 1)));
        assert_eq!(at(&[Key("group"), Index(0)]), None);
        assert_eq!(locate(Path::new("nowhere.toml"), &root), None);
    }
}
