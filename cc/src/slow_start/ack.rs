//! The input of slow start from an ACK, and its outcome.

use std::time::Duration;

use crate::Time;

/// The part of an ACK that counts in slow start, and the window that it finds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack {
    /// Time of the event.
    pub(crate) now: Time,
    /// Bytes acknowledged.
    pub(crate) bytes: u64,
    /// Round-trip sample of the ACK.
    pub(crate) sample: Option<Duration>,
    /// Newest round-trip sample.
    pub(crate) latest_rtt: Duration,
    /// Whether a round begins.
    pub(crate) new_round: bool,
    /// Bytes in flight after the ACK.
    pub(crate) in_flight: u64,
    /// Congestion window with the growth for the ACK, bytes.
    pub(crate) cwnd: u64,
    /// Initial window, bytes.
    pub(crate) initial_window: u64,
}

/// Outcome of an ACK besides its growth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing.
    Continue,
    /// Slow start goes on with a smaller window, bytes.
    Reduce(u64),
    /// Slow start is over. Its window, bytes, becomes the threshold.
    End(u64),
}
