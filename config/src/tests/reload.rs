//! Keys that a reload takes up, and keys that need a restart.

use std::cell::Cell;

use super::{EXAMPLE, document, each_key, parse};
use crate::Config;
use crate::schema::{Key, Kind, Reload};
use crate::units::toml_duration;

#[test]
fn keys_that_only_a_start_takes_up_are_named() {
    let before = Config::embedded();
    let mut after = before.clone();
    after.routes.clear();
    after.limits.header_bytes += 1;
    after.listeners[0].congestion_control.algorithm = "reno".to_owned();
    after.listeners[0].addresses.pop();
    after.listeners[0].group = "other".to_owned();
    after.listeners.push(before.listeners[0].clone());
    after.listeners[1].name = "second".to_owned();
    after.log.level = crate::LogLevel::Trace;
    after.admin.address = Some(([127, 0, 0, 1], 1).into());
    assert_eq!(before.needs_restart(&after), [""; 0]);
    after.groups[0].driver.tx_slots += 1;
    after.limits.stream_buffer += 1;
    assert_eq!(before.needs_restart(&after), ["group.tx_slots", "limits.stream_buffer"]);
}

#[test]
fn tables_that_come_and_go_are_named_by_their_header() {
    let before = parse(EXAMPLE).unwrap();
    let mut after = before.clone();
    after.groups.push(after.groups[0].clone());
    after.groups[1].name = "second".to_owned();
    assert_eq!(before.needs_restart(&after), ["names of [[group]]"]);
    assert_eq!(after.needs_restart(&before), ["names of [[group]]"]);
    // Their order does not matter.
    let mut turned = after.clone();
    turned.groups.reverse();
    assert_eq!(after.needs_restart(&turned), [""; 0]);
}

#[test]
fn a_key_that_differs_in_several_tables_is_named_once() {
    let mut before = parse(EXAMPLE).unwrap();
    before.groups.push(before.groups[0].clone());
    before.groups[1].name = "second".to_owned();
    let mut after = before.clone();
    for group in &mut after.groups {
        group.spin_always = !group.spin_always;
        group.driver.tx_slots += 1;
    }
    assert_eq!(before.needs_restart(&after), ["group.spin_always", "group.tx_slots"]);
}

/// Values of a key that differ from each other, as TOML.
fn values(key: &Key) -> Vec<String> {
    let quoted = |words: &[&str]| words.iter().map(|word| format!("\"{word}\"")).collect();
    match key.kind {
        Kind::Duration { min, max } => [min, max].map(toml_duration).to_vec(),
        Kind::Size { min, max }
        | Kind::SizeOrAuto { min, max }
        | Kind::Count { min, max, .. }
        | Kind::CountOrNever { min, max, .. } => [min, max].map(|v| v.to_string()).to_vec(),
        Kind::Ratio { min, max } => [min, max].map(|v| format!("{v:?}")).to_vec(),
        Kind::Switch => [true, false].map(|v| v.to_string()).to_vec(),
        Kind::Choice { among } => quoted(among),
        Kind::Number { among } => among.iter().map(u16::to_string).collect(),
        Kind::Backend => quoted(&["auto", "mio"]),
        Kind::Name { .. } => quoted(&["default", "other"]),
        Kind::Text { .. } | Kind::FieldValue { .. } | Kind::Path => quoted(&["a", "b"]),
        _ => {
            let required = key.given.required_example().map(str::to_owned);
            let default = key.given.default_toml().map(Into::into);
            let examples = key.examples.iter().map(ToString::to_string);
            examples.chain(required).chain(default).collect()
        }
    }
}

#[test]
fn each_key_needs_a_restart_if_and_only_if_it_is_declared_so() {
    let tried = Cell::new(0);
    each_key(|table, key| {
        if key.name == "name" {
            return;
        }
        let mut configs: Vec<Config> = Vec::new();
        for value in values(&key) {
            let text = document(table, key.name, &value);
            let line = format!("{} = {value}\n", key.name);
            for text in [&text.replacen(&line, "", 1), &text] {
                configs.extend(parse(text).ok().filter(|config| !configs.contains(config)));
            }
        }
        for pair in configs.windows(2) {
            let named = match key.reload {
                Reload::Restart => vec![format!("{}.{}", table.name, key.name)],
                Reload::Live => Vec::new(),
            };
            assert_eq!(pair[0].needs_restart(&pair[1]), named, "{}.{}", table.name, key.name);
            tried.set(tried.get() + 1);
        }
    });
    assert!(tried.get() > 100, "{} pairs", tried.get());
}
