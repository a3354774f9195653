//! What an algorithm of the frame states for itself.

use std::fmt::Debug;
use std::time::Duration;

/// How avoidance was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// After a cut.
    Recovery,
    /// Without a cut since slow start began: at the threshold that an earlier cut had left, or as the delay rose.
    SlowStart,
}

/// Acknowledged bytes that count for growth in avoidance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credit {
    /// How many.
    pub(crate) bytes: u64,
    /// The window they were acknowledged in.
    pub(crate) cwnd: u64,
    /// Datagram size.
    pub(crate) mtu: u64,
    /// Time since avoidance began, without pauses of the application.
    pub(crate) elapsed: Duration,
    /// Smoothed round-trip time.
    pub(crate) srtt: Duration,
}

/// What one loss-based algorithm does its own way.
pub(crate) trait Law: Clone + Debug + Send + Sync {
    /// A congestion signal at window `cwnd`: the window to go on with.
    fn cut(&mut self, cwnd: u64) -> u64;

    /// Avoidance begins.
    fn begin(&mut self, start: Start, cwnd: u64, mtu: u64);

    /// Bytes to add to the window. Called only where the window was in use.
    fn grow(&mut self, credit: &Credit) -> u64;
}
