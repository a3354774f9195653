//! Keys of what clients may hold.

use super::{GIB, Given, KIB, Key, Kind, MIB, TIB, Table, millis, seconds};

pub(crate) static LIMITS: Table = Table {
    name: "limits",
    many: false,
    summary: "What clients may hold of this machine. Together these bound the memory that an attacker can take.",
    keys: &[
        Key {
            name: "connections_per_worker",
            kind: Kind::Count {
                min: 1,
                max: 10_000_000,
                unit: "connections",
            },
            given: Given::Default("20000"),
            examples: &[],
            summary: "Open connections of one worker; a client beyond them is refused. Size it by memory: an idle \
                      connection holds some tens of KiB.",
        },
        Key {
            name: "connections_per_client",
            kind: Kind::Count {
                min: 1,
                max: 10_000_000,
                unit: "connections",
            },
            given: Given::Default("4096"),
            examples: &[],
            summary: "Open connections of one worker from one client: an IPv4 address or an IPv6 /56. One more is \
                      refused. Raise it where many people share an address, lower it to hold back a single attacker, but \
                      not below quic.retry_above: connections from forged addresses would then take up a client's \
                      share until their handshakes time out.",
        },
        Key {
            name: "handshake_timeout",
            kind: Kind::Duration {
                min: millis(100),
                max: seconds(300),
            },
            given: Given::Default("\"10s\""),
            examples: &[],
            summary: "How long a handshake may take; the connection is closed then. Shorter frees memory sooner when \
                      attackers leave handshakes unfinished, longer helps clients on very bad links.",
        },
        Key {
            name: "max_concurrent_streams",
            kind: Kind::Count {
                min: 1,
                max: 65_536,
                unit: "requests",
            },
            given: Given::Default("128"),
            examples: &[],
            summary: "Requests that a client may have open on one connection (RFC 9000 §4.6). Below 100, browsers \
                      start to queue.",
        },
        Key {
            name: "given_up_requests",
            kind: Kind::Count {
                min: 0,
                max: 1_000_000,
                unit: "requests",
            },
            given: Given::Default("100"),
            examples: &[],
            summary: "Requests that a client may give up on one connection, beyond half of all it sends; then the \
                      connection is closed with H3_EXCESSIVE_LOAD. This stops clients that open and reset requests to \
                      keep the server busy. Raise it where pages give up many downloads at once.",
        },
        Key {
            name: "request_body",
            kind: Kind::Size { min: 0, max: TIB },
            given: Given::Default("\"1MiB\""),
            examples: &["\"100MiB\""],
            summary: "Largest request body under every route that names no `request_body` of its own, whatever its \
                      handler; a larger one is answered with 413. Raise it where people upload, or better on that \
                      route alone.",
        },
        Key {
            name: "header_bytes",
            kind: Kind::Size { min: KIB, max: MIB },
            given: Given::Default("\"16KiB\""),
            examples: &[],
            summary: "Largest header section of a request, uncompressed (RFC 9114 §4.2.2); a larger one is answered \
                      with 431, and one of more than twice the size closes the connection. Raise it for clients with \
                      very large cookies.",
        },
        Key {
            name: "connection_window",
            kind: Kind::Size {
                min: 16 * KIB,
                max: GIB,
            },
            given: Given::Default("\"1MiB\""),
            examples: &[],
            summary: "Bytes that a client may send ahead of the reader on all streams of a connection (RFC 9000 \
                      §4.1). Uploads run at most at one window per round trip. Not below stream_window.",
        },
        Key {
            name: "stream_window",
            kind: Kind::Size {
                min: 16 * KIB,
                max: GIB,
            },
            given: Given::Default("\"256KiB\""),
            examples: &[],
            summary: "The same for a single stream. Raise both for fast uploads over long paths.",
        },
        Key {
            name: "send_buffer",
            kind: Kind::Size {
                min: 16 * KIB,
                max: 64 * MIB,
            },
            given: Given::Default("\"256KiB\""),
            examples: &[],
            summary: "Bytes of a connection's responses that may wait to be sent. What was sent and is not acknowledged \
                      comes on top; the congestion window bounds it. Lower it to hold more slow clients in the same \
                      memory.",
        },
        Key {
            name: "stream_buffer",
            kind: Kind::Size {
                min: 32 * KIB,
                max: 16 * MIB,
            },
            given: Given::Default("\"128KiB\""),
            examples: &[],
            summary: "Bytes of one request or response body that may lie between the client and a file or an \
                      upstream, each way; beyond them the faster side waits. Raise it for fast transfers with \
                      upstreams far away; the larger it is, the fewer exchanges fit into worker_buffer and into one \
                      client's part of that.",
        },
        Key {
            name: "worker_buffer",
            kind: Kind::Size { min: MIB, max: TIB },
            given: Given::Default("\"1GiB\""),
            examples: &[],
            summary: "What all exchanges of a worker together may hold, each counted with stream_buffer for either \
                      way; a request beyond it gets 503. One client (an IPv4 address or an IPv6 /56) gets at most \
                      an eighth. Lower it where memory is short. Not below stream_buffer.",
        },
        Key {
            name: "origin_queue",
            kind: Kind::Count {
                min: 64,
                max: 1 << 20,
                unit: "messages",
            },
            given: Given::Default("4096"),
            examples: &[],
            summary: "Messages that may wait between a worker and its origin thread, each way. Raise it where the \
                      metrics show that it is often full.",
        },
        Key {
            name: "cids_per_connection",
            kind: Kind::Count {
                min: 2,
                max: 16,
                unit: "connection IDs",
            },
            given: Given::Default("4"),
            examples: &[],
            summary: "Connection IDs that each side may have in use (active_connection_id_limit, RFC 9000 §18.2). \
                      Clients need a spare one for each change of network.",
        },
        Key {
            name: "file_cache",
            kind: Kind::Size { min: 0, max: TIB },
            given: Given::Default("\"64MiB\""),
            examples: &[],
            summary: "Memory of each worker for files that are asked for often; 0 keeps none. Raise it to the size of \
                      the files that make up most requests.",
        },
        Key {
            name: "file_cache_entry",
            kind: Kind::Size {
                min: KIB,
                max: 64 * MIB,
            },
            given: Given::Default("\"256KiB\""),
            examples: &[],
            summary: "Largest file that is kept. Raise it where larger ones are asked for often.",
        },
        Key {
            name: "file_cache_valid",
            kind: Kind::Duration {
                min: seconds(0),
                max: seconds(3600),
            },
            given: Given::Default("\"1s\""),
            examples: &[],
            summary: "How long a kept file is answered before the folder is looked at again. One request waits for \
                      that, the others get the old file until it is there: a change is seen after twice the time \
                      at most. 0s looks each time.",
        },
    ],
    specs: &[],
};
