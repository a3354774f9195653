//! The part of a loss-based algorithm that is its own: how it adjusts the window.

use std::fmt::Debug;
use std::time::Duration;

/// The phase that congestion avoidance follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// Recovery: a congestion signal cut the window.
    Recovery,
    /// Slow start, without a cut: the window reached the threshold of an earlier cut, or the delay rose.
    SlowStart,
}

/// Acknowledged bytes that count for growth in congestion avoidance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credit {
    /// Bytes acknowledged.
    pub(crate) bytes: u64,
    /// Congestion window in which they were acknowledged, bytes.
    pub(crate) cwnd: u64,
    /// Datagram size, bytes of UDP payload.
    pub(crate) mtu: u64,
    /// Time since avoidance began, without pauses of the application.
    pub(crate) elapsed: Duration,
    /// Smoothed round-trip time.
    pub(crate) srtt: Duration,
}

/// The window adjustment of one loss-based algorithm; [`super::LossBased`] does everything else.
pub(crate) trait WindowLaw: Clone + Debug + Send + Sync {
    /// Returns the window, bytes, to continue with after a congestion signal at window `cwnd`.
    fn cut(&mut self, cwnd: u64) -> u64;

    /// Begins congestion avoidance at window `cwnd`.
    fn begin(&mut self, start: Start, cwnd: u64, mtu: u64);

    /// Returns the bytes that `credit` adds to the window. Called only while the window is in use.
    fn grow(&mut self, credit: &Credit) -> u64;
}
