//! Properties of every key of the schema.

mod careful_resume;
mod include;
mod json_schema;
mod manual;
mod reload;
mod routes;
mod sites;
mod values;

use std::time::Duration;

use sluicegate_cc::Registry;

use crate::field::{Part, Record};
use crate::schema::{Given, Key, Kind, Table};
use crate::units::toml_duration;
use crate::{Config, Handler};

const EXAMPLE: &str = include_str!("../example.toml");

fn parse(text: &str) -> Result<Config, crate::Error> {
    Config::from_toml("edge.toml", text, &Registry::builtin())
}

const GROUPS: &str = "[[group]]\nname = \"default\"\n[[group]]\nname = \"other\"\n";

/// Returns a valid file in which `key` of `table` has the TOML value `value`.
fn document(table: &Table, key: &str, value: &str) -> String {
    let mut keys = vec![format!("{key} = {value}")];
    for other in table.keys().filter(|k| k.name != key) {
        match (table.name, other.name, other.given) {
            ("listener", "tls", _) => keys.push("tls = \"self-signed\"".to_owned()),
            ("route", "generate", _)
                if Handler::keys().iter().all(|handler| handler.name != key) =>
            {
                keys.push("generate = {}".to_owned());
            }
            ("route.proxy", "upstreams", _) if key == "pool" => {}
            ("listener.tls", "certificate" | "key", _) if key == "acme" => {}
            ("quic.connection_ids.server_id", "env", _) if key == "file" => {}
            (_, "upstreams", _) if key.starts_with("tls_") => {
                keys.push("upstreams = \"https://app\"".to_owned());
            }
            (_, "upstreams", _) if key == "congestion_control" => {
                keys.push("upstreams = \"h3://app\"".to_owned());
            }
            (_, name, Given::Required(example) | Given::Either(example, _)) => {
                keys.push(format!("{name} = {example}"))
            }
            _ => {}
        }
    }
    keys.extend(companion(table.name, key).map(str::to_owned));
    let listener = "[[listener]]\nname = \"l\"\naddress = \"[::]:1\"\n";
    let before = match table.name {
        "listener" => GROUPS.to_owned(),
        "listener.tls" => format!("[acme]\nagree = true\n[server]\nstate_dir = \"s\"\n{listener}"),
        "listener.congestion_rule" => format!("{listener}tls = \"self-signed\"\n"),
        "pool.health_check" => {
            let pool = "[[pool]]\nname = \"app\"\nupstreams = \"a:1\"\n";
            format!("{listener}tls = \"self-signed\"\n{pool}")
        }
        "pool.upstreams" => {
            format!("{listener}tls = \"self-signed\"\n[[pool]]\nname = \"app\"\n")
        }
        "quic.connection_ids.server_id" => {
            format!(
                "{listener}tls = \"self-signed\"\n[quic.connection_ids]\nformat = \"quic-lb\"\n"
            )
        }
        "group.dpdk" => {
            format!("{listener}tls = \"self-signed\"\n[[group]]\nname = \"default\"\n")
        }
        name if is_of_settings(name) => {
            format!("{listener}tls = \"self-signed\"\n[[route]]\npath = \"/\"\ngenerate = {{}}\n")
        }
        name if name == "route" || name.starts_with("site.") => {
            format!("{listener}tls = \"self-signed\"\n[[site]]\nname = \"shop\"\n")
        }
        name if name.starts_with("route.") => {
            let pool = "[[pool]]\nname = \"app\"\nupstreams = \"a:1\"\n";
            format!("{pool}{listener}tls = \"self-signed\"\n[[route]]\npath = \"/\"\n")
        }
        _ => format!("{listener}tls = \"self-signed\"\ngroup = \"g\"\n"),
    };
    // Where another group is described, the listener refers to that one.
    let before = match (table.name, key) {
        ("group", "name") => before.replace("\"g\"", value),
        ("group", _) => before.replace("\"g\"", "\"default\""),
        _ => before.replace("group = \"g\"\n", ""),
    };
    format!("{before}{}\n{}\n", table.header(), keys.join("\n"))
}

/// Returns a line that a file with `key` needs beside it: a file of its own for traces, or an upper size that no other test
/// reaches.
fn companion(table: &str, key: &str) -> Option<&'static str> {
    Some(match (table, key) {
        ("qlog", "sample_rate") => "directory = \"traces\"",
        ("qlog", "max_trace_bytes") => "max_total_bytes = \"64TiB\"",
        ("qlog", "max_total_bytes") => "max_trace_bytes = \"64KiB\"",
        ("acme", "dns_hook") => "challenges = \"dns-01\"",
        ("acme", "external_id") => "external_key = \"key\"",
        ("acme", "external_key") => "external_id = \"id\"",
        ("listener", "client_auth") => "client_ca = \"clients.pem\"",
        ("quic.connection_ids", "config" | "nonce" | "key_file") => "server_id = \"01\"",
        (_, "tls_certificate") => "tls_key = \"key.pem\"",
        (_, "tls_key") => "tls_certificate = \"certificate.pem\"",
        ("pool.health_check", key) if key != "path" => "path = \"/\"",
        ("pool" | "route.proxy", "hash_by" | "hash_load") => "balance = \"hash\"",
        ("limits", "connection_window") => "stream_window = \"16KiB\"",
        ("limits", "worker_buffer") => "stream_buffer = \"32KiB\"",
        ("limits", "stream_window") => "connection_window = \"1GiB\"",
        _ => return None,
    })
}

