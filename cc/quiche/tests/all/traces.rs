//! Traces contain no secrets: names of fields, but only the values that were asked for.

use std::time::Duration;

use quiche::h3::{self, Header, NameValue};
use quiche::redact::{Visible, REDACTED, SCHEMAS};
use sluicegate_test_support::{builtin, config, emit, set_algorithm, Pair, Trace};

/// Stands in every text that must not be in a trace.
const MARK: &str = "S3CR3T";

fn request() -> Vec<Header> {
    [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "example.org"),
        (":path", "/a/page?token=S3CR3T"),
        ("cookie", "session=S3CR3T"),
        ("authorization", "Bearer S3CR3T"),
        ("x-own", "S3CR3T"),
        ("content-type", "text/S3CR3T"),
    ]
    .map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes()))
    .to_vec()
}

/// Runs requests with secrets in all places, and returns the server's trace.
fn trace(visible: Option<Visible>) -> String {
    let mut server = config(100);
    server.set_stateless_reset_token(Some(u128::from_be_bytes([0x5e; 16])));
    let mut pair = Pair::new(&mut config(100), &mut server);
    let trace = Trace::of(&mut pair.server);
    if let Some(visible) = visible {
        pair.server.qlog_streamer().expect("a trace").show(visible);
    }
    pair.settle();
    let settings = h3::Config::new().expect("settings");
    let (client, server) = (&mut pair.client, &mut pair.server);
    let mut asking = h3::Connection::with_transport(client, &settings).expect("HTTP/3");
    let mut answering = h3::Connection::with_transport(server, &settings).expect("HTTP/3");
    let stream = asking.send_request(client, &request(), false).expect("sent");
    asking.send_body(client, stream, b"a body with S3CR3T", false).expect("sent");
    let trailers = [Header::new(b"x-trailer", b"S3CR3T")];
    asking.send_additional_headers(client, stream, &trailers, true, true).expect("sent");
    asking
        .send_priority_update_for_request(client, stream, &h3::Priority::new(6, true))
        .expect("sent");
    pair.settle();
    let mut heads = Vec::new();
    let mut body = [0; 100];
    loop {
        match answering.poll(&mut pair.server) {
            Ok((_, h3::Event::Headers { list, .. })) => heads.extend(list),
            Ok((stream, h3::Event::Data)) => {
                while answering.recv_body(&mut pair.server, stream, &mut body).is_ok() {}
            }
            Ok(_) => {}
            Err(_) => break,
        }
    }
    assert!(heads.iter().any(|h| h.name() == b"cookie" && h.value() == b"session=S3CR3T"));
    let response = [(":status", "200"), ("set-cookie", "id=S3CR3T")]
        .map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes()));
    answering.send_response(&mut pair.server, stream, &response, false).expect("sent");
    answering
        .send_additional_headers(&mut pair.server, stream, &trailers, true, true)
        .expect("sent");
    pair.settle();
    pair.client.close(true, 0x100, b"because of S3CR3T").expect("closed");
    pair.settle();
    pair.pass(std::time::Duration::from_secs(60));
    drop(pair);
    trace.text()
}

