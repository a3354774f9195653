//! Files that stand for the contents of error responses.

use std::fmt;
use std::path::PathBuf;

use toml::de::DeValue;

use crate::error::Error;
use crate::field::Element;
use crate::print;
use crate::schema::{Key, MAX_FIELDS};
use crate::source::shown;
use crate::value::{Item, kind_of};

/// File whose bytes are the content of the error responses with certain statuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorPage {
    /// Statuses of the responses.
    pub statuses: ErrorStatuses,
    /// File with the content.
    pub file: PathBuf,
}

/// Statuses of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorStatuses {
    /// This status alone, 400 to 599.
    One(u16),
    /// All statuses with this first digit, 4 or 5.
    Class(u16),
}

impl ErrorStatuses {
    /// Returns whether all of `others` are among these.
    pub(super) fn cover(self, others: Self) -> bool {
        match (self, others) {
            (Self::Class(first), Self::One(status)) => status / 100 == first,
            _ => self == others,
        }
    }

    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "4xx" => Self::Class(4),
            "5xx" => Self::Class(5),
            _ => Self::One(word.parse().ok().filter(|status| {
                let is_plain = word.bytes().all(|b| b.is_ascii_digit());
                is_plain && (400..=599).contains(status)
            })?),
        })
    }
}

impl fmt::Display for ErrorStatuses {
    /// Writes the statuses as a file does: `404`, `5xx`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(status) => write!(f, "{status}"),
            Self::Class(first) => write!(f, "{first}xx"),
        }
    }
}

impl Element for ErrorPage {
    fn read_list(item: &Item<'_>) -> Result<Vec<Self>, Error> {
        let named = match &*item.value {
            DeValue::Table(named) if named.len() <= MAX_FIELDS => named,
            _ => return Err(item.refused()),
        };
        let mut named: Vec<_> = named.iter().collect();
        named.sort_by_key(|(name, _)| name.span().start);
        let pages = named.into_iter().map(|(name, value)| {
            let statuses = ErrorStatuses::parse(name.get_ref()).ok_or_else(|| {
                let found = format!("status `{}` in `{}`", shown(name.get_ref()), item.key.name);
                let expected = "a status from 400 to 599, 4xx or 5xx";
                item.source.error(name.span().start, found, expected)
            })?;
            let file =
                value.get_ref().as_str().filter(|text| !text.is_empty() && !text.contains('\0'));
            let file = file.ok_or_else(|| {
                let found = format!("{} for `{statuses}`", kind_of(value.get_ref()));
                let expected = "a path, relative to the folder of this file";
                item.source.error(value.span().start, found, expected)
            })?;
            let file = item.source.folder.join(file);
            Ok(Self { statuses, file })
        });
        let mut pages: Vec<Self> = pages.collect::<Result<_, _>>()?;
        pages.sort_by_key(|page| page.statuses.to_string());
        Ok(pages)
    }

    fn print_list(list: &[Self], _: &Key) -> Option<String> {
        let rows = list.iter().map(|page| {
            let file = print::path(&page.file);
            format!("{} = {file}", page.statuses)
        });
        let rows: Vec<String> = rows.collect();
        Some(format!("{{ {} }}", rows.join(", ")))
    }
}
