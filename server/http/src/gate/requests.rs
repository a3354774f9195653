//! Counters of the requests of a front.

use std::time::Duration;

use sluicegate_base::observe::account::WaitSums;
use sluicegate_base::observe::distribution::{Distribution, bounds};
use sluicegate_base::observe::histogram::Histogram;
use sluicegate_base::observe::metrics::{PerLabel, labels, metrics};

use super::{GateCounters, Statuses};

bounds! {
    /// Times of responses, seconds: what is in memory, on a disk, behind a network, and what makes a user wait.
    pub ResponseBounds = [0.001, 0.005, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 60.0];
}

labels! {
    /// Version of HTTP.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum HttpVersion {
        /// HTTP/1.0 and HTTP/1.1.
        Http1 = "http/1",
        /// HTTP/2.
        Http2 = "h2",
        /// HTTP/3.
        Http3 = "h3",
    }
}

labels! {
    /// Class of a response's body by its size: of one congestion window at the start, of seconds on a slow path, and more.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SizeClass {
        /// Up to 16 KiB.
        Small = "up_to_16KiB",
        /// Up to 1 MiB.
        Medium = "up_to_1MiB",
        /// More.
        Large = "more",
    }
}

impl SizeClass {
    fn of(bytes: u64) -> SizeClass {
        match bytes {
            0..=0x4000 => SizeClass::Small,
            0x4001..=0x10_0000 => SizeClass::Medium,
            _ => SizeClass::Large,
        }
    }
}

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
        /// Time from a request's head until the head of its final response is written to the stream, by protocol.
        pub first_byte: PerLabel<HttpVersion, Distribution<ResponseBounds>> =
            histogram("sluicegate_http_time_to_first_byte_seconds" by "protocol"),
        /// Time from a request's head until the last byte of its response is written to the stream, by protocol and size of the body.
        pub last_byte: PerLabel<HttpVersion, PerLabel<SizeClass, Distribution<ResponseBounds>>> =
            histogram("sluicegate_http_time_to_last_byte_seconds" by "protocol", "size"),
        /// Time that requests which have ended had spent waiting, by reason.
        pub waits: WaitSums = counter("sluicegate_http_request_wait_seconds_total" by "wait"),
    }
}

impl RequestCounters {
    /// Counts the head of a final response, written so long after that of its request.
    pub fn on_head(&mut self, status: u16, protocol: HttpVersion, after: Duration) {
        self.responses.record(status);
        self.first_byte[protocol].record(after.as_secs_f64());
    }

    /// Counts a response whose last byte was written so long after the head of its request; its body had so many bytes.
    pub fn on_complete(&mut self, protocol: HttpVersion, bytes: u64, after: Duration) {
        self.latency.record(after);
        self.last_byte[protocol][SizeClass::of(bytes)].record(after.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_counts_in_the_class_of_its_size() {
        let mut counters = RequestCounters::default();
        for bytes in [0, 16 << 10, (16 << 10) + 1, 1 << 20, (1 << 20) + 1, u64::MAX] {
            counters.on_complete(HttpVersion::Http2, bytes, Duration::from_millis(3));
        }
        for class in [SizeClass::Small, SizeClass::Medium, SizeClass::Large] {
            assert_eq!(counters.last_byte[HttpVersion::Http2][class].count(), 2);
            assert_eq!(counters.last_byte[HttpVersion::Http3][class].count(), 0);
        }
        assert_eq!(counters.latency.count(), 6);
    }
}
