//! Counters and gauges of a worker.

use sluicegate_base::observe::metrics::metrics;
use sluicegate_dataplane::{Counters as Datagrams, Features};
use sluicegate_http::exchange::ring::Depth;
use sluicegate_http::gate::RequestCounters;
use sluicegate_quic::connection_gauges::ConnectionGauges;
use sluicegate_quic::counters::QuicCounters;
use sluicegate_quic::endpoint::InitialShares;

use super::turn_times::TurnTimes;

metrics! {
    /// Totals of a worker's endpoint since the start.
    #[derive(Clone, Debug, Default)]
    pub struct EndpointCounters: Sum {
        /// Counters of QUIC.
        pub quic: QuicCounters = group,
        /// Counters of the HTTP/3 sessions.
        pub requests: RequestCounters = group,
    }
}

/// Counters of a worker since its start, and its gauges.
///
/// A further family of figures is a further field: the metrics page takes the struct apart, and does not compile without it.
#[derive(Clone, Debug, Default)]
pub struct WorkerStats {
    /// Name of the driver's backend.
    pub backend: &'static str,
    /// Offloads and modes that the driver uses.
    pub features: Features,
    /// Whether the worker polls before it sleeps.
    pub spin: &'static str,
    /// Counters of the endpoint and its sessions.
    pub endpoint: EndpointCounters,
    /// Counters of the driver.
    pub datagrams: Datagrams,
    /// Open connections.
    pub gauges: ConnectionGauges,
    /// Shares of Initial packets that the kernel passes.
    pub initials: InitialShares,
    /// Depth of the rings to the origin thread.
    pub origin: Depth,
    /// Durations of turns.
    pub times: TurnTimes,
}
