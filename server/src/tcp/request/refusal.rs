//! Reasons to refuse a head.

/// Reason to refuse a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tcp) enum Refusal {
    /// The head is malformed: 400.
    Malformed,
    /// The client speaks another version of WebSocket: 426.
    Version,
    /// The field section is larger than the limit: 431.
    TooLarge,
}
