//! Formats of a line.

use std::io::Write;
use std::time::Duration;

use super::escape;
use super::record::{PathState, Record, UpstreamTimes};
use super::time;
use crate::observe::account::WaitTimes;
use crate::observe::metrics::Label as _;

/// Writes one JSON object without spaces. `worker` is the name of the worker that served the request.
pub(super) fn json(out: &mut Vec<u8>, record: &Record<'_>, worker: &str) {
    // Named one by one, so that none is forgotten.
    let Record {
        received,
        duration,
        client,
        proxy,
        listener,
        protocol,
        method,
        authority,
        path: _,
        query: _,
        status,
        bytes_sent,
        bytes_received,
        referer,
        user_agent,
        connection,
        algorithm,
        outcome,
        waits,
        path_state,
        upstream,
        attempts,
        upstream_times,
        cause,
        request_id,
        traceparent,
        tls: _,
        server_name: _,
        client_subject: _,
    } = record;
    out.extend_from_slice(b"{\"time\":\"");
    time::rfc3339(out, *received);
    match client.port() {
        0 => put(out, format_args!("\",\"client\":\"{}\"", client.ip())),
        _ => put(out, format_args!("\",\"client\":\"{client}\"")),
    }
    match proxy {
        Some(proxy) => put(out, format_args!(",\"proxy\":\"{proxy}\"")),
        None => put(out, format_args!(",\"proxy\":null")),
    }
    text(out, "listener", Some(listener.as_bytes()));
    text(out, "method", Some(method.as_bytes()));
    text(out, "authority", Some(authority.as_bytes()));
    text(out, "path", Some(&target(record)));
    put(out, format_args!(",\"protocol\":\"{protocol}\""));
    match status {
        Some(status) => put(out, format_args!(",\"status\":{status}")),
        None => put(out, format_args!(",\"status\":null")),
    }
    put(out, format_args!(",\"bytes_sent\":{bytes_sent}"));
    put(out, format_args!(",\"bytes_received\":{bytes_received}"));
    put(out, format_args!(",\"duration_us\":{}", duration.as_micros()));
    text(out, "referer", *referer);
    text(out, "user_agent", *user_agent);
    text(out, "worker", Some(worker.as_bytes()));
    json_connection(out, connection);
    text(out, "congestion_control", Some(algorithm.as_bytes()));
    put(out, format_args!(",\"outcome\":\"{}\"", outcome.name()));
    text(out, "upstream", upstream.map(str::as_bytes));
    put(out, format_args!(",\"attempts\":{attempts}"));
    json_times(out, *upstream_times);
    text(out, "cause", cause.map(str::as_bytes));
    text(out, "request_id", *request_id);
    text(out, "traceparent", *traceparent);
    json_tls(out, record);
    json_waits(out, waits);
    json_path_state(out, *path_state);
    out.extend_from_slice(b"}\n");
}

fn json_connection(out: &mut Vec<u8>, id: &[u8]) {
    out.extend_from_slice(b",\"connection\":\"");
    escape::hex(out, id);
    out.push(b'"');
}

fn json_times(out: &mut Vec<u8>, times: UpstreamTimes) {
    let UpstreamTimes { begun: _, connect, head, total } = times;
    micros(out, "upstream_connect_us", connect);
    micros(out, "upstream_us", head);
    micros(out, "upstream_total_us", total);
}

fn json_tls(out: &mut Vec<u8>, record: &Record<'_>) {
    let session = record.tls;
    let version = session.map(|session| session.version.as_bytes());
    text(out, "tls_version", version);
    let group = session.and_then(|session| session.group);
    text(out, "tls_group", group.map(str::as_bytes));
    match session {
        Some(session) => put(out, format_args!(",\"tls_resumed\":{}", session.resumed)),
        None => out.extend_from_slice(b",\"tls_resumed\":null"),
    }
    let cipher = session.and_then(|session| session.cipher);
    text(out, "tls_cipher", cipher.map(str::as_bytes));
    text(out, "tls_server_name", record.server_name.map(str::as_bytes));
    text(out, "tls_client", record.client_subject.map(str::as_bytes));
}

fn json_waits(out: &mut Vec<u8>, waits: &WaitTimes) {
    text(out, "wait_top", waits.longest().map(|(wait, _)| wait.name().as_bytes()));
    out.extend_from_slice(b",\"waits_us\":{");
    for (index, (wait, time)) in waits.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        put(out, format_args!("{comma}\"{}\":{}", wait.name(), time.as_micros()));
    }
    out.push(b'}');
}

