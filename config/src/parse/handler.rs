//! The handlers that answer by themselves, and redirects.

use toml::de::DeValue;

use super::words::list;
use crate::error::Error;
use crate::model::{Body, Files, Handler, Redirect, Symlinks};
use crate::source::Section;
use crate::value::Item;

const MAX_INDEX: usize = 16;
const MAX_FILE_NAME: usize = 255;
const MAX_LOCATION: usize = 2048;

const PLACEHOLDERS: [&str; 4] = ["{host}", "{path}", "{query}", "{rest}"];

pub(super) fn reply(table: Section<'_>) -> Result<Handler, Error> {
    let status = table.given("status")?;
    let status = u16::try_from(status.count()?).map_err(|_| status.refused())?;
    let content_type = table.given("content_type")?.text()?;
    let text = table.given("body")?.text()?;
    let body = match table.item("body_file")? {
        None => Body::Text(text),
        Some(file) if table.raw("body").is_some() => {
            let found = "both `body` and `body_file` in [route.fixed]";
            return Err(table
                .source
                .error(file.at, found, "at most one of: body, body_file"));
        }
        Some(file) => Body::File(file.path()?),
    };
    if matches!(status, 204 | 205 | 304) && body != Body::Text(String::new()) {
        let given = if table.raw("body").is_some() {
            "body"
        } else {
            "body_file"
        };
        let found = format!("`{given}` with status {status}");
        let at = table.position(given);
        return Err(table
            .source
            .error(at, found, "no body for 204, 205 and 304"));
    }
    table.finish();
    Ok(Handler::Fixed {
        status,
        content_type,
        body,
    })
}

pub(super) fn generator(table: Section<'_>) -> Result<Handler, Error> {
    let handler = Handler::Generate {
        max_size: table.given("max_size")?.size()?,
    };
    table.finish();
    Ok(handler)
}

pub(super) fn files(table: Section<'_>) -> Result<Handler, Error> {
    let symlinks = [Symlinks::Never, Symlinks::Inside, Symlinks::Follow];
    let files = Files {
        root: table.given("root")?.path()?,
        index: list(&table.given("index")?, 0..=MAX_INDEX, file_name)?,
        precompressed: table.given("precompressed")?.switch()?,
        symlinks: table.given("symlinks")?.choice(&symlinks)?,
    };
    table.finish();
    Ok(Handler::Files(files))
}

/// The name of a file in a folder.
fn file_name(word: &str) -> Option<String> {
    let place = word == "." || word == "..";
    let fits = (1..=MAX_FILE_NAME).contains(&word.len()) && !word.contains(['/', '\0']);
    (fits && !place).then(|| word.to_owned())
}

pub(super) fn redirect(table: Section<'_>) -> Result<Handler, Error> {
    let redirect = Redirect {
        status: table.given("status")?.number()?,
        location: location(&table.given("location")?)?,
    };
    table.finish();
    Ok(Handler::Redirect(redirect))
}

fn location(item: &Item<'_>) -> Result<String, Error> {
    let DeValue::String(text) = &*item.value else {
        return Err(item.refused());
    };
    // Placeholders aside, the characters of a URI reference (RFC 3986 §2).
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(&b);
    let mut rest = &**text;
    while let Some(open) = rest.find('{') {
        let (before, from) = rest.split_at(open);
        let placeholder = from.split_inclusive('}').next().unwrap_or(from);
        if !PLACEHOLDERS.contains(&placeholder) {
            let found = format!(
                "placeholder `{}` in `location`",
                crate::source::shown(placeholder)
            );
            return Err(item
                .source
                .unknown(item.at, found, placeholder, &PLACEHOLDERS));
        }
        if !before.bytes().all(plain) {
            return Err(item.refused());
        }
        rest = &from[placeholder.len()..];
    }
    if rest.bytes().all(plain) && (1..=MAX_LOCATION).contains(&text.len()) {
        Ok(text.to_string())
    } else {
        Err(item.refused())
    }
}
