//! The protocols: what a peer may hold, and how QUIC behaves.

use std::time::Duration;

/// What clients may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections of one worker.
    pub connections_per_worker: u64,
    /// Open requests of one connection.
    pub max_concurrent_streams: u64,
    /// Open connections of one worker from one client, an IPv4 address or an IPv6 /56.
    pub connections_per_client: u64,
    /// How long a handshake may take.
    pub handshake_timeout: Duration,
    /// Requests that a connection may give up before the share of them counts.
    pub given_up_requests: u64,
    /// Largest request body of routes that name none of their own, bytes.
    pub request_body: u64,
    /// Largest header section, uncompressed bytes.
    pub header_bytes: u64,
    /// Receive flow control of a connection, bytes; at least `stream_window`.
    pub connection_window: u64,
    /// Receive flow control of a stream, bytes.
    pub stream_window: u64,
    /// Bytes of a connection that may wait to be sent.
    pub send_buffer: u64,
    /// `active_connection_id_limit`.
    pub cids_per_connection: u64,
    /// Bytes of one exchange between a worker and its origin thread, each way.
    pub stream_buffer: u64,
    /// The same of all exchanges of a worker; at least `stream_buffer`.
    pub worker_buffer: u64,
    /// Messages that wait between a worker and its origin thread, each way.
    pub origin_queue: u64,
    /// Bytes of files that a worker keeps; 0: none.
    pub file_cache: u64,
    /// Largest file kept, bytes.
    pub file_cache_entry: u64,
    /// How long a kept file is answered before it is looked at again.
    pub file_cache_valid: Duration,
}

/// How connections behave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quic {
    /// Silence that ends a connection.
    pub idle_timeout: Duration,
    /// Unfinished handshakes of one worker from which on (`>=`) a Retry is asked; 0: always; `None`: never.
    pub retry_above: Option<u64>,
    /// How long a Retry token is accepted.
    pub retry_token_lifetime: Duration,
    /// Largest UDP payload sent, bytes.
    pub max_udp_payload: u64,
    /// Round-trip time before the first sample.
    pub initial_rtt: Duration,
    /// `max_ack_delay`, as clients are told it.
    pub ack_delay: Duration,
    /// Whether clients are told that they may change their address.
    pub migration: bool,
    /// Whether clients get tickets for resumption.
    pub session_tickets: bool,
    /// Whether requests may come with a resumed session's first packet; only where there are tickets.
    pub early_data: bool,
    /// How long a ticket can be used.
    pub session_lifetime: Duration,
    /// Stateless resets of one worker; 0: none.
    pub stateless_reset_per_second: u64,
}
