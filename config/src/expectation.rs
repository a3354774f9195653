//! Expected values in words, for errors and for the manual.

use sluicegate_dataplane::Backend;

use crate::schema::Kind;
use crate::units::{format_duration, format_size};

impl Kind {
    /// Returns the expected values in words, for an error and for the manual.
    pub(crate) fn expectation(&self) -> String {
        match self {
            Self::Duration { min, max } => {
                let (min, max) = (format_duration(*min), format_duration(*max));
                format!("a duration from \"{min}\" to \"{max}\"")
            }
            Self::Size { min, max } => {
                let (min, max) = (format_size(*min), format_size(*max));
                format!("a size from \"{min}\" to \"{max}\", or a number of bytes")
            }
            Self::SizeOrAuto { min, max } => {
                let (min, max) = (format_size(*min), format_size(*max));
                format!("a size from \"{min}\" to \"{max}\", a number of bytes, or \"auto\"")
            }
            Self::Count { min, max, unit: "" } => format!("a whole number from {min} to {max}"),
            Self::Count { min, max, unit } => format!("a number of {unit} from {min} to {max}"),
            Self::CountOrNever { min, max, unit } => {
                format!("a number of {unit} from {min} to {max}, or \"never\"")
            }
            Self::Ratio { min, max } => format!("a number from {min:?} to {max:?}"),
            Self::Switch => "true or false".to_owned(),
            Self::Choice { among } => format!("one of: {}", among.join(", ")),
            Self::Number { among } => {
                let among: Vec<String> = among.iter().map(u16::to_string).collect();
                format!("one of: {}", among.join(", "))
            }
            Self::Backend => format!("one of: {}", Backend::ALL.map(Backend::name).join(", ")),
            Self::Text { max } => format!("a string of up to {max} bytes"),
            Self::FieldValue { max } => {
                format!("a string of 1 to {max} visible ASCII characters and inner spaces")
            }
            Self::Name { max } => {
                format!("a string of 1 to {max} letters, digits, `-`, `_` or `.`")
            }
            Self::Path => "a path, relative to the folder of this file".to_owned(),
            Self::Word { words, .. }
            | Self::TableOr { words, .. }
            | Self::TablesOr { words, .. } => (*words).to_owned(),
            Self::Words { words, each, min: 0, max, .. } => {
                format!("{words}, or a list of up to {max} of them{each}")
            }
            Self::Words { words, each, min, max, .. } => {
                format!("{words}, or a list of {min} to {max} of them{each}")
            }
            Self::WordsOrTables { words, table, max, .. } => {
                let header = table.header();
                format!("{words}, a table {header}, or a list of 1 to {max} of them")
            }
            Self::WordOrTable { words, table, .. } => {
                format!("{words}, or a table {}", table.header())
            }
            Self::Tables { table, .. } => format!("tables {}", table.header()),
            Self::TableOrTables { table, max } => {
                format!("a table {}, or a list of 1 to {max} of them", table.header())
            }
            others => others.fixed_expectation().to_owned(),
        }
    }

    /// Returns the expectation of the kinds that have no bounds to name.
    const fn fixed_expectation(&self) -> &'static str {
        match self {
            Self::LogTarget => "\"stdout\", or a path, relative to the folder of this file",
            Self::Cores => {
                "\"auto\", a list of cores such as [0, 1], or ranges such as \"0-3,6\", each core below 4096"
            }
            Self::CongestionControl => {
                "an algorithm's name, or a table with `algorithm` and its options"
            }
            Self::FieldNames => "a field name, or a list of up to 64 of them",
            Self::Fields { many: false } | Self::FieldValues => {
                "a table of up to 64 field names with a string each"
            }
            Self::Fields { many: true } => {
                "a table of up to 64 field names with a string or a list of strings each"
            }
            Self::MediaTypes => {
                "a table of up to 64 suffixes of file names, without the dot, with a media type each"
            }
            Self::Params => "a table of up to 64 names of parameters with a string each",
            Self::ErrorPages => {
                "a table of up to 64 statuses from 400 to 599, or 4xx or 5xx, with a file each"
            }
            _ => "a table",
        }
    }
}
