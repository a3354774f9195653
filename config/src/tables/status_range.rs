//! Ranges of statuses.

use std::fmt;

use crate::field::words_in_fields;
use crate::value::Word;

/// A range in words.
pub(super) const STATUSES: &str =
    "a status such as \"200\", a class such as \"4xx\", or a range such as \"200-399\"";

/// Statuses of responses, from the first to the last; 200 to 599.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StatusRange {
    /// Lowest status.
    pub first: u16,
    /// Highest status.
    pub last: u16,
}

impl StatusRange {
    /// Reads a status, a class or a range.
    pub(super) fn parse(word: &str) -> Option<Self> {
        if let Some(digit) = word.strip_suffix("xx") {
            let digit: u16 = digit.parse().ok().filter(|_| digit.len() == 1)?;
            let first = digit * 100;
            let last = first + 99;
            return (2..=5).contains(&digit).then_some(Self { first, last });
        }
        let status = |word: &str| {
            let is_plain = word.len() == 3 && word.bytes().all(|byte| byte.is_ascii_digit());
            let status = word.parse().ok().filter(|_| is_plain);
            status.filter(|status| (200..=599).contains(status))
        };
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let (first, last) = (status(first)?, status(last)?);
        (first <= last).then_some(Self { first, last })
    }

    /// Returns whether a status is in the range.
    pub fn has(self, status: u16) -> bool {
        (self.first..=self.last).contains(&status)
    }

    /// Returns whether the range is all statuses of one first digit.
    const fn is_class(self) -> bool {
        self.first.is_multiple_of(100) && self.last == self.first + 99
    }
}

impl fmt::Display for StatusRange {
    /// Writes the statuses as a file does: `200`, `4xx`, `200-399`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { first, last } if first == last => write!(f, "{first}"),
            range if range.is_class() => write!(f, "{}xx", self.first / 100),
            Self { first, last } => write!(f, "{first}-{last}"),
        }
    }
}

impl Word for StatusRange {
    fn of_canonical(word: String) -> Option<Self> {
        Self::parse(&word)
    }
}

words_in_fields!(StatusRange);
