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
            "Requests refused, by reason: the server drains (draining); no room in the origin thread's queue or its memory, of which no client holds more (no_room); memory is short (memory); an unsafe method in early data (early_data); a request for a tunnel (tunnel); a client that `allow` and `deny` of the route do not admit (denied); no credentials for a route with basic_auth (no_credentials); a client that sends more than `rate_limit` of the route allows (rate_limit)."
        ),
        /// Requests refused with 503, because there was no room for another handler: in the origin thread's queue or in its
        /// memory.
        pub overloaded: u64 = also(reason = "no_room"),
        /// Requests refused with 503, because the process has used up its memory budget.
        pub memory: u64 = also(reason = "memory"),
        /// Requests refused with 425: in early data, by an unsafe method or to a route with access rules.
        pub too_early: u64 = also(reason = "early_data"),
        /// Requests for a tunnel that their route does not open, refused with 501: CONNECT, with or without a protocol.
        pub tunnels: u64 = also(reason = "tunnel"),
        /// Requests refused with 403: the client may not use the route.
        pub denied: u64 = also(reason = "denied"),
        /// Requests refused with 401: the route asks for a password, and the request has none.
        pub no_credentials: u64 = also(reason = "no_credentials"),
        /// Requests refused with 429: the client sends more of them than the route's rate limit allows.
        pub rate_limited: u64 = also(reason = "rate_limit"),
    }
}
