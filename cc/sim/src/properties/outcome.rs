//! The result of a property check.

use sluicegate_cc::Snapshot;

use thiserror::Error;

/// Summary of a run in which every rule held.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Calls to the controller that change something in it, or could.
    pub calls: u64,
    /// Whether the consistent transport drove the controller.
    pub consistent: bool,
    /// The controller's state at the end.
    pub last: Snapshot,
}

/// A rule that a controller violated.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{algorithm}, call {call} ({name}): {rule}")]
pub struct Violation {
    /// The algorithm's name.
    pub algorithm: &'static str,
    /// Number of the call, counted from 1.
    pub call: u64,
    /// Name of the function called.
    pub name: &'static str,
    /// The rule, with the offending numbers.
    pub rule: String,
}
