//! Routes and their handlers.

use toml::de::DeValue;

use super::Root;
use super::edge::Seen;
use crate::error::Error;
use crate::model::{Body, Handler, Route};
use crate::schema::{FIXED, GENERATE, ROUTE};
use crate::source::Section;
use crate::value::Item;

const MAX_PATH: usize = 1024;

pub(super) fn routes(root: &Root<'_>) -> Result<Vec<Route>, Error> {
    let mut paths = Seen::new();
    let mut routes = Vec::new();
    for table in root.many(&ROUTE)? {
        let at = table.position("path");
        let route = route(table)?;
        let found = || format!("path \"{}\"", route.path);
        paths.note(
            root.source,
            at,
            route.path.clone(),
            found,
            "a path of its own",
        )?;
        routes.push(route);
    }
    Ok(routes)
}

fn route(table: Section<'_>) -> Result<Route, Error> {
    let path = path(&table.given("path")?)?;
    // Asked for so that the reading is complete; the tables themselves are opened with their places.
    let (fixed, generate) = (table.item("fixed")?, table.item("generate")?);
    let handler = match (&fixed, &generate) {
        (Some(_), None) => table
            .raw("fixed")
            .map(|v| Section::open(table.source, &FIXED, v)),
        (None, Some(_)) => table
            .raw("generate")
            .map(|v| Section::open(table.source, &GENERATE, v)),
        _ => None,
    };
    let Some(section) = handler.transpose()? else {
        let (at, found) = match fixed.is_some() {
            true => (
                table.position("generate"),
                "both `fixed` and `generate` in [[route]]",
            ),
            false => (table.at, "neither `fixed` nor `generate` in [[route]]"),
        };
        return Err(table
            .source
            .error(at, found, "exactly one of: fixed, generate"));
    };
    let handler = if fixed.is_some() {
        reply(section)?
    } else {
        generator(section)?
    };
    table.finish();
    Ok(Route { path, handler })
}

fn path(item: &Item<'_>) -> Result<String, Error> {
    match &*item.value {
        DeValue::String(path)
            if path.starts_with('/')
                && path.len() <= MAX_PATH
                && path
                    .bytes()
                    .all(|b| b.is_ascii_graphic() && b != b'?' && b != b'#') =>
        {
            Ok(path.to_string())
        }
        _ => Err(item.refused()),
    }
}

fn reply(table: Section<'_>) -> Result<Handler, Error> {
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

fn generator(table: Section<'_>) -> Result<Handler, Error> {
    let handler = Handler::Generate {
        max_size: table.given("max_size")?.size()?,
    };
    table.finish();
    Ok(handler)
}
