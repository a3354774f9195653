//! Traces contain no secrets: names of fields, but only the values that were asked for.

use quiche::h3::{self, Header, NameValue};
use quiche::redact::{Visible, REDACTED};
use sluicegate_test_support::{config, Pair, Trace};

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
