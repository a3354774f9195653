//! Errors of the library: one line with the step and the cause.

use thiserror::Error;

use crate::log;

/// Error of a call into the library.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{step}: {cause}")]
pub struct Error {
    /// The step that failed.
    pub step: String,
    /// The system's error, and the last line of the library's log if it wrote one.
    pub cause: String,
    /// Number of the system's error.
    pub errno: i32,
}

impl Error {
    /// Makes an error of the system's number, with what the library logged meanwhile.
    pub(crate) fn of(step: impl Into<String>, errno: i32) -> Self {
        let mut cause = std::io::Error::from_raw_os_error(errno).to_string();
        if let Some(line) = log::take_messages().pop() {
            cause = format!("{cause} ({line})");
        }
        Self { step: step.into(), cause, errno }
    }

    /// Makes an error whose cause this crate knows.
    pub(crate) fn because(step: impl Into<String>, cause: impl Into<String>) -> Self {
        Self { step: step.into(), cause: cause.into(), errno: 0 }
    }
}

/// Returns an error for a negative result, which is a negated error number.
pub(crate) fn check(step: &str, result: i32) -> Result<(), Error> {
    if result < 0 {
        return Err(Error::of(step, -result));
    }
    Ok(())
}
