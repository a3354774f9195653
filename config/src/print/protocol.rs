//! The protocols: what a peer may hold, and how QUIC behaves.

use super::{Values, text};
use crate::model::{Limits, Quic};
use crate::schema::{toml_duration, toml_size};

pub(super) fn limits(limits: &Limits) -> Values {
    vec![
        (
            "connections_per_worker",
            Some(limits.connections_per_worker.to_string()),
        ),
        (
            "connections_per_client",
            Some(limits.connections_per_client.to_string()),
        ),
        (
            "handshake_timeout",
            Some(toml_duration(limits.handshake_timeout)),
        ),
        (
            "max_concurrent_streams",
            Some(limits.max_concurrent_streams.to_string()),
        ),
        (
            "given_up_requests",
            Some(limits.given_up_requests.to_string()),
        ),
        ("request_body", Some(toml_size(limits.request_body))),
        ("header_bytes", Some(toml_size(limits.header_bytes))),
        (
            "connection_window",
            Some(toml_size(limits.connection_window)),
        ),
        ("stream_window", Some(toml_size(limits.stream_window))),
        ("send_buffer", Some(toml_size(limits.send_buffer))),
        ("stream_buffer", Some(toml_size(limits.stream_buffer))),
        ("worker_buffer", Some(toml_size(limits.worker_buffer))),
        ("origin_queue", Some(limits.origin_queue.to_string())),
        (
            "cids_per_connection",
            Some(limits.cids_per_connection.to_string()),
        ),
        ("file_cache", Some(toml_size(limits.file_cache))),
        ("file_cache_entry", Some(toml_size(limits.file_cache_entry))),
        (
            "file_cache_valid",
            Some(toml_duration(limits.file_cache_valid)),
        ),
    ]
}

pub(super) fn quic(quic: &Quic) -> Values {
    let retry_above = quic
        .retry_above
        .map_or_else(|| text("never"), |count| count.to_string());
    vec![
        ("idle_timeout", Some(toml_duration(quic.idle_timeout))),
        ("retry_above", Some(retry_above)),
        (
            "retry_token_lifetime",
            Some(toml_duration(quic.retry_token_lifetime)),
        ),
        ("max_udp_payload", Some(toml_size(quic.max_udp_payload))),
        ("initial_rtt", Some(toml_duration(quic.initial_rtt))),
        ("ack_delay", Some(toml_duration(quic.ack_delay))),
        ("migration", Some(quic.migration.to_string())),
        ("session_tickets", Some(quic.session_tickets.to_string())),
        ("early_data", Some(quic.early_data.to_string())),
        (
            "session_lifetime",
            Some(toml_duration(quic.session_lifetime)),
        ),
        (
            "stateless_reset_per_second",
            Some(quic.stateless_reset_per_second.to_string()),
        ),
    ]
}
