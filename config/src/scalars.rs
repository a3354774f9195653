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

impl Field for Duration {
    fn read(item: &Item<'_>) -> Result<Self, Error> {
        item.duration()
    }

    fn print(&self, _: &Key) -> Option<String> {
        Some(toml_duration(*self))
    }
}

impl Field for u64 {
    fn read(item: &Item<'_>) -> Result<Self, Error> {
        match item.key.kind {
            Kind::Size { .. } => item.size(),
            _ => item.count(),
        }
    }

    fn print(&self, key: &Key) -> Option<String> {
        Some(match key.kind {
            Kind::Size { .. } => toml_size(*self),
            _ => self.to_string(),
        })
    }
}

impl Field for u16 {
    fn read(item: &Item<'_>) -> Result<Self, Error> {
        match item.key.kind {
            Kind::Number { among } => item.number(among),
            _ => Self::try_from(item.count()?).map_err(|_| item.refused()),
        }
    }

    fn print(&self, _: &Key) -> Option<String> {
        Some(self.to_string())
    }
}

impl Field for f64 {
    fn read(item: &Item<'_>) -> Result<Self, Error> {
        item.ratio()
    }

    fn print(&self, _: &Key) -> Option<String> {
        Some(format!("{self:?}"))
    }
}

impl Field for bool {
    fn read(item: &Item<'_>) -> Result<Self, Error> {
        item.switch()
    }

    fn print(&self, _: &Key) -> Option<String> {
        Some(self.to_string())
    }
}

impl Field for Backend {
    fn read(item: &Item<'_>) -> Result<Self, Error> {
        item.backend()
    }

    fn print(&self, _: &Key) -> Option<String> {
        Some(print::text(self.name()))
    }
}

impl Field for PathBuf {
    fn read(item: &Item<'_>) -> Result<Self, Error> {
        item.path()
    }

    fn print(&self, _: &Key) -> Option<String> {
        Some(print::path(self))
    }
}

impl Field for SocketAddr {
    fn read(item: &Item<'_>) -> Result<Self, Error> {
        item.word()
    }

    fn print(&self, _: &Key) -> Option<String> {
        Some(print::text(&self.to_string()))
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

impl Field for String {
    fn read(item: &Item<'_>) -> Result<Self, Error> {
        item.word()
    }

    fn print(&self, _: &Key) -> Option<String> {
        Some(print::text(self))
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
