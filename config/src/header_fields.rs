//! Header fields that a route removes, sets or adds, and tables of media types and of parameters, which have the same form.

use toml::de::DeValue;

use crate::error::Error;
use crate::print::{text, texts};
use crate::schema::{Kind, MAX_FIELDS};
use crate::source::shown;
use crate::template;
use crate::value::{Item, entries, kind_of};
use crate::words::token;

const MAX_NAME: usize = 128;
const MAX_VALUE: usize = 4096;

/// Fields about the connection and the framing (RFC 9110 §7.6.1), and the one that the routing has read.
pub(crate) const OWN: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
    "te",
    "content-length",
    "host",
];

/// Tables of changes to requests, where `host` has a key of its own.
const REQUEST_TABLES: [&str; 2] = ["route.request_headers", "site.request_headers"];

/// Returns the names of fields in `item`, in lower case, each once.
pub(crate) fn read_names(item: &Item<'_>) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for (at, word) in entries(&item.value, item.at, 0..=MAX_FIELDS) {
        let name = word.as_str().ok_or_else(|| item.refused_at(at, word))?;
        let name = field_name(item, at, name)?;
        if names.contains(&name) {
            return Err(twice(item, at, &name));
        }
        names.push(name);
    }
    Ok(names)
}

/// Returns fields, or media types, in the order of their names; a list of values becomes as many fields.
pub(crate) fn read(item: &Item<'_>) -> Result<Vec<(String, String)>, Error> {
    let many = matches!(item.key.kind, Kind::Fields { many: true });
    let most = if many { MAX_FIELDS } else { 0 };
    let media_types = matches!(item.key.kind, Kind::MediaTypes);
    let has_placeholders = matches!(item.key.kind, Kind::Fields { .. });
    let named = match &*item.value {
        DeValue::Table(named) if named.len() <= MAX_FIELDS => named,
        _ => return Err(item.refused()),
    };
    let mut named: Vec<_> = named.iter().collect();
    named.sort_by_key(|(name, _)| name.span().start);
    let mut fields: Vec<(String, String)> = Vec::new();
    for (name, value) in named {
        let at = name.span().start;
        let read_name = match item.key.kind {
            Kind::MediaTypes => suffix,
            Kind::Params => param_name,
            _ => field_name,
        };
        let name = read_name(item, at, name.get_ref())?;
        if fields.iter().any(|(other, _)| *other == name) {
            return Err(twice(item, at, &name));
        }
        for (at, value) in entries(value.get_ref(), value.span().start, 1..=most) {
            let valid = |text: &&str| field_value(text) && (!media_types || text.contains('/'));
            let text = value.as_str().filter(valid);
            let text = text.ok_or_else(|| {
                // The value of a field may be a credential.
                let what = match value {
                    DeValue::String(_) if !media_types => "a string".to_owned(),
                    other => kind_of(other),
                };
                let found = format!("{what} for `{name}`");
                let expected = if media_types {
                    "a media type, such as \"text/html\"".to_owned()
                } else {
                    format!(
                        "a string of up to {MAX_VALUE} visible ASCII characters and inner spaces"
                    )
                };
                item.source.error(at, found, expected)
            })?;
            if has_placeholders {
                refuse_unknown(item, at, text)?;
            }
            fields.push((name.clone(), text.to_owned()));
        }
    }
    fields.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(fields)
}

/// Refuses a placeholder that the table's fields do not have.
fn refuse_unknown(item: &Item<'_>, at: usize, text: &str) -> Result<(), Error> {
    let known = if REQUEST_TABLES.contains(&item.table) {
        template::IN_REQUESTS
    } else {
        template::IN_RESPONSES
    };
    match template::unknown_in_field(text, item.key.name, known) {
        None => Ok(()),
        Some(reason) => Err(Error {
            nearest: reason.nearest,
            ..item.source.error(at, reason.found, reason.expected)
        }),
    }
}

/// Returns fields as an inline table; the values of one name stand in a list.
pub(crate) fn print(fields: &[(String, String)]) -> String {
    let rows = fields.chunk_by(|a, b| a.0 == b.0).map(|row| {
        let (name, value) = &row[0];
        let value = match row {
            [_] => text(value),
            row => texts(row.iter().map(|(_, value)| value)),
        };
        format!("{} = {value}", text(name))
    });
    let rows: Vec<String> = rows.collect();
    if rows.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", rows.join(", ")) }
}

fn twice(item: &Item<'_>, at: usize, name: &str) -> Error {
    let what = match item.key.kind {
        Kind::MediaTypes => "suffix",
        Kind::Params => "parameter",
        _ => "field",
    };
    let found = format!("{what} `{name}` twice in `{}`", item.key.name);
    item.source.error(at, found, "each once")
}

/// Returns a name in lower case, if it is that of a field that may be changed.
fn field_name(item: &Item<'_>, at: usize, word: &str) -> Result<String, Error> {
    if !token(word, MAX_NAME) {
        let found = format!("field name \"{}\" in `{}`", shown(word), item.key.name);
        let expected = format!("a token of 1 to {MAX_NAME} letters, digits, `-`, `_` and the like");
        return Err(item.source.error(at, found, expected));
    }
    let name = word.to_ascii_lowercase();
    if OWN.contains(&name.as_str()) {
        let found = format!("field `{name}` in `{}`", item.key.name);
        let expected = if name == "host" && REQUEST_TABLES.contains(&item.table) {
            "the key `host` of [route.proxy] for what an upstream gets".to_owned()
        } else {
            format!("a field that is not the server's own: {}", OWN.join(", "))
        };
        return Err(item.source.error(at, found, expected));
    }
    Ok(name)
}

/// Returns the name of a parameter, as in the environment of a program.
fn param_name(item: &Item<'_>, at: usize, word: &str) -> Result<String, Error> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let starts = word.starts_with(|c: char| !c.is_ascii_digit());
    if starts && word.len() <= MAX_NAME && word.bytes().all(plain) {
        return Ok(word.to_owned());
    }
    let found = format!("parameter \"{}\" in `{}`", shown(word), item.key.name);
    let expected = format!("1 to {MAX_NAME} letters, digits and `_`, as in APP_ENV");
    Err(item.source.error(at, found, expected))
}

/// Returns the suffix of a file name in lower case.
fn suffix(item: &Item<'_>, at: usize, word: &str) -> Result<String, Error> {
    if token(word, MAX_NAME) && !word.contains('.') {
        return Ok(word.to_ascii_lowercase());
    }
    let found = format!("suffix \"{}\" in `{}`", shown(word), item.key.name);
    let expected = format!("1 to {MAX_NAME} letters, digits, `-`, `_` and the like, without a dot");
    Err(item.source.error(at, found, expected))
}

fn field_value(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_graphic() || b == b' ';
    text.len() <= MAX_VALUE && text.bytes().all(plain) && text.trim() == text
}
