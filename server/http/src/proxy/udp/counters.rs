//! Counters of tunnels for UDP.

use sluicegate_base::observe::metrics::{PerLabel, metrics};

use super::refusal::TunnelRefusal;

metrics! {
    /// Counters of the tunnels for UDP of an origin thread.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct UdpTunnelCounters: Sum {
        /// Tunnels for UDP that are open.
        pub open: u64 = gauge("sluicegate_udp_tunnels"),
        /// Tunnels for UDP that were opened.
        pub opened: u64 = counter("sluicegate_udp_tunnels_opened_total"),
        /// Requests for a tunnel for UDP that were refused, by reason.
        pub refused: PerLabel<TunnelRefusal> = counter("sluicegate_udp_tunnels_refused_total" by "reason"),
        /// Tunnels for UDP that were reset because the client sent no capsules, a datagram that is too long, or far more capsules than payload.
        pub malformed: u64 = counter("sluicegate_udp_tunnels_malformed_total"),
        /// Datagrams that were sent to targets.
        pub to_targets: u64 = counter(
            "sluicegate_udp_tunnel_datagrams_total", to = "target";
            "Datagrams of tunnels for UDP that were passed on, by direction."
        ),
        /// Datagrams that were passed to clients.
        pub to_clients: u64 = also(to = "client"),
        /// Datagrams that the system did not take.
        pub dropped: u64 = counter("sluicegate_udp_tunnel_datagrams_dropped_total"),
    }
}
