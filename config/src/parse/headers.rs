//! Changes to headers.

use toml::de::DeValue;

use super::words::{token, words};
use crate::error::Error;
use crate::model::HeaderEdits;
use crate::schema::{REQUEST_HEADERS, Table};
use crate::source::{Section, shown};
use crate::value::{Item, kind_of};

const MAX_FIELDS: usize = 64;
const MAX_NAME: usize = 128;
const MAX_VALUE: usize = 4096;

/// Fields about the connection and the framing (RFC 9110 §7.6.1), and the one that the routing has read.
const OWN: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
    "te",
    "content-length",
    "host",
];

/// Reads the table `table` of a route, or no changes.
pub(super) fn edits(
    route: &Section<'_>,
    key: &'static str,
    table: &'static Table,
) -> Result<HeaderEdits, Error> {
    // Asked for so that the reading is complete; the table itself is opened with its place.
    route.item(key)?;
    let Some(value) = route.raw(key) else {
        return Ok(HeaderEdits::default());
    };
    let table = Section::open(route.source, table, value)?;
    let edits = HeaderEdits {
        remove: removed(&table)?,
        set: fields(&table, "set")?,
        add: fields(&table, "add")?,
    };
    table.finish();
    Ok(edits)
}

fn removed(table: &Section<'_>) -> Result<Vec<String>, Error> {
    let item = table.given("remove")?;
    let mut names = Vec::new();
    for (at, word) in words(&item.value, item.at, 0..=MAX_FIELDS) {
        let name = word.as_str().ok_or_else(|| {
            let found = format!("{} for `remove`", kind_of(word));
            item.source.error(at, found, item.key.kind.expectation())
        })?;
        let name = field_name(table, &item, at, name)?;
        if names.contains(&name) {
            return Err(twice(&item, at, &name));
        }
        names.push(name);
    }
    Ok(names)
}

/// The fields of `set` or `add`, by name; a list of values becomes as many fields.
fn fields(table: &Section<'_>, key: &'static str) -> Result<Vec<(String, String)>, Error> {
    let item = table.given(key)?;
    let most = if key == "add" { MAX_FIELDS } else { 0 };
    let entries = match &*item.value {
        DeValue::Table(entries) if entries.len() <= MAX_FIELDS => entries,
        _ => return Err(item.refused()),
    };
    let mut entries: Vec<_> = entries.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    let mut fields: Vec<(String, String)> = Vec::new();
    for (name, value) in entries {
        let at = name.span().start;
        let name = field_name(table, &item, at, name.get_ref())?;
        if fields.iter().any(|(other, _)| *other == name) {
            return Err(twice(&item, at, &name));
        }
        for (at, value) in words(value.get_ref(), value.span().start, 1..=most) {
            let text = value.as_str().filter(|text| field_value(text));
            let text = text.ok_or_else(|| {
                let found = format!("{} for `{name}`", kind_of(value));
                let expected = format!(
                    "a string of up to {MAX_VALUE} visible ASCII characters and inner spaces"
                );
                item.source.error(at, found, expected)
            })?;
            fields.push((name.clone(), text.to_owned()));
        }
    }
    fields.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(fields)
}

fn twice(item: &Item<'_>, at: usize, name: &str) -> Error {
    let found = format!("field `{name}` twice in `{}`", item.key.name);
    item.source.error(at, found, "each once")
}

/// A name in lower case, if it is that of a field that may be changed.
fn field_name(
    table: &Section<'_>,
    item: &Item<'_>,
    at: usize,
    word: &str,
) -> Result<String, Error> {
    if !token(word, MAX_NAME) {
        let found = format!("field name \"{}\" in `{}`", shown(word), item.key.name);
        let expected = format!("a token of 1 to {MAX_NAME} letters, digits, `-`, `_` and the like");
        return Err(item.source.error(at, found, expected));
    }
    let name = word.to_ascii_lowercase();
    if OWN.contains(&name.as_str()) {
        let found = format!("field `{name}` in `{}`", item.key.name);
        let expected = if name == "host" && table.table.name == REQUEST_HEADERS.name {
            "the key `host` of [route.proxy] for what an upstream gets".to_owned()
        } else {
            format!("a field that is not the server's own: {}", OWN.join(", "))
        };
        return Err(item.source.error(at, found, expected));
    }
    Ok(name)
}

fn field_value(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_graphic() || b == b' ';
    text.len() <= MAX_VALUE && text.bytes().all(plain) && text.trim() == text
}
