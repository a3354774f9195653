//! The time that quiche sees on this thread.
//!
//! A worker sets it once per turn, so that a packet costs no clock read; a simulation sets it to whatever it likes.

use std::cell::Cell;
use std::time::Instant;

thread_local!(static NOW: Cell<Option<Instant>> = const { Cell::new(None) });

/// Sets this thread's time; `None` returns to the system's monotonic clock.
pub fn set(time: Option<Instant>) {
    NOW.with(|now| now.set(time));
}

/// Returns this thread's time.
pub fn now() -> Instant {
    NOW.with(Cell::get).unwrap_or_else(Instant::now)
}