#[test]
fn no_value_of_a_field_and_no_reason_of_the_peer_reaches_a_trace() {
    let trace = trace(None);
    assert!(!trace.contains(MARK) && !trace.contains("5e5e"), "{trace}");
    for name in ["cookie", "authorization", "x-own", "x-trailer", "set-cookie"] {
        let expected = format!(r#"{{"name":"{name}","value":"{REDACTED}"}}"#);
        assert!(trace.contains(&expected), "{name}: {trace}");
    }
    for shown in [
        format!(r#"{{"name":":path","value":"/a/page?{REDACTED}"}}"#),
        r#"{"name":":authority","value":"example.org"}"#.to_owned(),
        r#"{"name":":status","value":"200"}"#.to_owned(),
        format!(r#""reason":"{REDACTED}""#),
        format!(r#""priority_field_value":"{REDACTED}""#),
        format!(r#""stateless_reset_token":"{REDACTED}""#),
    ] {
        assert!(trace.contains(&shown), "{shown}: {trace}");
    }
}

#[test]
fn values_that_were_asked_for_reach_a_trace() {
    let trace = trace(Some(Visible { fields: ["content-type".to_owned()].into(), query: true }));
    for shown in [
        r#"{"name":"content-type","value":"text/S3CR3T"}"#,
        r#"{"name":":path","value":"/a/page?token=S3CR3T"}"#,
    ] {
        assert!(trace.contains(shown), "{trace}");
    }
    assert_eq!(trace.matches(MARK).count(), 2, "{trace}");
}

/// Lets the server send so many bytes over a path of 40 ms.
fn send(pair: &mut Pair, len: usize) {
    pair.server.stream_send(3, &vec![7; len], false).expect("sent");
    for _ in 0..20 {
        let sent = emit(&mut pair.server);
        pair.pass(Duration::from_millis(20));
        sent.iter().for_each(|datagram| pair.client_receives(datagram));
        let acks = emit(&mut pair.client);
        pair.pass(Duration::from_millis(20));
        acks.iter().for_each(|datagram| pair.server_receives(datagram));
    }
}

#[test]
fn trace_begins_with_the_state_of_a_running_connection() {
    let mut server = config(10);
    set_algorithm(&mut server, builtin("cubic"));
    let mut pair = Pair::connect(&mut config(100), &mut server);
    send(&mut pair, 100_000);
    // The second takes the place of the first.
    for _ in 0..2 {
        let trace = Trace::of(&mut pair.server);
        pair.server.trace_state();
        let begun = trace.text();
        for schema in SCHEMAS {
            assert!(begun.contains(schema), "{schema}: {begun}");
        }
        for known in [
            r#""initiator":"local""#,
            r#""initiator":"remote""#,
            r#""latest_rtt":40.0"#,
            r#""congestion_window":"#,
            r#""name":"quic:mtu_updated""#,
            r#""new":"slow_start""#,
        ] {
            assert_eq!(begun.matches(known).count(), 1, "{known}: {begun}");
        }
        send(&mut pair, 10_000);
        let now = quiche::clock::now();
        pair.server.trace_event("sluicegate:test", serde_json::json!({ "value": 1 }), now);
        let text = trace.text();
        assert!(text.contains("quic:packet_sent") && text.contains("quic:packet_received"));
        assert!(text.ends_with("\"name\":\"sluicegate:test\",\"data\":{\"value\":1}}\n"), "{text}");
        assert_eq!(text.matches(r#""initiator":"remote""#).count(), 1);
    }
}

#[test]
fn stream_without_credit_is_blocked_until_it_has_more() {
    let mut client = config(100);
    client.set_initial_max_stream_data_uni(10_000);
    let mut pair = Pair::connect(&mut client, &mut config(100));
    let blocked = |pair: &Pair| pair.server.blocked_streams().collect::<Vec<_>>();
    assert_eq!(pair.server.stream_send(3, &[7; 5_000], false), Ok(5_000));
    assert_eq!(pair.server.stream_send(7, &[7; 20_000], true), Ok(10_000));
    pair.settle();
    assert_eq!(blocked(&pair), [7]);
    while pair.client.stream_recv(7, &mut [0; 4096]).is_ok() {}
    pair.settle();
    assert_eq!(blocked(&pair), Vec::<u64>::new());
}

/// The application tells of a wait once it knows what it was for: others have been written since it began.
#[test]
fn events_are_in_the_order_of_time() {
    let mut pair = Pair::connect(&mut config(10), &mut config(10));
    let trace = Trace::of(&mut pair.server);
    let begun = quiche::clock::now();
    send(&mut pair, 10_000);
    pair.server.trace_event("sluicegate:test", serde_json::json!({ "value": 1 }), begun);
    send(&mut pair, 10_000);
    let text = trace.text();
    let records = text.lines().map(|line| line.trim_start_matches('\u{1e}'));
    let events = records.map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let times: Vec<f64> = events.filter_map(|event| event["time"].as_f64()).collect();
    assert!(times.len() > 40 && times.is_sorted(), "{times:?}");
    assert!(text.contains("sluicegate:test"));
}
