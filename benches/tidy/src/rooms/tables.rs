//! The tables: rooms of each crate from the highest to the lowest, and crates that only some of them may name.

use super::{Layers, Room};

const fn room(path: &'static str, uses: &'static [&'static str]) -> Room {
    Room { path, uses }
}

/// Every crate with rooms.
pub const LAYERS: &[Layers] = &[SERVER, QUIC, BASE];

const SERVER: Layers = Layers {
    folder: "server",
    rooms: &[
        room("cli", &["boot", "http*"]),
        room("boot", &["admin", "worker", "snapshot", "h3", "tcp", "acme", "http*", "affinity"]),
        room("admin", &["worker", "h3", "tcp", "http*", "affinity"]),
        room("worker", &["snapshot", "h3", "tcp", "http*", "affinity"]),
        room("snapshot", &["h3", "http*"]),
        room("h3", &["http*"]),
        room("tcp", &["acme", "http*"]),
        room("acme", &[]),
        room("http::gate", &["http", "http::auth", "http::exchange", "http::files", "http::route"]),
        room(
            "http::origin",
            &[
                "http",
                "http::auth",
                "http::exchange",
                "http::route",
                "http::fastcgi",
                "http::files",
                "http::proxy",
                "affinity",
            ],
        ),
        room(
            "http::route",
            &[
                "http",
                "http::auth",
                "http::exchange",
                "http::fastcgi",
                "http::files",
                "http::proxy",
            ],
        ),
        room("http::fastcgi", &["http", "http::exchange", "http::files", "http::proxy"]),
        room("http::proxy", &["http", "http::exchange"]),
        room("http::files", &["http", "http::exchange"]),
        room("http::auth", &["http", "http::exchange", "affinity"]),
        room("http::exchange", &["http"]),
        room("http", &[]),
        room("affinity", &[]),
    ],
    // `http` knows no transport, and quiche stays where packets and frames are.
    crates: &[
        ("quiche", &["snapshot", "h3", "cli::get", "worker::turn"]),
        ("sluicegate_quic", &["boot", "admin", "worker", "snapshot", "h3"]),
        ("sluicegate_load", &["cli"]),
        (
            "sluicegate_dataplane",
            // Files are read by its `read_cached`: unsafe code is there.
            &["cli", "boot", "admin", "worker", "snapshot", "tcp", "http::files::disk"],
        ),
    ],
};

const QUIC: Layers = Layers {
    folder: "server/quic",
    rooms: &[
        room(
            "endpoint",
            &[
                "connection",
                "transport",
                "settings",
                "application",
                "relief",
                "refusal",
                "version",
                "holders",
                "half_open",
                "timers",
                "prefetch",
                "rates",
                "rate_limit",
                "initials",
                "reset",
                "connection_gauges",
                "activity",
                "token",
                "cid",
                "header",
                "counters",
                "congestion",
            ],
        ),
        room(
            "connection",
            &[
                "application",
                "progress",
                "path_size",
                "expiry",
                "activity",
                "reset",
                "holders",
                "ecn",
                "counters",
                "connection_gauges",
                "cid",
            ],
        ),
        room("settings", &["application", "token", "cid", "congestion"]),
        room("transport", &["application"]),
        room("expiry", &["counters"]),
        room("refusal", &["header", "cid"]),
        room("version", &["header"]),
        room("relief", &["holders"]),
        room("rates", &["rate_limit"]),
        room("header", &["cid", "counters"]),
        room("counters", &["token", "ecn", "congestion"]),
        room("token", &["cid"]),
        room("application", &[]),
        room("cid", &[]),
        room("activity", &[]),
        room("congestion", &[]),
        room("connection_gauges", &[]),
        room("ecn", &[]),
        room("half_open", &[]),
        room("holders", &[]),
        room("initials", &[]),
        room("path_size", &[]),
        room("prefetch", &[]),
        room("progress", &[]),
        room("rate_limit", &[]),
        room("reset", &[]),
        room("timers", &[]),
    ],
    crates: &[(
        "sluicegate_config",
        &["endpoint", "connection", "settings", "transport", "expiry", "rates", "congestion"],
    )],
};

const BASE: Layers = Layers {
    folder: "server/base",
    rooms: &[
        room("tls", &["secrets", "observe", "clock", "entropy", "named_file", "self_signed"]),
        room("clients", &["observe", "address"]),
        room("overload", &["clock"]),
        room("secrets", &["clock", "entropy", "named_file", "state_file"]),
        room("observe", &["address", "clock"]),
        room("clock", &[]),
        room("entropy", &[]),
        room("named_file", &[]),
        room("address", &[]),
        room("networks", &[]),
        room("self_signed", &[]),
        room("keys", &[]),
        room("state_file", &[]),
    ],
    crates: &[],
};
