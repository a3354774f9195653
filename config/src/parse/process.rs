//! The tables of which there is one.

use crate::error::Error;
use crate::model::{Limits, Log, LogFormat, LogLevel, Qlog, QlogLevel, Quic, Server};
use crate::source::Section;
use crate::value::Item;

pub(super) fn server(table: Section<'_>) -> Result<Server, Error> {
    let server = Server {
        state_dir: table
            .item("state_dir")?
            .as_ref()
            .map(Item::path)
            .transpose()?,
        secrets_file: table
            .item("secrets_file")?
            .as_ref()
            .map(Item::path)
            .transpose()?,
        drain_timeout: table.given("drain_timeout")?.duration()?,
    };
    table.finish();
    Ok(server)
}

pub(super) fn limits(table: Section<'_>) -> Result<Limits, Error> {
    let limits = Limits {
        connections_per_worker: table.given("connections_per_worker")?.count()?,
        max_concurrent_streams: table.given("max_concurrent_streams")?.count()?,
        request_body: table.given("request_body")?.size()?,
        header_bytes: table.given("header_bytes")?.size()?,
        connection_window: table.given("connection_window")?.size()?,
        stream_window: table.given("stream_window")?.size()?,
        send_buffer: table.given("send_buffer")?.size()?,
        cids_per_connection: table.given("cids_per_connection")?.count()?,
    };
    at_least(
        &table,
        "connection_window",
        "stream_window",
        |key| match key {
            "connection_window" => limits.connection_window,
            _ => limits.stream_window,
        },
    )?;
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
        session_lifetime: table.given("session_lifetime")?.duration()?,
        stateless_reset_per_second: table.given("stateless_reset_per_second")?.count()?,
    };
    table.finish();
    Ok(quic)
}

pub(super) fn qlog(table: Section<'_>) -> Result<Qlog, Error> {
    let levels = [QlogLevel::Core, QlogLevel::Base, QlogLevel::Extra];
    let qlog = Qlog {
        sample_rate: table.given("sample_rate")?.ratio()?,
        directory: table
            .item("directory")?
            .as_ref()
            .map(Item::path)
            .transpose()?,
        level: table.given("level")?.choice(&levels)?,
        max_open_traces: table.given("max_open_traces")?.count()?,
        max_trace_bytes: table.given("max_trace_bytes")?.size()?,
        max_total_bytes: table.given("max_total_bytes")?.size()?,
        queue: table.given("queue")?.size()?,
    };
    if qlog.sample_rate > 0.0 && qlog.directory.is_none() {
        let found = format!(
            "`sample_rate` is {:?} without a `directory`",
            qlog.sample_rate
        );
        let at = table.position("sample_rate");
        return Err(table
            .source
            .error(at, found, "a `directory` for the traces, or 0"));
    }
    at_least(
        &table,
        "max_total_bytes",
        "max_trace_bytes",
        |key| match key {
            "max_total_bytes" => qlog.max_total_bytes,
            _ => qlog.max_trace_bytes,
        },
    )?;
    table.finish();
    Ok(qlog)
}

pub(super) fn log(table: Section<'_>) -> Result<Log, Error> {
    let levels = [
        LogLevel::Error,
        LogLevel::Warn,
        LogLevel::Info,
        LogLevel::Debug,
        LogLevel::Trace,
    ];
    let log = Log {
        level: table.given("level")?.choice(&levels)?,
        format: table
            .given("format")?
            .choice(&[LogFormat::Text, LogFormat::Json])?,
    };
    table.finish();
    Ok(log)
}

/// Refuses a size below another one; the error points at whichever of the two is given.
fn at_least(
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
