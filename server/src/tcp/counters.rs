//! Counters of the front over TCP.

use sluicegate_base::observe::metrics::metrics;

use sluicegate_http::exchange::local::LocalCounters;
use sluicegate_http::gate::RequestCounters;

metrics! {
    /// Counters of the connections over TCP. Those of their requests are added to those of HTTP/3.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct ConnectionCounters: Sum {
        /// Connections over TCP that are open.
        pub open: u64 = gauge("sluicegate_tcp_connections"),
        /// Connections accepted over TCP.
        pub accepted: u64 = counter("sluicegate_tcp_connections_accepted_total"),
        /// Connections refused because the worker has limits.connections_per_worker, or no descriptor left.
        pub refused_worker: u64 = counter(
            "sluicegate_tcp_connections_refused_total", reason = "worker";
            "Connections over TCP that were closed at once, by reason: the worker has as many as it may (worker), the client has (client), memory is short (memory), the system refused to accept (system), or a load balancer sent no valid header of the PROXY protocol (proxy_header)."
        ),
        /// Connections refused because the client has limits.connections_per_client.
        pub refused_client: u64 = also(reason = "client"),
        /// Connections refused because the process has used up its memory budget.
        pub refused_memory: u64 = also(reason = "memory"),
        /// Attempts to accept a connection that the system refused, for instance because no descriptor was left.
        pub refused_system: u64 = also(reason = "system"),
        /// Connections of proxy_protocol of a listener that did not begin with its header, or not in time.
        pub refused_header: u64 = also(reason = "proxy_header"),
        /// TLS handshakes that could go on, and wait for their turn.
        pub handshakes_waiting: u64 = gauge("sluicegate_tcp_handshakes_waiting"),
        /// TLS handshakes that failed.
        pub handshakes_failed: u64 = counter(
            "sluicegate_tcp_handshakes_failed_total", reason = "error";
            "TLS handshakes over TCP that did not finish, by reason: an error of either side (error), limits.handshake_timeout (timeout), or a client without a valid certificate of client_ca (client_certificate)."
        ),
        /// TLS handshakes that took longer than limits.handshake_timeout.
        pub handshakes_timed_out: u64 = also(reason = "timeout"),
        /// TLS handshakes of clients without a certificate, or with one that client_ca of the listener does not vouch for.
        pub handshakes_uncertified: u64 = also(reason = "client_certificate"),
        /// Requests by HTTP/1.0 and HTTP/1.1.
        pub http1: u64 = counter(
            "sluicegate_tcp_requests_total", protocol = "http/1";
            "Requests over TCP, by protocol; sluicegate_http_requests_total counts them, too."
        ),
        /// Requests by HTTP/2.
        pub http2: u64 = also(protocol = "h2"),
        /// Connections closed because the client cancelled too many requests.
        pub closed_abuse: u64 = counter(
            "sluicegate_tcp_connections_closed_total", reason = "cancelled_requests";
            "Connections over TCP that the server closed because of their client, by reason: it cancelled too many requests (cancelled_requests), it sent much that achieved nothing while the thread was overloaded (no_progress), it made no progress (stalled), it broke the protocol (protocol); or for another client when the worker had as many as it may: one that had brought no request (unfinished), an idle one (idle), or one of the client that had most of them (connections); or because memory was short and its client held most of it (memory)."
        ),
        /// Connections closed because the client sent much that achieved nothing while the thread was overloaded.
        pub closed_no_progress: u64 = also(reason = "no_progress"),
        /// Connections closed because the client made no progress.
        pub closed_stalled: u64 = also(reason = "stalled"),
        /// Connections closed because the client broke the protocol, or sent what hyper or h2 does not accept.
        pub closed_protocol: u64 = also(reason = "protocol"),
        /// Connections closed because their client had most of them when the worker had as many as it may.
        pub closed_connections: u64 = also(reason = "connections"),
        /// Connections closed because they had brought no request when the worker had as many as it may.
        pub closed_unfinished: u64 = also(reason = "unfinished"),
        /// Connections closed because they were idle when the worker had as many as it may.
        pub closed_idle: u64 = also(reason = "idle"),
        /// Connections closed because their client held most memory when it was short.
        pub closed_memory: u64 = also(reason = "memory"),
        /// Exchanges of requests that handlers got.
        pub exchanges: LocalCounters = group,
    }
}

/// Counters of a front over TCP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpCounters {
    /// Counters of its connections.
    pub connections: ConnectionCounters,
    /// Counters of its requests, which mean the same as those of HTTP/3.
    pub requests: RequestCounters,
}
