//! Names that mean one thing.

use std::collections::BTreeMap;
use std::path::Path;

use sluicegate_tidy::crates::libraries;
use sluicegate_tidy::repository::{none, read};

/// Crates of others, under their names.
const FOREIGN: &[&str] = &["server/http-types", "server/http-types/published"];

/// Returns the types that a file declares for other files: `pub` or `pub(crate)`, by macros too. What is behind the tests in the file is
/// left out.
fn declared(text: &str) -> Vec<&str> {
    let lines = text.lines().take_while(|line| *line != "mod tests {");
    lines
        .filter_map(|line| {
            let line = line.trim_start();
            let line = line.strip_prefix("pub(crate) ").or_else(|| line.strip_prefix("pub "))?;
            let (kind, rest) = line.split_once(' ')?;
            let is_type = matches!(kind, "struct" | "enum" | "trait" | "union" | "type");
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            is_type.then_some(&rest[..end])
        })
        .collect()
}

#[test]
fn public_types_of_the_server_have_names_of_their_own() {
    let text = "pub struct One;\n    pub(crate) enum Two<T> {\npub(super) struct Three;\nstruct Four;\npub fn five();\nmod tests {\npub struct Six;\n";
    assert_eq!(declared(text), ["One", "Two"]);
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for library in libraries() {
        let folder = &library.folder;
        if !folder.starts_with("server") || FOREIGN.iter().any(|one| folder == Path::new(one)) {
            continue;
        }
        let mut files: Vec<_> = library.tree.modules.iter().map(|module| &module.file).collect();
        files.sort();
        files.dedup();
        for file in files {
            for name in declared(&read(file)) {
                places.entry(name.to_owned()).or_default().push(file.display().to_string());
            }
        }
    }
    assert!(places.len() > 300, "{} types", places.len());
    let twice = places.iter().filter(|(_, files)| files.len() > 1);
    let defects: Vec<String> = twice
        .map(|(name, files)| format!("{}: give each `{name}` a noun of its own", files.join(", ")))
        .collect();
    none(&defects);
}
