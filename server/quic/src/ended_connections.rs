//! Figures of connections that have ended, by listener and congestion control algorithm.

use std::sync::Arc;

use sluicegate_base::observe::account::ConnectionWaitSums;
use sluicegate_base::observe::distribution::{Distribution, bounds};
use sluicegate_base::observe::metrics::{LabelValues, metrics};

bounds! {
    /// Round-trip times: within a building, a city, a continent, around the world, and behind full buffers.
    pub RttBounds = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 1.0];
    /// Shares of packets or bytes, of which the first is none at all.
    pub ShareBounds = [0.0, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25];
    /// Rates, bytes per second.
    pub RateBounds = [1e4, 1e5, 5e5, 1e6, 5e6, 1e7, 5e7, 1e8];
    /// Numbers of probe timeouts.
    pub TimeoutBounds = [0.0, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0];
}

metrics! {
    /// Figures of the connections that have completed their handshake and ended. A connection counts once, under the algorithm that it
    /// had at its end: while it runs, it is in the list of connections.
    #[derive(Clone, Debug, Default)]
    pub struct EndedConnections: Sum {
        /// Smoothed round-trip time of QUIC connections at their end, by listener and congestion control algorithm.
        pub rtt: Distribution<RttBounds> = histogram("sluicegate_connection_rtt_seconds"),
        /// Share of their packets that QUIC connections had lost at their end, by listener and congestion control algorithm.
        pub lost: Distribution<ShareBounds> = histogram("sluicegate_connection_loss_ratio"),
        /// Share of their bytes that QUIC connections had sent again at their end, by listener and congestion control algorithm.
        pub retransmitted: Distribution<ShareBounds> =
            histogram("sluicegate_connection_retransmitted_ratio"),
        /// Rate at which QUIC connections that have ended delivered data while any was in flight, by listener and congestion control algorithm.
        pub delivery_rate: Distribution<RateBounds> =
            histogram("sluicegate_connection_delivery_rate_bytes_per_second"),
        /// Probe timeouts of QUIC connections on the path of their end, by listener and congestion control algorithm.
        pub probe_timeouts: Distribution<TimeoutBounds> =
            histogram("sluicegate_connection_probe_timeouts"),
        /// Time that QUIC connections which have ended had spent waiting, by listener, congestion control algorithm and reason.
        pub waits: ConnectionWaitSums = counter("sluicegate_connection_wait_seconds_total" by "wait"),
    }
}

/// Listener and algorithm of connections.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionClass {
    /// Name of the listener.
    pub listener: Arc<str>,
    /// Name of the congestion control algorithm.
    pub algorithm: &'static str,
}

impl LabelValues for ConnectionClass {
    fn values(&self) -> impl Iterator<Item = &str> {
        [&*self.listener, self.algorithm].into_iter()
    }
}
