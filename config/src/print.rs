//! The configuration in effect, as a file.

use std::path::Path;

use sluicegate_cc::Value;
use sluicegate_dataplane::{DriverOptions, SocketOptions};

use crate::model::{
    Body, Config, CongestionControl, Cores, Group, Handler, Limits, Listener, Log, LogFormat,
    LogLevel, Qlog, QlogLevel, Quic, Route, Server,
};
use crate::schema::{
    FIXED, GENERATE, GROUP, Given, Kind, LIMITS, LISTENER, LOG, QLOG, QUIC, ROUTE, RULE, SERVER,
    TLS, Table, toml_duration, toml_size,
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
        table(&mut out, &SERVER, &server(&self.server));
        for one in &self.groups {
            table(&mut out, &GROUP, &group(one));
        }
        for one in &self.listeners {
            listener(&mut out, one);
        }
        for one in &self.routes {
            route(&mut out, one);
        }
        table(&mut out, &LIMITS, &limits(&self.limits));
        table(&mut out, &QUIC, &quic(&self.quic));
        table(&mut out, &QLOG, &qlog(&self.qlog));
        table(&mut out, &LOG, &log(self.log));
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
            (None, Given::Unset(_), Kind::Form { .. }) => {}
            (None, Given::Unset(words), _) => *out += &format!("# {name} is unset: {words}\n"),
            (None, ..) => {}
        }
    }
}

/// Text as a TOML string.
pub(crate) fn text(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn path(path: &Path) -> String {
    text(&path.to_string_lossy())
}

fn server(server: &Server) -> Values {
    vec![
        ("state_dir", server.state_dir.as_deref().map(path)),
        ("secrets_file", server.secrets_file.as_deref().map(path)),
        ("drain_timeout", Some(toml_duration(server.drain_timeout))),
    ]
}

fn group(group: &Group) -> Values {
    let Group {
        name,
        backend,
        cores,
        socket,
        driver,
    } = group;
    let SocketOptions {
        receive_buffer,
        send_buffer,
        gro,
        gso,
        busy_poll,
    } = *socket;
    let DriverOptions {
        rx_buffers,
        tx_slots,
    } = *driver;
    let bytes = |size: usize| toml_size(u64::try_from(size).unwrap_or(u64::MAX));
    let busy_poll = std::time::Duration::from_micros(u64::from(busy_poll));
    vec![
        ("name", Some(text(name))),
        ("backend", Some(text(backend.name()))),
        (
            "cores",
            Some(match cores {
                Cores::Auto => text("auto"),
                Cores::List(list) => format!("{list:?}"),
            }),
        ),
        ("receive_buffer", Some(bytes(receive_buffer))),
        ("send_buffer", Some(bytes(send_buffer))),
        ("gro", Some(gro.to_string())),
        ("gso", Some(gso.to_string())),
        ("busy_poll", Some(toml_duration(busy_poll))),
        ("rx_buffers", Some(rx_buffers.to_string())),
        ("tx_slots", Some(tx_slots.to_string())),
    ]
}

fn listener(out: &mut String, listener: &Listener) {
    let addresses: Vec<String> = listener
        .addresses
        .iter()
        .map(|address| text(&address.to_string()))
        .collect();
    let values = vec![
        ("name", Some(text(&listener.name))),
        ("address", Some(format!("[{}]", addresses.join(", ")))),
        ("group", Some(text(&listener.group))),
        (
            "congestion_control",
            Some(congestion_control(&listener.congestion_control)),
        ),
        ("congestion_rule", None),
        ("low_rtt_guard", listener.low_rtt_guard.map(toml_duration)),
        (
            "tls",
            if listener.tls.is_none() {
                Some(text("self-signed"))
            } else {
                None
            },
        ),
    ];
    table(out, &LISTENER, &values);
    if let Some(tls) = &listener.tls {
        let values = vec![
            ("certificate", Some(path(&tls.certificate))),
            ("key", Some(path(&tls.key))),
        ];
        table(out, &TLS, &values);
    }
    for rule in &listener.congestion_rules {
        let networks = rule.networks.iter().map(|n| text(&n.to_string()));
        let networks: Vec<String> = networks.collect();
        let values = vec![
            ("networks", Some(format!("[{}]", networks.join(", ")))),
            ("share", Some(format!("{:?}", rule.share))),
            (
                "congestion_control",
                Some(congestion_control(&rule.congestion_control)),
            ),
        ];
        table(out, &RULE, &values);
    }
}

/// The algorithm with all its options, as an inline table.
pub(crate) fn congestion_control(control: &CongestionControl) -> String {
    let mut out = format!("{{ algorithm = {}", text(&control.algorithm));
    for (spec, value) in control.options.iter() {
        out += &format!(", {} = {}", spec.name, option(value));
    }
    out + " }"
}

/// An option's value as TOML.
pub(crate) fn option(value: Value) -> String {
    match value {
        Value::Integer(number) => number.to_string(),
        Value::Number(number) => format!("{number:?}"),
        Value::Boolean(on) => on.to_string(),
    }
}

fn route(out: &mut String, route: &Route) {
    let values = vec![
        ("path", Some(text(&route.path))),
        ("fixed", None),
        ("generate", None),
    ];
    table(out, &ROUTE, &values);
    match &route.handler {
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
            table(out, &FIXED, &values);
        }
        Handler::Generate { max_size } => {
            table(
                out,
                &GENERATE,
                &vec![("max_size", Some(toml_size(*max_size)))],
            );
        }
    }
}

