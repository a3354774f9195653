//! Routes: which requests they are for, who answers, what is changed.

use super::{Values, path, table, text, texts};
use crate::model::{
    Body, Files, Handler, HeaderEdits, HostHeader, Proxy, Redirect, Route, Symlinks,
};
use crate::schema::{
    FILES, FIXED, GENERATE, PROXY, REDIRECT, REQUEST_HEADERS, RESPONSE_HEADERS, ROUTE, Table,
    toml_duration, toml_size,
};

pub(super) fn route(out: &mut String, route: &Route) {
    let some = |list: String, empty: bool| (!empty).then_some(list);
    let values = vec![
        ("host", some(texts(&route.hosts), route.hosts.is_empty())),
        ("path", Some(text(&route.path))),
        (
            "methods",
            some(texts(&route.methods), route.methods.is_empty()),
        ),
        ("fixed", None),
        ("generate", None),
        ("files", None),
        ("proxy", None),
        ("redirect", None),
        ("request_headers", None),
        ("response_headers", None),
        ("request_body", route.request_body.map(toml_size)),
        ("timeout", route.timeout.map(toml_duration)),
    ];
    table(out, &ROUTE, &values);
    let (header, values) = handler(&route.handler);
    table(out, header, &values);
    for (header, edits) in [
        (&REQUEST_HEADERS, &route.request_headers),
        (&RESPONSE_HEADERS, &route.response_headers),
    ] {
        if *edits != HeaderEdits::default() {
            table(out, header, &header_edits(edits));
        }
    }
}

fn handler(handler: &Handler) -> (&'static Table, Values) {
    match handler {
        Handler::Fixed {
            status,
            content_type,
            body,
        } => {
            let (body, file) = match body {
                Body::Text(body) => (Some(text(body)), None),
                Body::File(file) => (None, Some(path(file))),
            };
            let values = vec![
                ("status", Some(status.to_string())),
                ("content_type", Some(text(content_type))),
                ("body", body),
                ("body_file", file),
            ];
            (&FIXED, values)
        }
        Handler::Generate { max_size } => {
            let values = vec![("max_size", Some(toml_size(*max_size)))];
            (&GENERATE, values)
        }
        Handler::Files(one) => (&FILES, files(one)),
        Handler::Proxy(one) => (&PROXY, proxy(one)),
        Handler::Redirect(Redirect { status, location }) => {
            let values = vec![
                ("status", Some(status.to_string())),
                ("location", Some(text(location))),
            ];
            (&REDIRECT, values)
        }
    }
}

fn files(files: &Files) -> Values {
    let symlinks = match files.symlinks {
        Symlinks::Never => "never",
        Symlinks::Inside => "inside",
        Symlinks::Follow => "follow",
    };
    vec![
        ("root", Some(path(&files.root))),
        ("index", Some(texts(&files.index))),
        ("precompressed", Some(files.precompressed.to_string())),
        ("symlinks", Some(text(symlinks))),
    ]
}

fn proxy(proxy: &Proxy) -> Values {
    let host = match &proxy.host {
        HostHeader::Client => "client",
        HostHeader::Upstream => "upstream",
        HostHeader::Name(name) => name,
    };
    let duration = |duration| Some(toml_duration(duration));
    vec![
        ("upstreams", Some(texts(&proxy.upstreams))),
        ("host", Some(text(host))),
        ("strip_prefix", Some(proxy.strip_prefix.to_string())),
        ("connect_timeout", duration(proxy.connect_timeout)),
        ("head_timeout", duration(proxy.head_timeout)),
        ("idle_timeout", duration(proxy.idle_timeout)),
        ("keepalive", Some(proxy.keepalive.to_string())),
        ("keepalive_timeout", duration(proxy.keepalive_timeout)),
        ("retries", Some(proxy.retries.to_string())),
        ("max_fails", Some(proxy.max_fails.to_string())),
        ("fail_timeout", duration(proxy.fail_timeout)),
        ("forwarded", Some(proxy.forwarded.to_string())),
        ("header_bytes", Some(toml_size(proxy.header_bytes))),
    ]
}

fn header_edits(edits: &HeaderEdits) -> Values {
    vec![
        ("remove", Some(texts(&edits.remove))),
        ("set", Some(fields(&edits.set))),
        ("add", Some(fields(&edits.add))),
    ]
}

/// Fields as an inline table; those with one name stand in a row.
fn fields(fields: &[(String, String)]) -> String {
    let rows = fields.chunk_by(|a, b| a.0 == b.0).map(|row| {
        let (name, value) = &row[0];
        let value = match row {
            [_] => text(value),
            row => texts(row.iter().map(|(_, value)| value)),
        };
        format!("{} = {value}", text(name))
    });
    let rows: Vec<String> = rows.collect();
    if rows.is_empty() {
        "{}".to_owned()
    } else {
        format!("{{ {} }}", rows.join(", "))
    }
}
