//! The error for a configuration, with the place of the mistake.

use std::fmt;

use thiserror::Error;

/// A place in a file; line and column are counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Number of the line.
    pub line: usize,
    /// Number of the character in the line.
    pub column: usize,
}

impl Position {
    /// Returns the place of byte `offset` of `text`; the end of the text where the offset lies beyond it.
    pub(crate) fn of(text: &str, offset: usize) -> Self {
        let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
        let line_start = before.iter().rposition(|&b| b == b'\n').map_or(0, |i| i + 1);
        let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
        // A byte that continues a UTF-8 sequence starts no character.
        let starts = before[line_start..].iter().filter(|&&b| b & 0xC0 != 0x80);
        Self { line, column: starts.count() + 1 }
    }
}

/// A configuration that was refused; prints the mistake for which it was, as
/// `file:line:column: found; expected … (nearest: …)`.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub struct Error {
    /// Name of the file as the caller gave it.
    pub file: Box<str>,
    /// Place in the file; `None` if the file as a whole is meant.
    pub position: Option<Position>,
    /// Description of what stands there.
    pub found: String,
    /// Description of what may stand there; empty if `found` says what to do.
    pub expected: String,
    /// The valid word that looks most like the one found.
    pub nearest: Option<String>,
    /// Further mistakes in the file.
    pub others: Option<Box<Others>>,
}

/// Further mistakes in a file, in its order: keys that are unknown or missing. None of them has others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Others(Vec<Error>);

impl Error {
    /// Returns the mistake for which the file was refused, and then the others that were found, in the order of the file.
    pub fn each(&self) -> impl Iterator<Item = &Error> {
        let others = self.others.iter().flat_map(|others| &others.0);
        std::iter::once(self).chain(others)
    }

    /// Adds other mistakes of the file.
    pub(crate) fn beside(mut self, mut others: Vec<Error>) -> Self {
        others.retain(|other| *other != self);
        if !others.is_empty() {
            self.others = Some(Box::new(Others(others)));
        }
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(Position { line, column }) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.found)?;
        if !self.expected.is_empty() {
            write!(f, "; expected {}", self.expected)?;
        }
        match &self.nearest {
            Some(nearest) => write!(f, " (nearest: {nearest})"),
            None => Ok(()),
        }
    }
}

/// Returns the word of `known` that looks most like `word`, if one looks like it at all.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    const ALIKE: f64 = 0.7;
    // The comparison is quadratic in the length, and no valid word is long.
    let word: String = word.chars().take(64).flat_map(char::to_lowercase).collect();
    let likeness = |k: &str| {
        // A name that was made longer at its front is the same name, and so is one of which only the first word was changed.
        let longer = k.strip_suffix(&word).is_some_and(|front| front.ends_with('_'));
        let (rest, other) = (word.split_once('_'), k.split_once('_'));
        let changed = rest.is_some_and(|(_, rest)| {
            rest.contains('_') && other.is_some_and(|(_, other)| rest == other)
        });
        if !word.is_empty() && longer || changed { 1.0 } else { strsim::jaro_winkler(&word, k) }
    };
    known
        .into_iter()
        .map(|k| (likeness(k), k))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, k)| k.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters_from_one() {
        let text = "a\nbäc\n";
        assert_eq!(Position::of(text, 0), Position { line: 1, column: 1 });
        assert_eq!(Position::of(text, 2), Position { line: 2, column: 1 });
        assert_eq!(Position::of(text, 5), Position { line: 2, column: 3 });
        assert_eq!(Position::of(text, 7), Position { line: 3, column: 1 });
        assert_eq!(Position::of(text, 99), Position { line: 3, column: 1 });
    }

    #[test]
    fn nearest_finds_names_with_one_more_or_another_word_in_front() {
        let known =
            ["request_headers", "max_request_body", "stream_buffer", "connection_send_buffer"];
        assert_eq!(nearest("request_body", known).as_deref(), Some("max_request_body"));
        assert_eq!(nearest("send_buffer", known).as_deref(), Some("connection_send_buffer"));
        assert_eq!(nearest("stream_send_buffer", known).as_deref(), Some("connection_send_buffer"));
        assert_eq!(nearest("", ["a_"]), None);
    }

    #[test]
    fn nearest_forgives_typing_errors_and_nothing_else() {
        let known = ["idle_timeout", "initial_rtt", "migration"];
        assert_eq!(nearest("idle_timout", known).as_deref(), Some("idle_timeout"));
        assert_eq!(nearest("Migrate", known).as_deref(), Some("migration"));
        assert_eq!(nearest("xyz", known), None);
        assert_eq!(nearest("", known), None);
    }
}
