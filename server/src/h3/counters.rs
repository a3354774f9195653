//! What sessions count.

use super::Statuses;
use crate::observe::histogram::Histogram;
use crate::observe::metrics::{Page, Show};
use crate::observe::sum::summed;

summed! {
    /// Totals over the sessions that were given it; only ever rises.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Counters {
        /// Heads received, malformed and refused ones too.
        pub requests: u64,
        /// Response heads handed to a stream.
        pub responses: Statuses,
        /// From a request's head to the last byte of its response handed to the stream.
        pub latency: Histogram,
        /// Bytes of response bodies handed to streams.
        pub bytes_out: u64,
        /// Bytes of request bodies read and discarded.
        pub bytes_in: u64,
        /// Requests reset for a malformed or incomplete message.
        pub malformed: u64,
        /// Requests that the client gave up before the whole response was handed to their streams.
        pub cancelled: u64,
        /// Requests refused while draining.
        pub rejected: u64,
        /// Requests for files that the worker had in memory.
        pub from_memory: u64,
        /// Requests refused with 503 for want of room: running handlers, the origin's queue, memory, the client's share of it.
        pub overloaded: u64,
        /// Requests refused with 425: not safe, and in early data.
        pub too_early: u64,
        /// Responses reset because their handler failed half way.
        pub broken: u64,
        /// Connections closed for an error of the client, too many given-up requests included.
        pub errors: u64,
    }
}

impl Show for Counters {
    fn show(&self, page: &mut Page) {
        // Named one by one, so that none is forgotten.
        let Counters {
            responses,
            latency,
            requests,
            bytes_out,
            bytes_in,
            malformed,
            cancelled,
            rejected,
            from_memory,
            overloaded,
            too_early,
            broken,
            errors,
        } = self;
        for (name, help, value) in [
            (
                "sluicegate_http_requests_total",
                "Request heads received, malformed and refused ones too.",
                requests,
            ),
            (
                "sluicegate_http_request_body_bytes_total",
                "Bytes of request bodies.",
                bytes_in,
            ),
            (
                "sluicegate_http_response_body_bytes_total",
                "Bytes of response bodies handed to streams.",
                bytes_out,
            ),
            (
                "sluicegate_http_requests_malformed_total",
                "Requests reset for a malformed or incomplete message.",
                malformed,
            ),
            (
                "sluicegate_http_requests_cancelled_total",
                "Requests that the client gave up before the whole response was handed to their streams.",
                cancelled,
            ),
            (
                "sluicegate_http_requests_from_memory_total",
                "Requests for files that a worker had in memory.",
                from_memory,
            ),
            (
                "sluicegate_http_responses_broken_total",
                "Responses reset because their handler failed half way.",
                broken,
            ),
            (
                "sluicegate_http_connection_errors_total",
                "Connections closed for an error of the client.",
                errors,
            ),
        ] {
            page.counter(name, help, value);
        }
        show_refused([rejected, overloaded, too_early], page);
        responses.show(page);
        page.histogram(
            "sluicegate_http_request_duration_seconds",
            "From a request's head to the last byte of its response handed to the stream.",
            latency,
        );
    }
}

fn show_refused(counts: [&u64; 3], page: &mut Page) {
    let mut family = page.counters(
        "sluicegate_http_requests_refused_total",
        "Requests refused, by reason: draining; no room for another handler, in its queue, its memory or the client's share of it; not safe and in \
         early data.",
    );
    for (reason, count) in ["draining", "no_room", "early_data"]
        .into_iter()
        .zip(counts)
    {
        family.sample(&[("reason", reason)], count);
    }
}
