//! Bounds on what clients may hold.

use std::time::Duration;

use crate::error::Error;
use crate::schema::{GIB, KIB, MIB, TIB, count, duration, millis, seconds, size};
use crate::section::Section;

table! {
    /// Limits on what clients may use of this machine. Together they bound the memory that an attacker can take.
    #[derive(Eq)]
    pub struct Limits = [limits], check: check {
        /// Open connections of one worker; further ones are refused. Choose it by memory: an idle connection holds some
        /// tens of KiB.
        connections_per_worker: u64 { kind: count(1, 10_000_000, "connections"), default: "20000", reload: Live },
        /// Open connections of one worker from one client: an IPv4 address or an IPv6 /56. Further ones are refused.
        /// Raise it where many people share an address, lower it to hold back a single attacker, but not below
        /// quic.retry_above: connections from forged addresses would then take up a client's share until their
        /// handshakes time out.
        connections_per_client: u64 { kind: count(1, 10_000_000, "connections"), default: "4096", reload: Live },
        /// Time that a handshake may take; then the connection is closed. Shorter frees memory sooner when attackers
        /// leave handshakes unfinished, longer helps clients on very bad links.
        handshake_timeout: Duration { kind: duration(millis(100), seconds(300)), default: "\"10s\"", reload: Live },
        /// Requests that a client may have open on one connection (RFC 9000 §4.6). Below 100, browsers begin to queue
        /// them.
        max_concurrent_streams: u64 { kind: count(1, 65_536, "requests"), default: "128", reload: Live },
        /// Requests that a client may cancel on one connection, beyond half of all it sends; then the connection is closed
        /// with H3_EXCESSIVE_LOAD. This stops clients that open and reset requests to keep the server busy. Raise it where
        /// pages cancel many downloads at once.
        cancelled_requests: u64 { kind: count(0, 1_000_000, "requests"), default: "100", reload: Live },
        /// Largest request body on every route that has no `max_request_body` of its own, whatever its handler; a
        /// larger one gets 413. Raise it where people upload, or better on that route alone.
        max_request_body: u64 { kind: size(0, TIB), default: "\"1MiB\"", examples: ["\"100MiB\""], reload: Live },
        /// Largest header section of a request, uncompressed (RFC 9114 §4.2.2); a larger one gets 431, and one of more
        /// than twice the size closes the connection. Raise it for clients with very large cookies.
        header_bytes: u64 { kind: size(KIB, MIB), default: "\"16KiB\"", reload: Live },
        /// Receive window of a connection: bytes that a client may send ahead of the reader on all streams (RFC 9000
        /// §4.1). Uploads run at most at one window per round trip. Not below stream_window.
        connection_window: u64 { kind: size(16 * KIB, GIB), default: "\"1MiB\"", reload: Live },
        /// Receive window of a single stream. Raise both for fast uploads over long paths.
        stream_window: u64 { kind: size(16 * KIB, GIB), default: "\"256KiB\"", reload: Live },
        /// Bytes of responses that may wait to be sent on all streams of a connection together. Bytes that are sent and
        /// not yet acknowledged come on top; the congestion window bounds those. Lower it to hold more slow clients in
        /// the same memory.
        stream_send_buffer: u64 { kind: size(16 * KIB, 64 * MIB), default: "\"256KiB\"", reload: Live },
        /// Bytes of one request or response body that are buffered between the client and a file or an upstream, in
        /// each direction; when they are full, the faster side waits. Raise it for fast transfers with distant
        /// upstreams; the larger it is, the fewer exchanges fit into worker_buffer and into one client's share of that.
        stream_buffer: u64 { kind: size(32 * KIB, 16 * MIB), default: "\"128KiB\"", reload: Restart },
        /// Bytes that all exchanges of a worker may buffer together, each counted with stream_buffer for either
        /// direction; a request beyond it gets 503. One client (an IPv4 address or an IPv6 /56) gets at most an eighth.
        /// Lower it where memory is short. Not below stream_buffer.
        worker_buffer: u64 { kind: size(MIB, TIB), default: "\"1GiB\"", reload: Restart },
        /// Messages that may wait between a worker and its origin thread, in each direction. Raise it where the metrics
        /// show that the queue is often full.
        origin_queue: u64 { kind: count(64, 1 << 20, "messages"), default: "4096", reload: Restart },
        /// Connection IDs that each side may have in use (active_connection_id_limit, RFC 9000 §18.2). Clients need a
        /// spare one for each change of network.
        cids_per_connection: u64 { kind: count(2, 16, "connection IDs"), default: "4", reload: Live },
        /// Memory of each worker for the files that are requested often; 0 keeps none. Raise it to the size of the
        /// files that make up most requests.
        file_cache: u64 { kind: size(0, TIB), default: "\"64MiB\"", reload: Restart },
        /// Largest file that the cache holds. Raise it where larger ones are requested often.
        file_cache_entry: u64 { kind: size(KIB, 64 * MIB), default: "\"256KiB\"", reload: Restart },
        /// Time that a cached file is served before the folder is checked again. One request waits for the check, the
        /// others get the cached file until it is done: a change is seen after twice the time at most. 0s checks every
        /// time.
        file_cache_valid: Duration { kind: duration(seconds(0), seconds(3600)), default: "\"1s\"", reload: Restart },
    }
}

fn check(limits: &mut Limits, section: &Section<'_>) -> Result<(), Error> {
    section.at_least(
        ("connection_window", limits.connection_window),
        ("stream_window", limits.stream_window),
    )?;
    section.at_least(
        ("worker_buffer", limits.worker_buffer),
        ("stream_buffer", limits.stream_buffer),
    )
}
