//! What a worker answers when it is asked.

use sluicegate_dataplane::Counters as Datagrams;

use crate::http::exchange::ring::Depth;
use crate::quic::connection_gauges::ConnectionGauges;
use crate::quic::counters::Counters;

/// What a worker did and holds, at one moment.
///
/// A further family of figures is a further field: the metrics page takes the struct apart, and does not compile without it.
#[derive(Clone, Debug, Default)]
pub struct WorkerStats {
    /// Name of its driver.
    pub backend: &'static str,
    /// Of its endpoint.
    pub endpoint: Counters,
    /// Of its driver.
    pub datagrams: Datagrams,
    /// Its connections.
    pub gauges: ConnectionGauges,
    /// Its link to the origin thread.
    pub origin: Depth,
}
