//! Figures of a connection that cost little to read.
//!
//! The build script places this file at `extension/figures.rs` of the patched source.

use std::time::Duration;

use crate::recovery::RecoveryOps;
use crate::BufFactory;
use crate::Connection;

/// Figures of a connection at a moment. Window, round-trip times and probe timeouts are those of the active path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Packets sent so far.
    pub sent_packets: usize,
    /// Bytes of packets sent so far.
    pub sent: u64,
    /// Bytes of packets that the peer has acknowledged so far.
    pub acked: u64,
    /// Packets declared lost so far.
    pub lost_packets: usize,
    /// Congestion window, bytes.
    pub window: usize,
    /// Bytes in flight.
    pub in_flight: usize,
    /// Slow start threshold, bytes; `None` while it is infinite.
    pub ssthresh: Option<u64>,
    /// Size of a full datagram, bytes.
    pub datagram: usize,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Latest round-trip time; zero before there is one.
    pub latest_rtt: Duration,
    /// Least round-trip time.
    pub min_rtt: Option<Duration>,
    /// Probe timeouts in a row.
    pub probe_timeouts: u32,
    /// Streams that have begun so far, by either side.
    pub streams_begun: u64,
    /// Streams that have ended so far.
    pub streams_ended: u64,
}

impl<F: BufFactory> Connection<F> {
    /// Returns the figures of this moment; `None` without an active path. Takes the same time however many streams there are.
    pub fn figures(&self) -> Option<Figures> {
        let recovery = &self.paths.get_active().ok()?.recovery;
        let (ssthresh, latest_rtt, probe_timeouts) = recovery.figures();
        let streams_begun = self.streams.begun();
        // The map knows its size.
        let open = self.streams.iter().size_hint().0 as u64;
        Some(Figures {
            sent_packets: self.sent_count,
            sent: self.sent_bytes,
            acked: self.acked_bytes,
            lost_packets: self.lost_count,
            window: recovery.cwnd(),
            in_flight: recovery.bytes_in_flight(),
            ssthresh,
            datagram: recovery.max_datagram_size(),
            rtt: recovery.rtt(),
            latest_rtt,
            min_rtt: recovery.min_rtt(),
            probe_timeouts,
            streams_begun,
            streams_ended: streams_begun.saturating_sub(open),
        })
    }
}
