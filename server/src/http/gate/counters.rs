//! Counters of the gate.

use crate::observe::metrics::metrics;

metrics! {
    /// Counters of a front's gate; they only rise.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Counters: Sum {
        /// Responses with a file from a worker's memory.
        pub from_memory: u64 = counter("sluicegate_file_cache_hits_total"),
        /// Requests refused while draining.
        pub rejected: u64 = counter(
            "sluicegate_http_requests_refused_total", reason = "draining";
            "Requests refused, by reason: draining; no room for another handler, in its queue, its memory or the client's share of it; not safe and in early data; asking for a tunnel."
        ),
        /// Requests refused with 503 for want of room: running handlers, the origin's queue, memory, the client's share of it.
        pub overloaded: u64 = also(reason = "no_room"),
        /// Requests refused with 425: not safe, and in early data.
        pub too_early: u64 = also(reason = "early_data"),
        /// Requests refused with 501: CONNECT, with a protocol or without.
        pub tunnels: u64 = also(reason = "tunnel"),
    }
}
