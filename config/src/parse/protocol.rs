//! The protocols: what a peer may hold, and how QUIC behaves.

use crate::error::Error;
use crate::model::{Limits, Quic};
use crate::source::Section;

pub(super) fn limits(table: Section<'_>) -> Result<Limits, Error> {
    let limits = Limits {
        connections_per_worker: table.given("connections_per_worker")?.count()?,
        connections_per_client: table.given("connections_per_client")?.count()?,
        handshake_timeout: table.given("handshake_timeout")?.duration()?,
        max_concurrent_streams: table.given("max_concurrent_streams")?.count()?,
        given_up_requests: table.given("given_up_requests")?.count()?,
        request_body: table.given("request_body")?.size()?,
        header_bytes: table.given("header_bytes")?.size()?,
        connection_window: table.given("connection_window")?.size()?,
        stream_window: table.given("stream_window")?.size()?,
        send_buffer: table.given("send_buffer")?.size()?,
        stream_buffer: table.given("stream_buffer")?.size()?,
        worker_buffer: table.given("worker_buffer")?.size()?,
        origin_queue: table.given("origin_queue")?.count()?,
        cids_per_connection: table.given("cids_per_connection")?.count()?,
        file_cache: table.given("file_cache")?.size()?,
        file_cache_entry: table.given("file_cache_entry")?.size()?,
        file_cache_valid: table.given("file_cache_valid")?.duration()?,
    };
    let size = |key: &str| match key {
        "connection_window" => limits.connection_window,
        "stream_window" => limits.stream_window,
        "worker_buffer" => limits.worker_buffer,
        _ => limits.stream_buffer,
    };
    at_least(&table, "connection_window", "stream_window", size)?;
    at_least(&table, "worker_buffer", "stream_buffer", size)?;
    table.finish();
    Ok(limits)
}

pub(super) fn quic(table: Section<'_>) -> Result<Quic, Error> {
    let quic = Quic {
        idle_timeout: table.given("idle_timeout")?.duration()?,
        retry_above: table.given("retry_above")?.count_or_never()?,
        retry_token_lifetime: table.given("retry_token_lifetime")?.duration()?,
        max_udp_payload: table.given("max_udp_payload")?.size()?,
        initial_rtt: table.given("initial_rtt")?.duration()?,
        ack_delay: table.given("ack_delay")?.duration()?,
        migration: table.given("migration")?.switch()?,
        session_tickets: table.given("session_tickets")?.switch()?,
        early_data: table.given("early_data")?.switch()?,
        session_lifetime: table.given("session_lifetime")?.duration()?,
        stateless_reset_per_second: table.given("stateless_reset_per_second")?.count()?,
    };
    if quic.early_data && !quic.session_tickets {
        let found = "`early_data` is true without `session_tickets`";
        let expected = "`session_tickets` of true, or `early_data` of false";
        let at = table.position("early_data");
        return Err(table.source.error(at, found, expected));
    }
    table.finish();
    Ok(quic)
}

/// Refuses a size below another one; the error points at whichever of the two is given.
pub(super) fn at_least(
    table: &Section<'_>,
    larger: &str,
    smaller: &str,
    size: impl Fn(&str) -> u64,
) -> Result<(), Error> {
    if size(larger) >= size(smaller) {
        return Ok(());
    }
    let [large, small] = [larger, smaller].map(|key| crate::units::format_size(size(key)));
    let found = format!("`{larger}` is {large}, below `{smaller}`, which is {small}");
    let given = if table.raw(larger).is_some() {
        larger
    } else {
        smaller
    };
    let expected = format!("`{larger}` of at least `{smaller}`");
    Err(table.source.error(table.position(given), found, expected))
}
