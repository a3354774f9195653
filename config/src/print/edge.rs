//! Workers, and the addresses they serve.

use sluicegate_cc::Value;

use super::{Values, path, table, text, texts};
use crate::model::{CongestionControl, Cores, Group, Listener};
use crate::schema::{LISTENER, RULE, TLS, TLS_MANY, option_toml, toml_duration};

pub(super) fn group(group: &Group) -> Values {
    let cores = match &group.cores {
        Cores::Auto => text("auto"),
        Cores::List(list) => format!("{list:?}"),
    };
    let mut values = vec![
        ("name", Some(text(&group.name))),
        ("backend", Some(text(group.backend.name()))),
        ("cores", Some(cores)),
    ];
    for (spec, value) in group.socket.values().chain(group.driver.values()) {
        values.push((spec.name, Some(option_toml(spec, value))));
    }
    values
}

pub(super) fn listener(out: &mut String, listener: &Listener) {
    let values = vec![
        ("name", Some(text(&listener.name))),
        ("address", Some(texts(&listener.addresses))),
        ("group", Some(text(&listener.group))),
        (
            "congestion_control",
            Some(congestion_control(&listener.congestion_control)),
        ),
        ("congestion_rule", None),
        ("low_rtt_guard", listener.low_rtt_guard.map(toml_duration)),
        ("tls", listener.tls.is_empty().then(|| text("self-signed"))),
    ];
    table(out, &LISTENER, &values);
    let header = match &listener.tls[..] {
        [_] => &TLS,
        _ => &TLS_MANY,
    };
    for tls in &listener.tls {
        let values = vec![
            ("certificate", Some(path(&tls.certificate))),
            ("key", Some(path(&tls.key))),
        ];
        table(out, header, &values);
    }
    for rule in &listener.congestion_rules {
        let values = vec![
            ("networks", Some(texts(&rule.networks))),
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
