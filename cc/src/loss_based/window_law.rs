//! The part of a loss-based algorithm that is its own: how it adjusts the window.

use std::fmt::Debug;
use std::time::Duration;

use crate::pacing;
use crate::{EcnCounts, Rtt, Time};

/// The phase that congestion avoidance follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// Recovery: a congestion signal cut the window.
    Recovery,
    /// Slow start, without a cut: the window reached the threshold of an earlier cut, the delay rose, or a scalable response to
    /// CE marks reduced the window.
    SlowStart,
}

/// The ECN counts of one event, and what else a response to CE marks depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Feedback {
    /// Time of the event.
    pub(crate) now: Time,
    /// Packets that the event counts by their marks.
    pub(crate) ecn: EcnCounts,
    /// Newest packet that the event acknowledges.
    pub(crate) newest: Option<u64>,
    /// Number after the largest sent so far.
    pub(crate) next_packet: u64,
    /// Congestion window, bytes.
    pub(crate) cwnd: u64,
    /// Round-trip estimate.
    pub(crate) rtt: Rtt,
    /// Whether the event brought a round-trip sample.
    pub(crate) rtt_updated: bool,
    /// Whether the event acknowledges only packets that left before the latest cut, which explains their marks.
    pub(crate) is_explained: bool,
}

/// Response to the ECN counts of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Response {
    /// Its CE marks count as losses (RFC 9002 §7.1).
    AsLosses,
    /// The window, bytes, to continue with; it goes on growing.
    Reduce(u64),
    /// None: there is no mark, or an earlier response covers it.
    Nothing,
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
    /// Time that a burst may take to send at the pacing rate.
    const BURST: Duration = pacing::BURST;

    /// Takes the ECN counts of an event, which may be none, and returns the response. Called before the event's losses cut and its
    /// acknowledgements grow the window.
    fn respond(&mut self, _feedback: &Feedback) -> Response {
        Response::AsLosses
    }

    /// Returns the window, bytes, to continue with after a congestion signal at window `cwnd`.
    fn cut(&mut self, cwnd: u64) -> u64;

    /// Begins congestion avoidance at window `cwnd`.
    fn begin(&mut self, start: Start, cwnd: u64, mtu: u64);

    /// Returns the bytes that `credit` adds to the window. Called only while the window is in use.
    fn grow(&mut self, credit: &Credit) -> u64;
}
