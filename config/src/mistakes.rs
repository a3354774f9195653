//! Unknown and missing keys in all tables of a file, which can be found whatever the values of other keys are.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::Error;
use crate::schema::{Given, Key, Table};
use crate::source::{Source, strangers};

/// Mistakes that are reported beside the one for which a file is refused.
const REPORTED: usize = 19;

/// A key that is unknown or missing.
struct Mistake<'a> {
    /// Byte offset at which it is reported.
    at: usize,
    table: Table,
    key: Wrong<'a>,
}

enum Wrong<'a> {
    /// The word is no key of the table of these entries.
    Unknown(&'a str, &'a DeTable<'a>),
    /// The table needs this key.
    Missing(Key),
}

/// Returns errors for the first unknown and missing keys in the table of `entries` and those in it. The header of the table is at
/// byte `at`.
pub(crate) fn of_keys(
    source: &Source<'_>,
    table: &Table,
    at: usize,
    entries: &DeTable<'_>,
) -> Vec<Error> {
    let mut mistakes = Vec::new();
    collect(table, at, entries, &mut mistakes);
    mistakes.sort_by_key(|mistake| mistake.at);
    mistakes.truncate(REPORTED);
    let errors = mistakes.into_iter().map(|mistake| match mistake.key {
        Wrong::Unknown(word, entries) => {
            source.unknown_of(&mistake.table, mistake.at, word, entries)
        }
        Wrong::Missing(key) => source.missing(&mistake.table, mistake.at, &key),
    });
    errors.collect()
}

fn collect<'a>(table: &Table, at: usize, entries: &'a DeTable<'a>, to: &mut Vec<Mistake<'a>>) {
    let keys: Vec<Key> = table.keys().collect();
    let known: Vec<&str> = keys.iter().map(|key| key.name).collect();
    let table = *table;
    to.extend(strangers(entries, &known).into_iter().map(|(at, word)| {
        let key = Wrong::Unknown(word, entries);
        Mistake { at, table, key }
    }));
    for key in keys {
        match (entries.get(key.name), key.given, key.kind.table()) {
            (None, Given::Required(_), _) => {
                let key = Wrong::Missing(key);
                to.push(Mistake { at, table, key });
            }
            (Some(value), _, Some(inner)) => collect_in(inner, value, to),
            _ => {}
        }
    }
}

/// Collects the mistakes in a table, or in each of a list.
fn collect_in<'a>(table: &Table, value: &'a Spanned<DeValue<'a>>, to: &mut Vec<Mistake<'a>>) {
    match value.get_ref() {
        DeValue::Table(entries) => collect(table, value.span().start, entries, to),
        DeValue::Array(list) => {
            let many = Table { many: true, ..*table };
            for value in list {
                collect_in(&many, value, to);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use sluicegate_cc::Registry;

    use super::*;
    use crate::field::Record as _;
    use crate::tables::Config;

    #[test]
    fn all_unknown_and_missing_keys_are_named_at_once() {
        let text = "[[group]]\ncores = [0]\n\n[[listener]]\nadress = \"127.0.0.1:443\"\ntls = \"self-signed\"\n\n\
                    [[route]]\npath = \"/\"\nproxy = { upstreams = \"127.0.0.1:80\", retrys = 1 }\n";
        let error = Config::from_toml("file", text, &Registry::builtin()).unwrap_err();
        let all: Vec<_> = error.each().map(ToString::to_string).collect();
        let starts = [
            "file:1:1: [[group]] has no `name`; expected ",
            "file:4:1: [[listener]] has no `name`; expected ",
            "file:4:1: [[listener]] has no `address`; expected ",
            "file:5:1: unknown key `adress` in [[listener]]; expected one of: ",
            "file:10:39: unknown key `retrys` in [route.proxy]; expected one of: ",
        ];
        assert_eq!(all.len(), starts.len(), "{all:#?}");
        let lines = error.each().skip(1).map(|one| one.position.unwrap().line);
        assert!(lines.is_sorted());
        for start in starts {
            assert_eq!(
                all.iter().filter(|one| one.starts_with(start)).count(),
                1,
                "{start}: {all:#?}"
            );
        }
    }

    #[test]
    fn error_of_a_value_comes_with_the_keys_that_are_wrong() {
        let text = "[[listener]]\nname = \"a\"\naddress = \"nowhere\"\ntls = \"self-signed\"\n[limit]\n[[route]]\nfixed = {}\n";
        let error = Config::from_toml("file", text, &Registry::builtin()).unwrap_err();
        let lines: Vec<_> = error.each().map(|one| one.position.unwrap().line).collect();
        assert!(lines.contains(&5) && lines.contains(&6), "{error:?}");
    }

    #[test]
    fn mistakes_reported_at_once_are_few() {
        let text = format!("{}[[route]]\n", "[[group]]\n".repeat(1000));
        let error = Config::from_toml("file", &text, &Registry::builtin()).unwrap_err();
        assert_eq!(error.each().count(), 20);
    }

    #[test]
    fn valid_files_have_no_mistakes() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut files = vec![root.join("example.toml"), root.join("src/tests/unusual.toml")];
        let examples = root.join("../deploy/examples");
        for entry in std::fs::read_dir(&examples).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                files.push(path);
            }
        }
        assert!(files.len() >= 7, "{files:?}");
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            let document = DeTable::parse(&text).unwrap();
            let source = Source {
                file: "file",
                text: &text,
                included: &[],
                folder: Path::new(""),
                registry: &Registry::builtin(),
                top: Config::TABLE,
            };
            let mistakes = of_keys(&source, Config::TABLE, 0, document.get_ref());
            assert_eq!(mistakes, [], "{}", file.display());
        }
    }
}
