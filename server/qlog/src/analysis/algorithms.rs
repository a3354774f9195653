//! Algorithms of congestion control that followed each other.

use crate::event::Word;
use crate::text::duration;

/// Switches that are told one by one.
const MAX_TOLD: usize = 4;

/// What the switches of a trace say.
#[derive(Debug, Default)]
pub(super) struct Algorithms {
    /// Algorithm before the first switch.
    first: Word,
    /// Later ones with their times, ms.
    later: Vec<(Word, f64)>,
    /// Switches after those.
    more: u64,
}

impl Algorithms {
    pub(super) fn on_switch(&mut self, old: Word, new: Word, at: f64) {
        if self.later.len() == MAX_TOLD {
            self.more += 1;
            return;
        }
        if self.later.is_empty() {
            self.first = old;
        }
        self.later.push((new, at));
    }

    /// Returns the algorithms in words. `header` is what the trace says of itself, `begins_at` the age of the connection at its first event.
    pub(super) fn words(&self, header: Option<String>, begins_at: f64) -> Option<String> {
        if self.later.is_empty() {
            return header;
        }
        let mut words = match self.first.as_str() {
            "" => header.unwrap_or_else(|| "unknown".to_owned()),
            first => first.to_owned(),
        };
        for (name, at) in &self.later {
            words += &format!(", then {} from {}", name.as_str(), duration(begins_at + at));
        }
        if self.more > 0 {
            words += &format!(", and later switches: {}", self.more);
        }
        Some(words)
    }
}
