//! Bounds what a client sends beside the payload of its frames.

/// Bytes that it may send for each one of payload.
const RATIO: u64 = 8;

/// Returns the most bytes that a client may have sent for `payload` bytes, and `free` ones without any: frames that are empty or unknown
/// cost as much work as others, and achieve nothing.
pub fn allowed(payload: u64, free: u64) -> u64 {
    payload.saturating_mul(RATIO).saturating_add(free)
}