/// Returns whether a table belongs to the settings of a route, beside its handler.
fn is_of_settings(table: &str) -> bool {
    let settings = crate::RouteSettings::TABLE.inner();
    settings.iter().any(|(known, _)| known.name == table)
}

fn each_key(check: impl Fn(&Table, Key)) {
    for (table, _) in Config::TABLE.inner() {
        table.keys().for_each(|key| check(&table, key));
    }
}

/// Calls `check` with a file for each default and each example of each key.
fn each_value(check: impl Fn(&Table, Key, &str)) {
    each_key(|table, key| {
        let required = key.given.required_example().map(str::to_owned);
        let default = key.given.default_toml().map(Into::into);
        let examples = key.examples.iter().map(ToString::to_string);
        for value in examples.chain(required).chain(default) {
            check(table, key, &document(table, key.name, &value));
        }
    });
}

#[test]
fn every_default_and_example_is_accepted() {
    each_value(|table, key, text| {
        assert_eq!(parse(text).err(), None, "{}.{}\n{text}", table.name, key.name);
    });
}

#[test]
fn every_key_refuses_a_date_and_says_what_it_takes() {
    each_key(|table, key| {
        let text = document(table, key.name, "1979-05-27");
        let error = parse(&text).unwrap_err();
        assert_eq!(error.found, format!("datetime 1979-05-27 for `{}`", full_name(table, &key)));
        let dates = text.lines().zip(1..).filter(|(l, _)| l.ends_with("1979-05-27"));
        let (_, line) = dates.last().unwrap();
        assert_eq!(error.position.unwrap().line, line);
    });
}

/// Returns a key's name in errors: a table's full name, else the key alone.
fn full_name(table: &Table, key: &Key) -> String {
    let full = format!("{}.{}", table.name, key.name);
    let of_its_own = Config::TABLE.inner().iter().any(|(t, _)| t.name == full)
        && !full.ends_with(".response_headers")
        && !full.starts_with("quic.connection_ids")
        && !["listener.tls", "pool.upstreams", "route.redirect"].contains(&full.as_str());
    if of_its_own { full } else { key.name.to_owned() }
}

#[test]
fn every_bound_is_inclusive_and_nothing_beyond_it_is_taken() {
    each_key(|table, key| {
        let (inside, below, above): ([String; 2], Option<String>, String) = match key.kind {
            Kind::Count { min, max, .. }
            | Kind::CountOrNever { min, max, .. }
            | Kind::Size { min, max }
            | Kind::SizeOrAuto { min, max } => (
                [min.to_string(), max.to_string()],
                min.checked_sub(1).map(|v| v.to_string()),
                (max + 1).to_string(),
            ),
            Kind::Duration { min, max } => {
                let ns = Duration::from_nanos(1);
                (
                    [min, max].map(toml_duration),
                    min.checked_sub(ns).map(toml_duration),
                    toml_duration(max + ns),
                )
            }
            Kind::Ratio { min, max } => (
                [min, max].map(|v| format!("{v:?}")),
                Some(format!("{:?}", min - 0.001)),
                format!("{:?}", max + 0.001),
            ),
            _ => return,
        };
        for value in inside {
            let error = parse(&document(table, key.name, &value)).err();
            assert_eq!(error, None, "{}.{} = {value}", table.name, key.name);
        }
        for (value, side) in below.map(|v| (v, ", below ")).into_iter().chain([(above, ", above ")])
        {
            let error = parse(&document(table, key.name, &value)).unwrap_err();
            assert!(error.found.contains(side), "{error}");
        }
    });
}

#[test]
fn every_text_refuses_what_is_too_long() {
    each_key(|table, key| {
        let (Kind::Text { max } | Kind::Name { max } | Kind::FieldValue { max }) = key.kind else {
            return;
        };
        let quoted = |len: usize| format!("\"{}\"", "a".repeat(len));
        let error = parse(&document(table, key.name, &quoted(max + 1))).unwrap_err();
        assert_eq!(error.expected, key.kind.expectation(), "{error}");
        // Those names are of tables.
        if !["group", "pool", "site"].contains(&key.name) {
            assert_eq!(parse(&document(table, key.name, &quoted(max))).err(), None);
        }
    });
}

#[test]
fn a_route_has_exactly_one_handler_or_files_and_a_fallback() {
    let names: Vec<&str> = Handler::keys().iter().map(|handler| handler.name).collect();
    let expected = format!(
        "expected exactly one of: {}; or files with one of: fixed, proxy, fastcgi, redirect",
        names.join(", ")
    );
    for (handlers, found) in [
        ("fixed = {}\ngenerate = {}", "4:12: both `fixed` and `generate` in [[route]]"),
        ("", "1:1: no handler in [[route]]"),
        (
            "files = { root = \"/srv\" }\ngenerate = {}",
            "4:12: both `files` and `generate` in [[route]]",
        ),
        (
            "connect_udp = { allow = \"a:53\" }\nfiles = { root = \"/srv\" }",
            "4:9: both `connect_udp` and `files` in [[route]]",
        ),
        (
            "files = { root = \"/srv\" }\nfixed = {}\nredirect = \"/a\"",
            "5:12: more than two handlers in [[route]]",
        ),
    ] {
        let error = parse(&format!("[[route]]\npath = \"/\"\n{handlers}\n")).unwrap_err();
        assert_eq!(error.to_string(), format!("edge.toml:{found}; {expected}"));
    }
}
