//! Counters of the requests of a front.

use sluicegate_base::observe::account::WaitSums;
use sluicegate_base::observe::histogram::Histogram;
use sluicegate_base::observe::metrics::metrics;

use super::{GateCounters, Statuses};

metrics! {
    /// Totals over the connections of a front that share it; they only rise.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct RequestCounters: Sum {
        /// Request heads received, including malformed and refused ones.
        pub requests: u64 = counter("sluicegate_http_requests_total"),
        /// Bytes of request bodies.
        pub bytes_in: u64 = counter("sluicegate_http_request_body_bytes_total"),
        /// Bytes of response bodies written to streams.
        pub bytes_out: u64 = counter("sluicegate_http_response_body_bytes_total"),
        /// Requests reset for a malformed or incomplete message.
        pub malformed: u64 = counter("sluicegate_http_requests_malformed_total"),
        /// Requests with a larger head than the server reads.
        pub heads_too_large: u64 = counter(
            "sluicegate_http_heads_refused_total", reason = "too_large";
            "Requests of which the server read no whole head, by reason: it was far larger than limits.header_bytes (too_large), so the client got 431 or 414, or its connection of HTTP/3 was closed; it was malformed (malformed), so the client got 400, or its stream of HTTP/2 or HTTP/3 was reset; the client had as many streams of HTTP/2 open as it may (streams); or its connection was closed for an error (connection)."
        ),
        /// Requests whose head HTTP does not allow.
        pub heads_malformed: u64 = also(reason = "malformed"),
        /// Requests on streams of HTTP/2 beyond those that a client may open.
        pub heads_beyond_streams: u64 = also(reason = "streams"),
        /// Requests that ended with their connection before their heads were read.
        pub heads_ended: u64 = also(reason = "connection"),
        /// Requests that the client cancelled before the whole response was written to the stream.
        pub cancelled: u64 = counter("sluicegate_http_requests_cancelled_total"),
        /// Responses reset because their handler failed after their head was sent.
        pub broken: u64 = counter("sluicegate_http_responses_aborted_total"),
        /// Requests ended because their client did not take the response in time.
        pub stalled_responses: u64 = counter(
            "sluicegate_http_requests_stalled_total", waits_for = "response";
            "Requests ended because their client made no progress within limits.client_timeout, by what it did not do: take the response (response), send the request's head (head) or its body (body)."
        ),
        /// Requests ended because their client did not send the body in time.
        pub stalled_bodies: u64 = also(waits_for = "body"),
        /// Streams reset because their client did not send the head of the request in time.
        pub stalled_heads: u64 = also(waits_for = "head"),
        /// Connections closed because of an error of the client.
        pub errors: u64 = counter("sluicegate_http_connection_errors_total"),
        /// Decisions of the gate.
        pub gate: GateCounters = group,
        /// Response heads written to streams, by status.
        pub responses: Statuses = counter("sluicegate_http_responses_total" by "code"),
        /// Time from a request's head until the last byte of its response is written to the stream.
        pub latency: Histogram = histogram("sluicegate_http_request_duration_seconds"),
        /// Time that requests which have ended had spent waiting, by reason.
        pub waits: WaitSums = counter("sluicegate_http_request_wait_seconds_total" by "wait"),
    }
}
