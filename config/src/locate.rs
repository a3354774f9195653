//! Finds where a value stands in a file, for mistakes that only the server can find.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::Position;
use crate::load::read_again;

/// Step on the way from the top level of a file to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Key of a table.
    Key(&'static str),
    /// Place in a list of tables, counted from 0; a table that stands in place of a list is its first one.
    Index(usize),
}

/// Returns where the value at the end of `steps` stands in the file `path`, or else the last value on the way to it. Returns
/// `None` if the file cannot be read any more, or has nothing of it.
pub fn locate(path: &Path, steps: &[Step]) -> Option<Position> {
    let text = String::from_utf8(read_again(path).ok()?).ok()?;
    let document = DeTable::parse(&text).ok()?;
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
    Some(Position::of(&text, value.span().start))
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
        let at = |steps: &[Step]| locate(&file, steps).map(|at| (at.line, at.column));
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
