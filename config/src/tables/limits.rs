//! Bounds on what clients may hold.

use std::time::Duration;

use crate::error::Error;
use crate::schema::{GIB, KIB, MIB, TIB, count, duration, millis, seconds, size};
use crate::section::Section;

table! {
    /// Limits on connections, requests, memory and time that clients may take. Together they bound the memory that an
    /// attacker can make the server hold. A client is an IPv4 address or an IPv6 /56; behind a listener's
    /// trusted_proxies it is the one that they name, unless a key says otherwise. A request to a file or an upstream
    /// also needs a file descriptor: the server raises its soft limit of descriptors (ulimit -n) to the hard one and
    /// divides it among the workers; if a worker's part is used up, requests of the client that has most are ended, as
    /// for worker_buffer.
    #[derive(Eq)]
    pub struct Limits = [limits], check: check {
        /// Connections that a worker may have open, and as many again over TCP; further ones are refused (CONNECTION_REFUSED)
        /// where none gives way: first unfinished handshakes and connections that have brought no request in 3 s, then
        /// those that have been idle for longest, and over TCP those of the client that has most. Over QUIC they give
        /// way to clients that have proved their address (quic.retry_above), and of unfinished handshakes the oldest of
        /// the address that has most. An idle connection takes some tens of KiB, so choose it by the memory of the
        /// machine.
        connections_per_worker: u64 { kind: count(1, 10_000_000, "connections"), default: "20000", reload: Live },
        /// Connections that one client may have open at one worker; further ones are refused (CONNECTION_REFUSED). Here
        /// a client is always the sender of the packets, and a listener's trusted_proxies may have any number. Raise it
        /// if many people share an address, and lower it to hold back single attackers. A QUIC connection counts as its
        /// client's once the handshake or a Retry has proved the address. Unfinished handshakes that claim the address
        /// of a client make the next one prove it by a Retry when they would use up the share; with
        /// `quic.retry_above = "never"` they count as the client's own.
        connections_per_client: u64 { kind: count(1, 10_000_000, "connections"), default: "4096", reload: Live },
        /// Time in which a handshake must finish; otherwise the connection is closed. A shorter time frees memory
        /// sooner when attackers leave handshakes unfinished; a longer one helps clients on very bad links.
        handshake_timeout: Duration { kind: duration(millis(100), seconds(300)), default: "\"10s\"", reload: Live },
        /// Age at which a connection accepts no further requests: the client gets GOAWAY and opens another connection,
        /// and this one is closed once its requests are finished. Requests that come within a second of GOAWAY are
        /// still served. The server shortens the age of each connection by a random part, up to a tenth, so that
        /// clients do not all reconnect at once. Reconnecting spreads long-lived clients over the workers again and
        /// frees memory that a connection has accumulated. 0s sets no limit.
        connection_lifetime: Duration { kind: duration(seconds(0), seconds(30 * 86_400)), default: "\"1h\"", reload: Live },
        /// Requests after which a connection accepts no further ones and is closed, in the same way as after
        /// connection_lifetime. 0 sets no limit.
        requests_per_connection: u64 {
            kind: count(0, 1_000_000_000, "requests"),
            default: "0",
            examples: ["10000"],
            reload: Live
        },
        /// Time that requests get to finish after connection_lifetime or requests_per_connection; then the connection
        /// is closed and requests that are still open are cut off. Raise it if downloads take longer. 0s sets no limit. A
        /// connection with an open WebSocket or tunnel for UDP lives on until that has ended. Its timeout for silence bounds
        /// it: `tunnel_timeout` of [route.proxy] or `idle_timeout` of [route.connect_udp]. At the end of the process and of a
        /// removed listener, server.drain_timeout bounds both; when memory is short, the server may end them.
        connection_drain_timeout: Duration {
            kind: duration(seconds(0), seconds(30 * 86_400)),
            default: "\"1h\"",
            reload: Live
        },
        /// Requests that a client may have open on one connection (RFC 9000 §4.6). With less than 100, browsers begin
        /// to queue requests.
        max_concurrent_streams: u64 { kind: count(1, 65_536, "requests"), default: "128", reload: Live },
        /// Requests that a client may cancel on one connection in addition to half of those it has sent: with the
        /// default, 600 of 1000. If it cancels more, the connection is closed with H3_EXCESSIVE_LOAD. This stops
        /// clients that open and cancel requests to keep the server busy. Raise it if your pages cancel many downloads
        /// at once.
        cancelled_requests: u64 { kind: count(0, 1_000_000, "requests"), default: "100", reload: Live },
        /// Time that a request may wait for its client. It waits while the client's flow control stops the response or
        /// the client does not acknowledge it, while the request's head is incomplete, and while nothing of its body
        /// arrives. It does not wait for the client while the server has nothing to send, waits for an upstream or
        /// sends other responses first (but see client_min_rate), or while the server's own receive window is full.
        /// Bytes of the request itself win time back (client_min_rate), up to four times this limit in advance; PINGs
        /// and other requests win none. A request that has used up its time gets 408 if its body is missing and no
        /// response has begun; otherwise its stream is reset. sluicegate_http_requests_stalled_total counts such
        /// requests. Raise it for players that pause without closing the request, and for uploads with long pauses. 0s
        /// sets no limit.
        client_timeout: Duration { kind: duration(seconds(0), seconds(86_400)), default: "\"60s\"", reload: Live },
        /// Bytes per second that a request must move on average while it waits for its client: so many bytes win back
        /// one second of client_timeout. Counted are bytes of the request's body that the server has received, and of
        /// the response's body that it has passed to the QUIC stack. A response that waits behind others of its
        /// connection loses no time as long as the client acknowledges this rate for each response that waits so. If
        /// the client acknowledges less, a fifth of the time counts; if it acknowledges less than this rate in all, the
        /// whole time counts. The default suits slow links, and makes it costly to hold many requests open. Lower it
        /// for many parallel transfers over very slow links. With 0, a single byte wins back all.
        client_min_rate: u64 { kind: size(0, MIB), default: "240", reload: Live },
        /// Share of a worker's time, in percent, that received datagrams may take, with the frames of clients whose frames
        /// bring little. If they take more for 40 ms, the worker counts as overloaded for a second: it drops datagrams
        /// beyond about a hundred a second of each connection that neither acknowledge data nor bring any, as in floods of
        /// PING or PATH_CHALLENGE frames (RFC 9000 §21.9). One with many frames of HTTP/3 of fewer than 8 bytes each counts
        /// as several. The worker processes all other datagrams. sluicegate_datagrams_dropped_total counts the dropped ones for
        /// the reason `no_progress`. 100 drops none. Over TCP, it is the share of a thread's time that connections may
        /// take whose clients send much and achieve nothing by it: frames without meaning, or bodies in single bytes.
        /// Beyond it they are read ever more slowly, and closed after some seconds; 100 closes none.
        overload_above: u64 { kind: count(1, 100, "percent"), default: "50", reload: Live },
        /// Largest request body on routes without a `max_request_body` of their own, whatever their handler; a larger
        /// one gets 413. For uploads, set the key of their route instead.
        max_request_body: u64 { kind: size(0, TIB), default: "\"1MiB\"", examples: ["\"100MiB\""], reload: Live },
        /// Largest header section of a request, uncompressed (RFC 9114 §4.2.2). A larger one, or one of more than 128
        /// fields, of which all cookies are one, gets 431; one of more than twice the size closes the connection
        /// (H3_EXCESSIVE_LOAD). Raise it for clients with very large cookies.
        header_bytes: u64 { kind: size(KIB, MIB), default: "\"16KiB\"", reload: Live },
        /// Receive window of a connection: bytes that a client may send, on all streams together, before the server has
        /// read them (RFC 9000 §4.1). An upload gets at most one window per round trip. Not below stream_window.
        connection_window: u64 { kind: size(16 * KIB, GIB), default: "\"1MiB\"", reload: Live },
        /// Receive window of a single stream. Raise both windows for fast uploads over long paths.
        stream_window: u64 { kind: size(16 * KIB, GIB), default: "\"256KiB\"", reload: Live },
        /// Bytes of responses that may wait to be sent, on all streams of a connection together. Bytes that were sent
        /// but not yet acknowledged are not included; the congestion window bounds those, with the rest of a block of up
        /// to 64 KiB for each stream. Cached files are not copied; file_cache_entry bounds what a connection keeps of
        /// them. Lower it to serve more slow clients with the same memory. Over HTTP/2 each stream may hold 4 KiB beyond
        /// it, so that one whose client takes nothing stops no other.
        connection_send_buffer: u64 { kind: size(16 * KIB, 64 * MIB), default: "\"256KiB\"", reload: Live },
        /// Bytes of a body that are buffered between the client and a file or an upstream, for each request and in each
        /// direction. When the buffer is full, the faster side waits. Raise it for fast transfers with distant
        /// upstreams. The larger it is, the fewer requests with moving bodies fit into worker_buffer.
        stream_buffer: u64 { kind: size(32 * KIB, 16 * MIB), default: "\"128KiB\"", reload: Restart },
        /// Memory of a worker for the buffers of all its requests to files and upstreams, and as much again over TCP. A request takes 64 KiB of it
        /// at first, or twice stream_buffer if that is less; when its bodies move, up to twice stream_buffer, as long
        /// as half of the memory stays free. One client alone may use all of it. If it is used up, the client that has
        /// most gives way: its further requests get 503, and a request of a client that has less ends one of its open
        /// requests, by 503 or a reset (sluicegate_origin_exchanges_revoked_total). All workers together get half of
        /// server.memory_limit at most, whatever stands here: this bound is fair to clients, and that of the process is
        /// not. Lower it if memory is short. Not below stream_buffer.
        worker_buffer: u64 { kind: size(MIB, TIB), default: "\"1GiB\"", reload: Restart },
        /// Messages that may wait between a worker and its origin thread, which reads files and talks to upstreams, in
        /// each direction. If it is full, bodies wait and further requests get 503, except those of clients with no
        /// more requests open than a 64th of this number. Raise it if sluicegate_origin_messages_delayed_total grows.
        origin_queue: u64 { kind: count(64, 1 << 20, "messages"), default: "16384", reload: Restart },
        /// Connection IDs that each side may have in use (active_connection_id_limit, RFC 9000 §18.2). A client needs a
        /// spare one each time it changes networks.
        cids_per_connection: u64 { kind: count(2, 16, "connection IDs"), default: "4", reload: Live },
        /// Memory of the process for files that are requested often, which all workers share; 0 disables the cache.
        /// Files that have left it while they are sent may take as much again, and then requests are served from the disk.
        /// It gets 12 % of server.memory_limit at most, even if this key says more. Raise it towards the total size of the
        /// files that most requests ask for.
        file_cache: u64 { kind: size(0, TIB), default: "\"64MiB\"", reload: Live },
        /// Largest file that is cached. A response keeps its file in memory until the client has acknowledged it, even
        /// if the cache drops the file meanwhile. All responses share one copy. Raise it if larger files are requested
        /// often.
        file_cache_entry: u64 { kind: size(KIB, 64 * MIB), default: "\"256KiB\"", reload: Live },
        /// Time for which a cached file is served before it is checked for changes. One request then waits for the
        /// check, and others get the cached file meanwhile, so a change is visible after at most twice this time. A
        /// reload of the configuration does not shorten that. With 0s every request checks.
        file_cache_valid: Duration { kind: duration(seconds(0), seconds(3600)), default: "\"1s\"", reload: Live },
    }
}

fn check(limits: &mut Limits, section: &Section<'_>) -> Result<(), Error> {
    section.at_least(
        ("connection_window", limits.connection_window),
        ("stream_window", limits.stream_window),
    )?;
    section
        .at_least(("worker_buffer", limits.worker_buffer), ("stream_buffer", limits.stream_buffer))
}
