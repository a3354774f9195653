//! Counters of one thread's proxy.

use std::cell::RefCell;
use std::collections::BTreeMap;

use sluicegate_base::observe::metrics::{PerLabel, metrics};

use super::failure::Failure;

metrics! {
    /// Totals since the start, and the states of the upstreams now.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct ProxyCounters: Sum {
        /// Requests for upstreams.
        pub requests: u64 = counter("sluicegate_proxy_requests_total"),
        /// Requests that cannot be forwarded.
        pub refused: u64 = counter("sluicegate_proxy_refused_total"),
        /// Whole responses forwarded.
        pub answered: u64 = counter("sluicegate_proxy_responses_total"),
        /// Requests that the client cancelled, or whose body it stopped sending.
        pub cancelled: u64 = counter("sluicegate_proxy_cancelled_total"),
        /// Responses that ended before their requests did.
        pub early_answers: u64 = counter("sluicegate_proxy_early_responses_total"),
        /// Attempts after one that failed.
        pub retries: u64 = counter("sluicegate_proxy_retries_total"),
        /// Attempts that were not made because `retry_budget` was used up.
        pub retries_refused: u64 = counter("sluicegate_proxy_retries_refused_total"),
        /// Requests that wait now because all upstreams of their pool have `max_connections`.
        pub waiting: u64 = gauge("sluicegate_proxy_waiting_requests"),
        /// Requests that found all upstreams of their pool with `max_connections`.
        pub queued: u64 = counter("sluicegate_proxy_queued_total"),
        /// Lookups of upstreams' host names.
        pub lookups: u64 = counter("sluicegate_proxy_name_lookups_total"),
        /// Lookups of upstreams' host names that found no address.
        pub lookups_failed: u64 = counter("sluicegate_proxy_name_lookups_failed_total"),
        /// Connections opened to upstreams.
        pub opened: u64 = counter("sluicegate_proxy_connections_opened_total"),
        /// Requests sent on a connection that had already served another request.
        pub reused: u64 = counter("sluicegate_proxy_connections_reused_total"),
        /// Idle connections that an upstream closed.
        pub idle_closed: u64 = counter("sluicegate_proxy_idle_closed_total"),
        /// Idle connections closed for their age or number.
        pub idle_dropped: u64 = counter("sluicegate_proxy_idle_dropped_total"),
        /// Failures of upstreams, by reason.
        pub failures: PerLabel<Failure> = counter("sluicegate_proxy_failures_total" by "reason"),
        /// States of the upstreams by address.
        pub upstreams: BTreeMap<String, UpstreamCounters> = each_configured("upstream"),
    }
}

metrics! {
    /// The counters of an upstream.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct UpstreamCounters: Sum {
        /// Requests that an upstream handles now.
        pub active: u64 = gauge("sluicegate_upstream_active_requests"),
        /// Connections to an upstream.
        pub connections: u64 = gauge("sluicegate_upstream_connections"),
        /// Idle connections kept to an upstream.
        pub idle: u64 = gauge("sluicegate_upstream_idle_connections"),
        /// Origin threads that send an upstream no requests because it failed.
        pub out: u64 = gauge("sluicegate_upstream_out_of_rotation"),
        /// Failures of an upstream.
        pub failures: u64 = counter("sluicegate_upstream_failures_total"),
        /// Whether health checks have taken an upstream out of rotation; of pools with other settings each counts.
        pub down: u64 = gauge("sluicegate_upstream_down"),
        /// Health checks of an upstream.
        pub checks: u64 = counter("sluicegate_upstream_health_checks_total"),
        /// Health checks of an upstream that failed.
        pub checks_failed: u64 = counter("sluicegate_upstream_health_checks_failed_total"),
    }
}

/// The counters of a thread, to be changed through a shared reference.
#[derive(Debug, Default)]
pub(super) struct Tally(RefCell<ProxyCounters>);

impl Tally {
    pub(super) fn count(&self, change: impl FnOnce(&mut ProxyCounters)) {
        change(&mut self.0.borrow_mut());
    }

    pub(super) fn totals(&self) -> ProxyCounters {
        self.0.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_base::observe::metrics::{Page, Show};
    use sluicegate_base::observe::sum::Sum;

    #[test]
    fn sums_of_threads_keep_upstreams_apart() {
        let state = |active| UpstreamCounters {
            active,
            connections: 2,
            idle: 1,
            out: 1,
            failures: 4,
            ..UpstreamCounters::default()
        };
        let mut one = ProxyCounters { requests: 3, ..ProxyCounters::default() };
        one.failures[Failure::Closed] = 5;
        one.upstreams.insert("a:1".to_owned(), state(1));
        let mut sum = one.clone();
        one.upstreams.insert("b:1".to_owned(), state(7));
        sum.add_up(&one);
        assert_eq!(sum.requests, 6);
        assert_eq!(sum.failures[Failure::Closed], 10);
        assert_eq!(sum.upstreams["a:1"].active, 2);
        assert_eq!(sum.upstreams["a:1"].failures, 8);
        assert_eq!(sum.upstreams["b:1"], state(7));

        let mut page = Page::default();
        sum.show(&mut page);
        let text = page.into_text();
        for line in [
            "sluicegate_proxy_requests_total 6",
            "sluicegate_proxy_failures_total{reason=\"closed\"} 10",
            "sluicegate_upstream_active_requests{upstream=\"b:1\"} 7",
            "sluicegate_upstream_failures_total{upstream=\"a:1\"} 8",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}: {text}");
        }
    }
}
