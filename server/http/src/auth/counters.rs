//! Counters of checked passwords.

use sluicegate_base::observe::metrics::metrics;

metrics! {
    /// Requests with credentials by the outcome, and the hashes that were computed for them.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct AuthCounters: Sum {
        /// Requests with a valid name and password.
        pub accepted: u64 = counter(
            "sluicegate_basic_auth_requests_total", result = "accepted";
            "Requests with a name and a password for a route with basic_auth, by result: valid (accepted); refused with 401 (refused); refused with 503, because too many passwords wait for a check (busy)."
        ),
        /// Requests refused with 401.
        pub refused: u64 = also(result = "refused"),
        /// Requests refused with 503, because too many passwords wait for a check.
        pub busy: u64 = also(result = "busy"),
        /// Hashes of passwords computed.
        pub hashes: u64 = counter("sluicegate_basic_auth_hashes_total"),
    }
}
