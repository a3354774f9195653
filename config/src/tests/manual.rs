//! The manual says what the schema says.

use sluicegate_cc::Registry;

use super::{EXAMPLE, document, each_key, parse};
use crate::Listener;
use crate::field::Record;
use crate::manual;

#[test]
fn example_is_the_manual_of_this_build() {
    assert!(
        EXAMPLE == manual(&Registry::builtin()),
        "config/example.toml is not up to date: see config/README.md for the command"
    );
}

#[test]
fn example_names_every_key_and_every_option() {
    each_key(|table, key| {
        let start = EXAMPLE
            .find(&format!("\n{}\n", table.header()))
            .or_else(|| EXAMPLE.find(&format!("\n# e.g. {}\n", table.header())))
            .expect("a header");
        let section = &EXAMPLE[start..];
        let needle = format!("{} = ", key.name);
        let own = format!("[{}.{}]", table.name, key.name);
        assert!(section.contains(&needle) || section.contains(&own), "{}", key.name);
    });
    for algorithm in &Registry::builtin() {
        let start = EXAMPLE.find(&format!("algorithm = \"{}\"", algorithm.name)).unwrap();
        let line = EXAMPLE[start..].lines().next().unwrap();
        for option in algorithm.options {
            assert!(line.contains(&format!(", {} = ", option.name)), "{}", option.name);
        }
    }
}

#[test]
fn defaults_in_the_example_are_the_defaults() {
    let with_defaults_given: String = EXAMPLE
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(key) if key.starts_with(|c: char| c.is_ascii_alphabetic()) => format!("{key}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let given = with_defaults_given.matches("\n").count();
    assert_eq!(given, EXAMPLE.matches("\n").count());
    assert_ne!(with_defaults_given, EXAMPLE);
    assert_eq!(parse(&with_defaults_given), parse(EXAMPLE));
    assert_eq!(parse(EXAMPLE).err(), None);
    let options = EXAMPLE.lines().filter_map(|l| l.strip_prefix("# e.g. congestion_control = "));
    for (value, algorithm) in options.zip(&Registry::builtin()) {
        let config = parse(&document(Listener::TABLE, "congestion_control", value)).unwrap();
        assert_eq!(config.listeners[0].congestion_control.options, algorithm.defaults());
    }
}

#[test]
fn lines_of_the_manual_are_short_but_for_values() {
    let long = |line: &&str| line.chars().count() > 100 && !line.starts_with("# e.g. ");
    assert_eq!(EXAMPLE.lines().find(long), None);
}