fn limits(limits: &Limits) -> Values {
    vec![
        (
            "connections_per_worker",
            Some(limits.connections_per_worker.to_string()),
        ),
        (
            "max_concurrent_streams",
            Some(limits.max_concurrent_streams.to_string()),
        ),
        ("request_body", Some(toml_size(limits.request_body))),
        ("header_bytes", Some(toml_size(limits.header_bytes))),
        (
            "connection_window",
            Some(toml_size(limits.connection_window)),
        ),
        ("stream_window", Some(toml_size(limits.stream_window))),
        ("send_buffer", Some(toml_size(limits.send_buffer))),
        (
            "cids_per_connection",
            Some(limits.cids_per_connection.to_string()),
        ),
    ]
}

fn quic(quic: &Quic) -> Values {
    let retry_above = quic
        .retry_above
        .map_or_else(|| text("never"), |count| count.to_string());
    vec![
        ("idle_timeout", Some(toml_duration(quic.idle_timeout))),
        ("retry_above", Some(retry_above)),
        (
            "retry_token_lifetime",
            Some(toml_duration(quic.retry_token_lifetime)),
        ),
        ("max_udp_payload", Some(toml_size(quic.max_udp_payload))),
        ("initial_rtt", Some(toml_duration(quic.initial_rtt))),
        ("ack_delay", Some(toml_duration(quic.ack_delay))),
        ("migration", Some(quic.migration.to_string())),
        ("session_tickets", Some(quic.session_tickets.to_string())),
        (
            "session_lifetime",
            Some(toml_duration(quic.session_lifetime)),
        ),
        (
            "stateless_reset_per_second",
            Some(quic.stateless_reset_per_second.to_string()),
        ),
    ]
}

fn qlog(qlog: &Qlog) -> Values {
    let level = match qlog.level {
        QlogLevel::Core => "core",
        QlogLevel::Base => "base",
        QlogLevel::Extra => "extra",
    };
    vec![
        ("sample_rate", Some(format!("{:?}", qlog.sample_rate))),
        ("directory", qlog.directory.as_deref().map(path)),
        ("level", Some(text(level))),
        ("max_open_traces", Some(qlog.max_open_traces.to_string())),
        ("max_trace_bytes", Some(toml_size(qlog.max_trace_bytes))),
        ("max_total_bytes", Some(toml_size(qlog.max_total_bytes))),
        ("queue", Some(toml_size(qlog.queue))),
    ]
}

fn log(log: Log) -> Values {
    let level = match log.level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    };
    let format = match log.format {
        LogFormat::Text => "text",
        LogFormat::Json => "json",
    };
    vec![("level", Some(text(level))), ("format", Some(text(format)))]
}
