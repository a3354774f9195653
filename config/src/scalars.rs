//! Reading and printing of plain types: numbers, durations, paths, strings.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use sluicegate_dataplane::Backend;

use crate::error::Error;
use crate::field::{Element, Field};
use crate::header_fields;
use crate::print;
use crate::schema::{Key, Kind};
use crate::units::{toml_duration, toml_size};
use crate::value::Item;

/// Implements [`Field`] for types by the function that reads a value and the one that returns it as TOML.
macro_rules! scalars {
    ($($type:ty: $read:path, $print:expr;)+) => {$(
        impl Field for $type {
            fn read(item: &Item<'_>) -> Result<Self, Error> {
                $read(item)
            }

            fn print(&self, key: &Key) -> Option<String> {
                let print: fn(&Self, &Key) -> String = $print;
                Some(print(self, key))
            }
        }
    )+};
}

scalars! {
    bool: Item::switch, |on, _| on.to_string();
    u16: read_u16, |number, _| number.to_string();
    u64: read_u64, print_u64;
    f64: Item::ratio, |number, _| format!("{number:?}");
    Duration: Item::duration, |duration, _| toml_duration(*duration);
    Backend: Item::backend, |backend, _| print::text(backend.name());
    PathBuf: Item::path, |path, _| print::path(path);
    SocketAddr: Item::word, |address, _| print::text(&address.to_string());
    String: Item::word, |text, _| print::text(text);
}

fn read_u16(item: &Item<'_>) -> Result<u16, Error> {
    match item.key.kind {
        Kind::Number { among } => item.number(among),
        _ => u16::try_from(item.count()?).map_err(|_| item.refused()),
    }
}

fn read_u64(item: &Item<'_>) -> Result<u64, Error> {
    match item.key.kind {
        Kind::Size { .. } | Kind::SizeOrAuto { .. } => item.size(),
        _ => item.count(),
    }
}

fn print_u64(number: &u64, key: &Key) -> String {
    match key.kind {
        Kind::Size { .. } | Kind::SizeOrAuto { .. } => toml_size(*number),
        _ => number.to_string(),
    }
}

/// List of addresses, in which port 0 may occur several times.
impl Element for SocketAddr {
    fn read_list(item: &Item<'_>) -> Result<Vec<Self>, Error> {
        item.words()
    }

    fn print_list(list: &[Self], _: &Key) -> Option<String> {
        Some(print::texts(list))
    }
}

impl Element for String {
    fn read_list(item: &Item<'_>) -> Result<Vec<Self>, Error> {
        match item.key.kind {
            Kind::FieldNames => header_fields::read_names(item),
            _ => item.distinct_words(),
        }
    }

    fn print_list(list: &[Self], _: &Key) -> Option<String> {
        Some(print::texts(list))
    }
}

/// The name of a header field with its value, or a suffix with its media type.
impl Element for (String, String) {
    fn read_list(item: &Item<'_>) -> Result<Vec<Self>, Error> {
        header_fields::read(item)
    }

    fn print_list(list: &[Self], _: &Key) -> Option<String> {
        Some(header_fields::print(list))
    }
}