fn json_path_state(out: &mut Vec<u8>, state: Option<PathState>) {
    micros(out, "rtt_us", state.and_then(|state| state.rtt));
    micros(out, "min_rtt_us", state.and_then(|state| state.min_rtt));
    for (key, value) in [
        ("congestion_window", state.map(|state| state.window)),
        ("delivery_rate", state.and_then(|state| state.delivery_rate)),
        ("retransmitted", state.map(|state| state.retransmitted)),
        ("timeouts", state.and_then(|state| state.timeouts)),
    ] {
        match value {
            Some(value) => put(out, format_args!(",\"{key}\":{value}")),
            None => put(out, format_args!(",\"{key}\":null")),
        }
    }
}

fn micros(out: &mut Vec<u8>, key: &str, time: Option<Duration>) {
    match time {
        Some(time) => put(out, format_args!(",\"{key}\":{}", time.as_micros())),
        None => put(out, format_args!(",\"{key}\":null")),
    }
}

fn text(out: &mut Vec<u8>, key: &str, content: Option<&[u8]>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
    match content {
        Some(content) => {
            out.push(b'"');
            escape::json(out, content);
            out.push(b'"');
        }
        None => out.extend_from_slice(b"null"),
    }
}

/// Writes `client - - [time] "request" status bytes "referer" "user agent"`. The status is `000` if there was none.
pub(super) fn combined(out: &mut Vec<u8>, record: &Record<'_>) {
    put(out, format_args!("{} - - [", record.client.ip()));
    time::common(out, record.received);
    out.extend_from_slice(b"] \"");
    escape::word(out, record.method.as_bytes());
    out.push(b' ');
    let target = match target(record) {
        // CONNECT has nothing else.
        target if target.is_empty() => record.authority.into(),
        target => target,
    };
    escape::word(out, &target);
    let status = record.status.unwrap_or(0);
    let (bytes, protocol) = (record.bytes_sent, record.protocol);
    put(out, format_args!(" {protocol}\" {status:03} {bytes} \""));
    escape::quoted(out, record.referer.unwrap_or(b"-"));
    out.extend_from_slice(b"\" \"");
    escape::quoted(out, record.user_agent.unwrap_or(b"-"));
    out.extend_from_slice(b"\"\n");
}

/// Writes the line of [`combined`], followed by upstream, number of attempts, seconds to the head of its response, cause,
/// request ID, trace context, seconds to get a connection to the upstream, seconds to the end of its response, TLS version,
/// group of the key exchange, whether the TLS session was resumed, cipher suite, the name that the client asked for (SNI),
/// the subject of its certificate, what the request waited for longest, and for how many seconds.
pub(super) fn extended(out: &mut Vec<u8>, record: &Record<'_>) {
    combined(out, record);
    out.pop();
    out.push(b' ');
    escape::word(out, record.upstream.unwrap_or("-").as_bytes());
    put(out, format_args!(" {} ", record.attempts));
    let UpstreamTimes { begun: _, connect, head, total } = record.upstream_times;
    seconds(out, head);
    out.push(b' ');
    escape::word(out, record.cause.unwrap_or("-").as_bytes());
    for field in [record.request_id, record.traceparent] {
        out.push(b' ');
        escape::word(out, field.unwrap_or(b"-"));
    }
    for time in [connect, total] {
        out.push(b' ');
        seconds(out, time);
    }
    match record.tls {
        Some(session) => {
            let group = session.group.unwrap_or("-");
            let kind = if session.resumed { "resumed" } else { "full" };
            let cipher = session.cipher.unwrap_or("-");
            put(out, format_args!(" {} {group} {kind} {cipher}", session.version));
        }
        None => out.extend_from_slice(b" - - - -"),
    }
    out.push(b' ');
    escape::word(out, record.server_name.unwrap_or("-").as_bytes());
    out.push(b' ');
    escape::word(out, record.client_subject.unwrap_or("-").as_bytes());
    let longest = record.waits.longest();
    put(out, format_args!(" {} ", longest.map_or("-", |(wait, _)| wait.name())));
    seconds(out, longest.map(|(_, time)| time));
    out.push(b'\n');
}

fn seconds(out: &mut Vec<u8>, time: Option<Duration>) {
    match time {
        Some(time) => put(out, format_args!("{:.6}", time.as_secs_f64())),
        None => out.push(b'-'),
    }
}

/// Returns path and query.
fn target(record: &Record<'_>) -> Vec<u8> {
    let mut target = record.path.as_bytes().to_vec();
    if let Some(query) = record.query {
        target.push(b'?');
        target.extend_from_slice(query.as_bytes());
    }
    target
}

fn put(out: &mut Vec<u8>, content: std::fmt::Arguments<'_>) {
    // Writing to memory cannot fail.
    let _ = out.write_fmt(content);
}

#[cfg(test)]
pub(super) mod tests;
