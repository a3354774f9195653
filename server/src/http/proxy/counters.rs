//! What the proxy of one thread counts.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::failure::Failure;
use crate::observe::metrics::{Page, Show};
use crate::observe::sum::summed;

summed! {
    /// Totals since the start, and the states of the upstreams now.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Counters {
        /// Requests taken.
        pub requests: u64,
        /// Requests that cannot be passed on as they are: 4xx or 501.
        pub refused: u64,
        /// Final responses of upstreams passed on.
        pub answered: u64,
        /// Exchanges that the client gave up, or let stand still while it sent its body.
        pub cancelled: u64,
        /// Answers that were complete before the request was, so that the rest of it was stopped.
        pub early_answers: u64,
        /// Further attempts after one that failed.
        pub retries: u64,
        /// Lookups of upstreams' names.
        pub lookups: u64,
        /// Connections opened.
        pub opened: u64,
        /// Requests sent on a connection that had served another before.
        pub reused: u64,
        /// Idle connections that the upstream closed.
        pub idle_closed: u64,
        /// Idle connections closed for their age, or because there were too many.
        pub idle_dropped: u64,
        /// What went wrong, by [`Failure::index`]; with retries, one request can count several times.
        pub failures: [u64; Failure::ALL.len()],
        /// By address.
        pub upstreams: BTreeMap<String, State>,
    }
}

summed! {
    /// How an upstream is seen now.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct State {
        /// Exchanges that it serves.
        pub active: u64,
        /// Connections to it, idle ones included.
        pub connections: u64,
        /// Idle connections kept to it.
        pub idle: u64,
        /// How many threads have it out of rotation.
        pub out: u64,
        /// Failures since it is known.
        pub failures: u64,
    }
}

impl Show for Counters {
    fn show(&self, page: &mut Page) {
        // Named one by one, so that none is forgotten.
        let Counters {
            requests,
            refused,
            answered,
            cancelled,
            early_answers,
            retries,
            lookups,
            opened,
            reused,
            idle_closed,
            idle_dropped,
            failures,
            upstreams,
        } = self;
        for (name, help, value) in [
            ("requests", "Requests for upstreams.", requests),
            ("refused", "Requests that cannot be passed on.", refused),
            ("answered", "Whole responses passed back.", answered),
            ("cancelled", "Requests that the client gave up.", cancelled),
            (
                "early_answers",
                "Responses whole before their requests.",
                early_answers,
            ),
            (
                "retries",
                "Further attempts after one that failed.",
                retries,
            ),
            ("lookups", "Lookups of names of upstreams.", lookups),
            ("connections_opened", "Connections to upstreams.", opened),
            (
                "connections_reused",
                "Requests on a connection that had served another.",
                reused,
            ),
            (
                "idle_closed",
                "Idle connections that an upstream closed.",
                idle_closed,
            ),
            (
                "idle_dropped",
                "Idle connections that were old or too many.",
                idle_dropped,
            ),
        ] {
            page.counter(&format!("sluicegate_proxy_{name}_total"), help, value);
        }
        let mut family = page.counters(
            "sluicegate_proxy_failures_total",
            "What went wrong at upstreams.",
        );
        for (failure, count) in Failure::ALL.into_iter().zip(failures) {
            family.sample(&[("reason", failure.name())], count);
        }
        show_upstreams(page, upstreams);
    }
}

fn show_upstreams(page: &mut Page, upstreams: &BTreeMap<String, State>) {
    let gauges = [
        ("active", "Exchanges that an upstream serves."),
        ("connections", "Connections to an upstream."),
        ("idle", "Idle connections kept to an upstream."),
        ("out", "Threads that have an upstream out of rotation."),
    ];
    for (index, (name, help)) in gauges.into_iter().enumerate() {
        let name = format!("sluicegate_upstream_{name}");
        let mut family = page.gauges(&name, help);
        for (address, state) in upstreams {
            let (figures, _) = figures(state);
            family.sample(&[("upstream", address)], figures[index]);
        }
    }
    let mut family = page.counters(
        "sluicegate_upstream_failures_total",
        "Failures of an upstream since the configuration names it.",
    );
    for (address, state) in upstreams {
        let (_, failures) = figures(state);
        family.sample(&[("upstream", address)], failures);
    }
}

/// What is now, in the page's order, and failures so far.
fn figures(state: &State) -> ([u64; 4], u64) {
    let State {
        active,
        connections,
        idle,
        out,
        failures,
    } = *state;
    ([active, connections, idle, out], failures)
}

/// The counters while they count.
#[derive(Debug, Default)]
pub(super) struct Tally(RefCell<Counters>);

impl Tally {
    pub(super) fn count(&self, change: impl FnOnce(&mut Counters)) {
        change(&mut self.0.borrow_mut());
    }

    pub(super) fn totals(&self) -> Counters {
        self.0.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::sum::Sum;

    #[test]
    fn sums_of_threads_keep_upstreams_apart() {
        let state = |active| State {
            active,
            connections: 2,
            idle: 1,
            out: 1,
            failures: 4,
        };
        let mut one = Counters {
            requests: 3,
            ..Counters::default()
        };
        one.failures[Failure::Closed.index()] = 5;
        one.upstreams.insert("a:1".to_owned(), state(1));
        let mut sum = one.clone();
        one.upstreams.insert("b:1".to_owned(), state(7));
        sum.add_up(&one);
        assert_eq!(sum.requests, 6);
        assert_eq!(sum.failures[Failure::Closed.index()], 10);
        assert_eq!(sum.upstreams["a:1"].active, 2);
        assert_eq!(sum.upstreams["a:1"].failures, 8);
        assert_eq!(sum.upstreams["b:1"], state(7));

        let mut page = Page::default();
        sum.show(&mut page);
        let text = page.into_text();
        for line in [
            "sluicegate_proxy_requests_total 6",
            "sluicegate_proxy_failures_total{reason=\"closed\"} 10",
            "sluicegate_upstream_active{upstream=\"b:1\"} 7",
            "sluicegate_upstream_failures_total{upstream=\"a:1\"} 8",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}: {text}");
        }
    }
}
