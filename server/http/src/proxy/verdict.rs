//! Verdict of an upstream's health checks.

use std::sync::atomic::{AtomicBool, Ordering};

/// Verdict of an upstream's health checks, for all origin threads. One thread makes the checks.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    is_down: AtomicBool,
}

impl Verdict {
    /// Returns whether too many checks have failed.
    pub(super) fn is_down(&self) -> bool {
        self.is_down.load(Ordering::Relaxed)
    }

    /// Changes the verdict.
    pub(super) fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::Relaxed);
    }
}
