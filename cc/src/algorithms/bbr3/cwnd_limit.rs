//! Detects that the window limits the bytes in flight.

/// Full use of the window in this round and in the one before.
#[derive(Debug, Default)]
pub(super) struct CwndLimit {
    this_round: bool,
    last_round: bool,
}

impl CwndLimit {
    /// Notes whether a packet that left filled the window.
    pub(super) const fn note(&mut self, is_full: bool) {
        self.this_round |= is_full;
    }

    /// Begins a round.
    pub(super) const fn next_round(&mut self) {
        self.last_round = self.this_round;
        self.this_round = false;
    }

    /// Returns whether the window was full in this round or the one before.
    pub(super) const fn get(&self) -> bool {
        self.this_round || self.last_round
    }
}
