//! Values that must not occur twice in a file.

use std::collections::HashMap;
use std::hash::Hash;

use crate::error::{Error, Position};
use crate::section::Section;
use crate::source::Source;

/// Values that must not occur twice, with the byte where each stands.
pub(crate) struct Once<'a, T> {
    source: &'a Source<'a>,
    expected: &'a str,
    seen: HashMap<T, usize>,
}

impl<'a, T: Hash + Eq> Once<'a, T> {
    /// Returns an empty set; `expected` says what stands in place of a repetition.
    pub(crate) fn new(top: &Section<'a>, expected: &'a str) -> Self {
        Self { source: top.source, expected, seen: HashMap::new() }
    }

    /// Adds `value` at byte `at`; an error names both places.
    pub(crate) fn add(
        &mut self,
        at: usize,
        value: T,
        found: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        match self.seen.insert(value, at) {
            None => Ok(()),
            Some(first) => {
                let (file, Position { line, .. }) = self.source.place(first);
                let is_same = self.source.place(at).0 == file;
                let place =
                    if is_same { format!("on line {line}") } else { format!("in {file}:{line}") };
                let found = format!("{} again, first {place}", found());
                Err(self.source.error(at, found, self.expected))
            }
        }
    }
}
