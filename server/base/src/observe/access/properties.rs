//! Invariants of every line of the access log, whatever a client sent.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;

use super::escape::{CUT, MAX_FIELD};
use super::{Outcome, Record, UpstreamTimes, format};
use crate::address::ValidatedAddress;
use crate::observe::account::WaitTimes;
use crate::observe::unprintable::is_unprintable;
use crate::properties::Bytes;

/// Members of a line in JSON.
const MEMBERS: usize = 40;

/// Writes a request into a line of each format, and reads it back. `true`, as every string is a request.
pub fn line(bytes: &[u8]) -> bool {
    let mut bytes = Bytes::new(bytes);
    let (seconds, micros) = (bytes.array(), bytes.array());
    let client = ValidatedAddress::from(SocketAddr::from((
        bytes.array::<16>(),
        u16::from_be_bytes(bytes.array()),
    )));
    let status = bytes.one_of(&[None, Some(100), Some(200), Some(599)]);
    let sent = [0; 4].map(|_: u8| bytes.text());
    let [method, authority, path, query] = &sent;
    let query = Some(query.as_str()).filter(|query| !query.is_empty());
    let [connection, referer, agent] = [0; 3].map(|_: u8| bytes.part());
    let record = Record {
        received: Duration::from_secs(u64::from_be_bytes(seconds)),
        duration: Duration::from_micros(u64::from_be_bytes(micros)),
        client,
        proxy: None,
        listener: "main",
        protocol: "HTTP/3",
        method,
        authority,
        path,
        query,
        status,
        bytes_sent: u64::MAX,
        bytes_received: 0,
        referer: Some(referer).filter(|referer| !referer.is_empty()),
        user_agent: Some(agent),
        connection,
        algorithm: "cubic",
        outcome: Outcome::Complete,
        waits: WaitTimes::default(),
        path_state: None,
        upstream: None,
        attempts: 0,
        upstream_times: UpstreamTimes::default(),
        cause: None,
        request_id: None,
        traceparent: None,
        tls: None,
        server_name: None,
        client_subject: None,
    };
    check_json(&record);
    check_combined(&record);
    true
}

/// Returns what a reader finds: U+FFFD for what is no text, and the end cut off where it is long.
fn shown(field: &[u8]) -> String {
    let (start, end) =
        if field.len() > MAX_FIELD { (&field[..MAX_FIELD], CUT) } else { (field, "") };
    String::from_utf8_lossy(start).into_owned() + end
}

fn target(record: &Record<'_>) -> String {
    let query = record.query.map(|query| format!("?{query}"));
    format!("{}{}", record.path, query.unwrap_or_default())
}

fn check_json(record: &Record<'_>) {
    let mut out = Vec::new();
    format::json(&mut out, record, "default-0");
    let line = String::from_utf8(out).expect("a line in UTF-8");
    let line = line.strip_suffix('\n').expect("a line's end");
    assert!(!line.contains(is_unprintable), "{line}");
    let parsed: Value = serde_json::from_str(line).expect("JSON");
    assert_eq!(parsed.as_object().map(|object| object.len()), Some(MEMBERS));
    let (method, authority) = (record.method.as_bytes(), record.authority.as_bytes());
    assert_eq!(parsed["method"], shown(method));
    assert_eq!(parsed["authority"], shown(authority));
    assert_eq!(parsed["path"], shown(target(record).as_bytes()));
    assert_eq!(parsed["referer"].as_str(), record.referer.map(shown).as_deref());
    assert_eq!(parsed["user_agent"].as_str(), record.user_agent.map(shown).as_deref());
    // A trusted proxy may name no port.
    let client = match record.client.port() {
        0 => record.client.ip().to_string(),
        _ => record.client.to_string(),
    };
    assert_eq!(parsed["client"], client);
    assert_eq!(parsed["status"].as_u64(), record.status.map(u64::from));
}

fn check_combined(record: &Record<'_>) {
    let mut out = Vec::new();
    format::combined(&mut out, record);
    let line = String::from_utf8(out).expect("a line in ASCII");
    let line = line.strip_suffix('\n').expect("a line's end");
    assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line}");
    let quoted: Vec<&str> = line.split('"').collect();
    let [front, request, figures, _, " ", _, ""] = quoted[..] else {
        panic!("{line}");
    };
    assert_eq!(front.split(' ').count(), 6, "{line}");
    assert_eq!(request.split(' ').count(), 3, "{line}");
    assert_eq!(figures.split(' ').count(), 4, "{line}");
}
