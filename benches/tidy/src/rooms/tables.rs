//! The tables: rooms of each crate from the highest to the lowest, and crates that only some of them may name.

use super::{Layers, Room};

const fn room(path: &'static str, uses: &'static [&'static str]) -> Room {
    Room { path, uses }
}

/// Every crate with rooms.
pub const LAYERS: &[Layers] = &[SERVER, HTTP, QUIC, BASE];

const SERVER: Layers = Layers {
    folder: "server",
    rooms: &[
        room("cli", &["boot", "doctor"]),
        room(
            "boot",
            &[
                "admin",
                "handover",
                "worker",
                "snapshot",
                "h3",
                "tcp",
                "acme",
                "doctor",
                "telemetry",
            ],
        ),
        room("admin", &["worker", "h3", "tcp"]),
        room("handover", &["worker"]),
        room("worker", &["snapshot", "h3", "tcp"]),
        room("snapshot", &["h3"]),
        room("h3", &[]),
        room("tcp", &["acme"]),
        room("acme", &["https"]),
        room("telemetry", &["https"]),
        room("https", &[]),
        room("doctor", &[]),
    ],
    // quiche stays where packets and frames are.
    crates: &[
        ("quiche", &["snapshot", "h3", "worker::turn"]),
        ("sluicegate_quic", &["boot", "admin", "worker", "snapshot", "h3"]),
        ("sluicegate_quic_client", &["cli::get"]),
        ("sluicegate_http", &["cli", "boot", "admin", "worker", "snapshot", "h3", "tcp"]),
        ("sluicegate_balance", &["cli"]),
        ("sluicegate_load", &["cli"]),
        (
            "sluicegate_dataplane",
            &["cli", "boot", "admin", "handover", "worker", "snapshot", "tcp", "doctor"],
        ),
        ("sluicegate_qlog", &["cli"]),
        ("sluicegate_base::overload", &["tcp"]),
        ("sluicegate_base::secrets", &["boot", "admin", "snapshot"]),
        ("sluicegate_base::tls", &["boot", "snapshot"]),
    ],
};

const HTTP: Layers = Layers {
    folder: "server/http",
    rooms: &[
        room(
            "gate",
            &["auth", "exchange", "files", "representation", "route", "identification", "peer"],
        ),
        room(
            "origin",
            &["auth", "exchange", "route", "fastcgi", "files", "representation", "proxy", "id_map"],
        ),
        room(
            "route",
            &[
                "auth",
                "exchange",
                "fastcgi",
                "files",
                "proxy",
                "identification",
                "peer",
                "authority",
                "field_name",
                "path",
                "rate_limit",
            ],
        ),
        room("fastcgi", &["exchange", "files", "proxy", "authority", "block", "path"]),
        room(
            "proxy",
            &["exchange", "peer", "block", "overhead", "path", "trusted_proxies", "websocket"],
        ),
        room("files", &["exchange", "representation", "store"]),
        room("representation", &["exchange", "store"]),
        room("store", &[]),
        room("auth", &["exchange"]),
        room("exchange", &["peer", "id_map", "path", "target"]),
        room("identification", &["field_name"]),
        room("peer", &["trusted_proxies"]),
        room("target", &["path"]),
        room("authority", &[]),
        room("block", &[]),
        room("date", &[]),
        room("field_name", &[]),
        room("id_map", &[]),
        room("overhead", &[]),
        room("path", &[]),
        room("rate_limit", &[]),
        room("trusted_proxies", &[]),
        room("websocket", &[]),
    ],
    crates: &[
        // Files are read by its `read_cached`: unsafe code is there.
        ("sluicegate_dataplane", &["files::disk"]),
        ("sluicegate_base::overload", &[]),
        ("sluicegate_base::secrets", &[]),
        ("sluicegate_base::tls", &[]),
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
                "refusal",
                "version",
                "holders",
                "timers",
                "prefetch",
                "rates",
                "reset",
                "connection_gauges",
                "ended_connections",
                "activity",
                "token",
                "cid",
                "header",
                "counters",
                "congestion",
                "recorder",
            ],
        ),
        room(
            "connection",
            &[
                "recorder",
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
                "ended_connections",
                "cid",
            ],
        ),
        room("settings", &["application", "token", "cid", "congestion"]),
        room("transport", &["application"]),
        room("expiry", &["counters"]),
        room("refusal", &["header", "cid"]),
        room("version", &["header"]),
        room("rates", &[]),
        room("header", &["cid", "counters"]),
        room("counters", &["token", "ecn", "congestion", "ended_connections", "recorder"]),
        room("token", &["cid"]),
        room("application", &["progress"]),
        room("cid", &[]),
        room("activity", &[]),
        room("congestion", &[]),
        room("connection_gauges", &[]),
        room("ecn", &[]),
        room("ended_connections", &[]),
        room("holders", &[]),
        room("path_size", &[]),
        room("prefetch", &[]),
        room("progress", &[]),
        room("recorder", &[]),
        room("reset", &[]),
        room("timers", &[]),
    ],
    crates: &[
        ("sluicegate_dataplane", &["endpoint", "connection", "settings", "cid"]),
        (
            "sluicegate_config",
            &[
                "endpoint",
                "connection",
                "settings",
                "transport",
                "expiry",
                "rates",
                "congestion",
                "cid",
            ],
        ),
    ],
};

const BASE: Layers = Layers {
    folder: "server/base",
    rooms: &[
        room(
            "tls",
            &["secrets", "observe", "clock", "entropy", "named_file", "self_signed", "signing"],
        ),
        room("signing", &["keys"]),
        room("clients", &["observe", "address"]),
        room("overload", &["clock"]),
        room("secrets", &["clock", "entropy", "named_file", "state_file"]),
        room("observe", &["address", "clock", "entropy"]),
        room("clock", &[]),
        room("entropy", &[]),
        room("named_file", &[]),
        room("address", &[]),
        room("networks", &[]),
        room("self_signed", &[]),
        room("affinity", &[]),
        room("descriptors", &[]),
        room("hash", &[]),
        room("token_bucket", &[]),
        room("keys", &[]),
        room("state_file", &[]),
    ],
    crates: &[],
};
