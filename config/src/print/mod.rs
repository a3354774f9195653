//! The configuration in effect, as a file.

mod edge;
mod process;
mod protocol;
mod route;

pub(crate) use edge::{congestion_control, option};

use std::path::Path;

use crate::model::Config;
use crate::schema::{
    ACCESS_LOG, ADMIN, GROUP, Given, Kind, LIMITS, LOG, QLOG, QUIC, SERVER, Table,
};

/// Keys with their values as TOML; `None` where a key is unset or a table of its own follows.
type Values = Vec<(&'static str, Option<String>)>;

impl Config {
    /// The configuration as a file in which every default is filled in; reading it gives the same configuration.
    ///
    /// Paths stand as they were resolved: absolute after [`Config::load`]. One that is not UTF-8 is printed with
    /// replacement characters.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        table(&mut out, &SERVER, &process::server(&self.server));
        for one in &self.groups {
            table(&mut out, &GROUP, &edge::group(one));
        }
        for one in &self.listeners {
            edge::listener(&mut out, one);
        }
        for one in &self.routes {
            route::route(&mut out, one);
        }
        table(&mut out, &LIMITS, &protocol::limits(&self.limits));
        table(&mut out, &QUIC, &protocol::quic(&self.quic));
        table(&mut out, &QLOG, &process::qlog(&self.qlog));
        table(&mut out, &LOG, &process::log(self.log));
        table(&mut out, &ADMIN, &process::admin(self.admin));
        table(
            &mut out,
            &ACCESS_LOG,
            &process::access_log(&self.access_log),
        );
        out
    }
}

/// Appends one table; `values` holds every key of it.
fn table(out: &mut String, table: &Table, values: &Values) {
    debug_assert!(
        table
            .keys()
            .map(|k| k.name)
            .eq(values.iter().map(|(name, _)| *name)),
        "the printed keys of {} are not those described",
        table.header()
    );
    if !out.is_empty() {
        out.push('\n');
    }
    *out += &format!("{}\n", table.header());
    for (key, (name, value)) in table.keys().zip(values) {
        match (value, key.given, key.kind) {
            (Some(value), ..) => *out += &format!("{name} = {value}\n"),
            (None, Given::Unset(_), Kind::Table { .. }) => {}
            (None, Given::Unset(words), _) => *out += &format!("# {name} is unset: {words}\n"),
            (None, ..) => {}
        }
    }
}

/// Text as a TOML string.
fn text(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn path(path: &Path) -> String {
    text(&path.to_string_lossy())
}

/// A list of texts as a TOML array.
fn texts<T: ToString>(list: impl IntoIterator<Item = T>) -> String {
    let list: Vec<String> = list.into_iter().map(|one| text(&one.to_string())).collect();
    format!("[{}]", list.join(", "))
}
