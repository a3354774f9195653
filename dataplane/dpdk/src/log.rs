//! The library's log: its warnings and errors, kept until somebody takes them.
#![expect(unsafe_code, reason = "the library calls back with a pointer")]

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Lines kept; the oldest are dropped.
const KEPT: usize = 32;
/// Longest line that is kept, bytes.
const LINE: usize = 400;

static LINES: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// Takes the lines that the library logged since the last call, oldest first. Only warnings and errors are logged.
pub fn take_messages() -> Vec<String> {
    let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    lines.drain(..).collect()
}

/// Keeps what the library writes to its log.
pub(crate) extern "C" fn on_line(bytes: *const u8, len: usize) {
    if bytes.is_null() {
        return;
    }
    // SAFETY: the shim passes on the buffer of a stream's write function, which holds `len` bytes for the length of the
    // call.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, len.min(LINE)) };
    let text = String::from_utf8_lossy(bytes);
    let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if lines.len() == KEPT {
            lines.pop_front();
        }
        lines.push_back(line.to_owned());
    }
}
