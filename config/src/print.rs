//! Tables and values as text of a file.

use std::path::Path;

use crate::schema::{Given, Kind, Table};

/// Appends one table; `values` holds one for each of its keys, `None` for a key that is unset or holds a table.
pub(crate) fn table(out: &mut String, table: &Table, values: &[Option<String>]) {
    if !out.is_empty() {
        out.push('\n');
    }
    *out += &format!("{}\n", table.header());
    for (key, value) in table.keys().zip(values) {
        let name = key.name;
        match (value, key.given, key.kind) {
            (Some(value), ..) => *out += &format!("{name} = {value}\n"),
            (
                None,
                Given::Unset(_),
                Kind::Table(_)
                | Kind::TableOr { .. }
                | Kind::WordOrTable { .. }
                | Kind::Tables { .. }
                | Kind::TableOrTables { .. },
            ) => {}
            (None, Given::Unset(words), _) => *out += &format!("# {name} is unset: {words}\n"),
            (None, ..) => {}
        }
    }
}

/// Returns text as a TOML string.
pub(crate) fn text(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// Returns a path as a TOML string.
pub(crate) fn path(path: &Path) -> String {
    text(&path.to_string_lossy())
}

/// Returns a list of texts as a TOML array.
pub(crate) fn texts<T: ToString>(list: impl IntoIterator<Item = T>) -> String {
    let list: Vec<String> = list.into_iter().map(|one| text(&one.to_string())).collect();
    format!("[{}]", list.join(", "))
}
