//! From the text of a file to a [`Config`].

mod congestion;
mod edge;
mod handler;
mod headers;
mod process;
mod protocol;
mod proxy;
mod route;
mod words;

pub(crate) use congestion::expectation;

use std::path::Path;

use sluicegate_cc::Registry;
use toml::de::DeTable;

use crate::error::{Error, Position};
use crate::model::Config;
use crate::schema::{
    ACCESS_LOG, ADMIN, GROUP, LIMITS, LISTENER, LOG, QLOG, QUIC, ROUTE, SERVER, TABLES, Table,
};
use crate::source::{Section, Source};

/// Reads `text`; relative paths start at `folder`.
pub(crate) fn parse(
    file: &str,
    text: &str,
    folder: &Path,
    registry: &Registry,
) -> Result<Config, Error> {
    let source = Source {
        file,
        text,
        folder,
        registry,
    };
    let document = DeTable::parse(text).map_err(|error| syntax(&source, &error))?;
    let root = Root {
        source: &source,
        entries: document.get_ref(),
    };
    let known: Vec<&str> = TABLES
        .iter()
        .map(|t| t.name)
        .filter(|n| !n.contains('.'))
        .collect();
    source.refuse_unknown(root.entries, "at the top level", &known)?;

    let groups = edge::groups(&root)?;
    Ok(Config {
        server: process::server(root.single(&SERVER)?)?,
        listeners: edge::listeners(&root, &groups)?,
        groups,
        routes: route::routes(&root)?,
        limits: protocol::limits(root.single(&LIMITS)?)?,
        quic: protocol::quic(root.single(&QUIC)?)?,
        qlog: process::qlog(root.single(&QLOG)?)?,
        log: process::log(root.single(&LOG)?)?,
        admin: process::admin(root.single(&ADMIN)?)?,
        access_log: process::access_log(root.single(&ACCESS_LOG)?)?,
    })
}

/// What the TOML parser says, in one line.
fn syntax(source: &Source<'_>, error: &toml::de::Error) -> Error {
    let at = error.span().map_or(0, |span| span.start);
    let message: Vec<&str> = error.message().lines().map(str::trim).collect();
    let message = message.join(", ");
    let (found, expected) = match message.split_once(", expected ") {
        Some((found, expected)) => (found, expected),
        None => (message.as_str(), "TOML"),
    };
    Error {
        position: Some(Position::of(source.text, at)),
        ..source.error(at, found, expected)
    }
}

/// The top level of a file.
struct Root<'a> {
    source: &'a Source<'a>,
    entries: &'a DeTable<'a>,
}

impl<'a> Root<'a> {
    /// The one table of that kind, or its defaults.
    fn single(&self, table: &'static Table) -> Result<Section<'a>, Error> {
        match self.entries.get(table.name) {
            Some(value) => Section::open(self.source, table, value),
            None => Ok(Section::absent(self.source, table, 0)),
        }
    }

    /// All tables of that kind, in the order of the file.
    fn many(&self, table: &'static Table) -> Result<Vec<Section<'a>>, Error> {
        debug_assert!([GROUP.name, LISTENER.name, ROUTE.name].contains(&table.name));
        let Some(value) = self.entries.get(table.name) else {
            return Ok(Vec::new());
        };
        Section::open_many(self.source, table, value)
    }
}
