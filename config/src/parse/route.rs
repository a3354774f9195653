//! Routes: which requests they are for, and what they change.

use toml::de::DeValue;

use super::edge::Seen;
use super::words::{host, list, token};
use super::{Root, handler, headers, proxy};
use crate::error::Error;
use crate::model::{Handler, HostPattern, Route};
use crate::schema::{
    FILES, FIXED, GENERATE, PROXY, REDIRECT, REQUEST_HEADERS, RESPONSE_HEADERS, ROUTE, Table,
};
use crate::source::{Section, Source};
use crate::value::Item;

const MAX_ROUTES: usize = 10_000;
const MAX_PATH: usize = 1024;
const MAX_HOSTS: usize = 64;
const MAX_METHODS: usize = 32;
const MAX_METHOD: usize = 32;

/// A host or any, a path, a method or any: what at most one route is for.
type Place = (Option<HostPattern>, String, Option<String>);

/// What reads a handler's table.
type Reader = fn(Section<'_>) -> Result<Handler, Error>;

/// A key of a route for each handler, its table, and what reads it.
const HANDLERS: [(&str, &Table, Reader); 5] = [
    ("fixed", &FIXED, handler::reply),
    ("generate", &GENERATE, handler::generator),
    ("files", &FILES, handler::files),
    ("proxy", &PROXY, proxy::proxy),
    ("redirect", &REDIRECT, handler::redirect),
];

pub(super) fn routes(root: &Root<'_>) -> Result<Vec<Route>, Error> {
    let mut seen = Seen::new();
    let mut routes = Vec::new();
    for table in root.many(&ROUTE)? {
        if routes.len() == MAX_ROUTES {
            let found = format!("more than {MAX_ROUTES} routes");
            let expected = format!("up to {MAX_ROUTES} [[route]]");
            return Err(root.source.error(table.at, found, expected));
        }
        let at = table.position("path");
        let route = route(table)?;
        note(root.source, &mut seen, at, &route)?;
        routes.push(route);
    }
    Ok(routes)
}

/// Refuses a route for what another route is for.
fn note(
    source: &Source<'_>,
    seen: &mut Seen<Place>,
    at: usize,
    route: &Route,
) -> Result<(), Error> {
    fn or_any<T: Clone>(list: &[T]) -> Vec<Option<T>> {
        match list {
            [] => vec![None],
            list => list.iter().cloned().map(Some).collect(),
        }
    }
    for host in or_any(&route.hosts) {
        for method in or_any(&route.methods) {
            let found = || {
                let method = method.iter().map(|m| format!("{m} of "));
                let host = host.iter().map(|host| format!(" on host \"{host}\""));
                let path = format!("path \"{}\"", route.path);
                method.chain([path]).chain(host).collect()
            };
            let place = (host.clone(), route.path.clone(), method.clone());
            let expected = "another host, path or method than those of the other routes";
            seen.note(source, at, place, found, expected)?;
        }
    }
    Ok(())
}

fn route(table: Section<'_>) -> Result<Route, Error> {
    let hosts = match table.item("host")? {
        Some(item) => list(&item, 1..=MAX_HOSTS, host_pattern)?,
        None => Vec::new(),
    };
    let methods = match table.item("methods")? {
        Some(item) => list(&item, 1..=MAX_METHODS, method)?,
        None => Vec::new(),
    };
    let route = Route {
        hosts,
        path: path(&table.given("path")?)?,
        methods,
        handler: handler_of(&table)?,
        request_headers: headers::edits(&table, "request_headers", &REQUEST_HEADERS)?,
        response_headers: headers::edits(&table, "response_headers", &RESPONSE_HEADERS)?,
        request_body: table
            .item("request_body")?
            .as_ref()
            .map(Item::size)
            .transpose()?,
        timeout: table
            .item("timeout")?
            .as_ref()
            .map(Item::duration)
            .transpose()?,
    };
    table.finish();
    Ok(route)
}

/// The one handler of a route.
fn handler_of(route: &Section<'_>) -> Result<Handler, Error> {
    let mut given = Vec::new();
    for (key, table, read) in HANDLERS {
        // Asked for so that the reading is complete; the tables themselves are opened with their places.
        route.item(key)?;
        given.extend(route.raw(key).map(|value| (key, table, read, value)));
    }
    given.sort_by_key(|(.., value)| value.span().start);
    let (at, found) = match given[..] {
        [(_, table, read, value)] => return read(Section::open(route.source, table, value)?),
        [] => (route.at, "no handler in [[route]]".to_owned()),
        [(first, ..), (second, _, _, value), ..] => (
            value.span().start,
            format!("both `{first}` and `{second}` in [[route]]"),
        ),
    };
    let names: Vec<&str> = HANDLERS.iter().map(|(key, ..)| *key).collect();
    let expected = format!("exactly one of: {}", names.join(", "));
    Err(route.source.error(at, found, expected))
}

/// A host, or every name below one.
fn host_pattern(word: &str) -> Option<HostPattern> {
    let Some(suffix) = word.strip_prefix("*.") else {
        return host(word).map(HostPattern::Exact);
    };
    // Below an address there is nothing.
    let name =
        host(suffix).filter(|h| !h.starts_with('[') && h.parse::<std::net::Ipv4Addr>().is_err());
    name.map(|name| HostPattern::Suffix(format!(".{name}")))
}

fn method(word: &str) -> Option<String> {
    let upper = !word.bytes().any(|b| b.is_ascii_lowercase());
    (upper && token(word, MAX_METHOD)).then(|| word.to_owned())
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
