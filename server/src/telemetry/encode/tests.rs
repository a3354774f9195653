use std::collections::BTreeMap;
use std::time::Instant;

use proptest::prelude::*;
use sluicegate_base::address::ValidatedAddress;
use sluicegate_base::clock;
use sluicegate_base::observe::access::UpstreamTimes;
use sluicegate_base::observe::account::{AccountMark, RequestAccount, RequestWait, Wait};
use sluicegate_base::observe::telemetry::SpanStart;

use super::*;

/// Returns the account of a request that waited 20 ms for its upstream and 5 ms for its client.
fn waits(begun: Instant) -> sluicegate_base::observe::account::WaitTimes {
    let at = |ms| begun + Duration::from_millis(ms);
    let mark = AccountMark::default();
    let mut account = RequestAccount::begin(Wait::UpstreamResponse, begun);
    account.enter(RequestWait::Own(Wait::RequestBody), at(20), &mark);
    account.spent(at(25), &mark)
}

pub(super) fn span() -> Span {
    let context = TraceContext { trace_id: [0xa1; 16], span_id: [0xb2; 8], is_sampled: true };
    Span {
        start: SpanStart { context, parent: Some([0xc3; 8]), state: "a=b".to_owned() },
        received: Duration::from_millis(1_700_000_000_000),
        duration: Duration::from_millis(25),
        client: "192.0.2.1:5000".parse::<ValidatedAddress>().unwrap(),
        proxy: None,
        listener: "main".into(),
        protocol: "HTTP/3",
        scheme: "https",
        method: "GET".to_owned(),
        authority: "example.org:8443".to_owned(),
        path: "/app/x".to_owned(),
        query: None,
        route: Some("/app/".into()),
        status: Some(200),
        bytes_sent: 7,
        bytes_received: 3,
        user_agent: Some(b"curl/8\xff".to_vec()),
        request_id: Some(b"id-1".to_vec()),
        connection: Box::new([0xd4, 5]),
        outcome: Outcome::Complete,
        cause: None,
        waits: waits(clock::now()),
        upstream: None,
    }
}

fn call() -> UpstreamCall {
    let ms = Duration::from_millis;
    UpstreamCall {
        address: "https://app.example:8080".into(),
        attempts: 2,
        after: ms(2),
        times: UpstreamTimes {
            begun: None,
            connect: Some(ms(1)),
            head: Some(ms(15)),
            total: Some(ms(20)),
        },
    }
}

/// Encodes a request, and returns its spans, each with its attributes as text.
fn decoded(span: Span) -> Vec<(Message, BTreeMap<String, String>)> {
    let bytes = encode(&[span], &ServiceResource::of_host("edge"));
    let request = ExportTraceServiceRequest::decode(&*bytes).unwrap();
    let [spans] = &request.resource_spans[..] else { panic!("{request:?}") };
    let attributes = &spans.resource.as_ref().unwrap().attributes;
    assert_eq!(table(attributes)["service.name"], "edge");
    assert_eq!(spans.scope_spans[0].scope.as_ref().unwrap().name, "sluicegate");
    let spans = spans.scope_spans[0].spans.iter();
    spans.map(|span| (span.clone(), table(&span.attributes))).collect()
}

fn table(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &AnyValue| match value.value.as_ref().unwrap() {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        Value::DoubleValue(number) => number.to_string(),
        other => panic!("{other:?}"),
    };
    let row = |row: &KeyValue| (row.key.clone(), text(row.value.as_ref().unwrap()));
    let table: BTreeMap<_, _> = attributes.iter().map(row).collect();
    assert_eq!(table.len(), attributes.len(), "each once");
    table
}

#[test]
fn request_is_a_server_span_by_the_conventions() {
    let spans = decoded(span());
    let [(span, attributes)] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((&*span.name, span.kind()), ("GET /app/", SpanKind::Server));
    assert_eq!((&span.trace_id[..], &span.span_id[..]), (&[0xa1; 16][..], &[0xb2; 8][..]));
    assert_eq!((&span.parent_span_id[..], &*span.trace_state), (&[0xc3; 8][..], "a=b"));
    assert_eq!((span.flags, &span.status), (0x301, &None));
    assert_eq!(span.start_time_unix_nano, 1_700_000_000_000_000_000);
    assert_eq!(span.end_time_unix_nano, 1_700_000_000_025_000_000);
    let expected = [
        ("client.address", "192.0.2.1"),
        ("http.request.body.size", "3"),
        ("http.request.method", "GET"),
        ("http.response.body.size", "7"),
        ("http.response.status_code", "200"),
        ("http.route", "/app/"),
        ("network.peer.address", "192.0.2.1"),
        ("network.peer.port", "5000"),
        ("network.protocol.name", "http"),
        ("network.protocol.version", "3"),
        ("server.address", "example.org"),
        ("server.port", "8443"),
        ("sluicegate.connection", "d405"),
        ("sluicegate.listener", "main"),
        ("sluicegate.outcome", "complete"),
        ("sluicegate.request_id", "id-1"),
        ("sluicegate.wait.request_body", "0.005"),
        ("sluicegate.wait.top", "upstream_response"),
        ("sluicegate.wait.upstream_response", "0.02"),
        ("url.path", "/app/x"),
        ("url.scheme", "https"),
        ("user_agent.original", "curl/8\u{fffd}"),
    ];
    let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(*attributes, BTreeMap::from(expected));
}

#[test]
fn call_to_an_upstream_is_a_client_span_below_the_requests() {
    let spans = decoded(Span { upstream: Some(call()), ..span() });
    let [(server, _), (client, attributes)] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((&*client.name, client.kind()), ("GET", SpanKind::Client));
    assert_eq!(client.parent_span_id, server.span_id);
    assert_eq!(client.span_id, span().start.context.of_upstream().span_id);
    assert_eq!((client.flags, &client.trace_id), (0x101, &server.trace_id));
    let from = server.start_time_unix_nano + 2_000_000;
    assert_eq!((client.start_time_unix_nano, client.end_time_unix_nano), (from, from + 20_000_000));
    let expected = [
        ("http.request.method", "GET"),
        ("http.request.resend_count", "1"),
        ("http.response.status_code", "200"),
        ("server.address", "app.example"),
        ("server.port", "8080"),
        ("sluicegate.upstream.connect", "0.001"),
        ("sluicegate.upstream.response", "0.015"),
    ];
    let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(*attributes, BTreeMap::from(expected));
    let unix = UpstreamCall { address: "h2c://unix:/run/app.sock".into(), ..call() };
    let spans = decoded(Span { upstream: Some(unix), ..span() });
    assert_eq!(spans[1].1["server.address"], "/run/app.sock");
    assert_eq!(spans[1].1["network.transport"], "unix");
}

#[test]
fn faults_of_the_server_are_errors_and_those_of_clients_are_not() {
    for (status, outcome, cause, error) in [
        (Some(404), Outcome::Complete, None, None),
        (Some(429), Outcome::Complete, Some("rate_limit"), None),
        (Some(200), Outcome::Cancelled, None, None),
        (Some(500), Outcome::Complete, None, Some("500")),
        (Some(502), Outcome::Complete, Some("refused"), Some("refused")),
        (Some(200), Outcome::Reset, Some("aborted"), Some("aborted")),
        (Some(200), Outcome::Stalled, None, Some("stalled")),
        (None, Outcome::Reset, None, Some("reset")),
    ] {
        let spans = decoded(Span { status, outcome, cause, ..span() });
        let (message, attributes) = &spans[0];
        let found = attributes.get("error.type").map(String::as_str);
        assert_eq!(found, error, "{status:?} {outcome:?}");
        let code = message.status.as_ref().map(Status::code);
        assert_eq!(code, error.map(|_| StatusCode::Error), "{status:?} {outcome:?}");
        assert_eq!(attributes.get("sluicegate.cause").map(String::as_str), cause);
    }
    let refused = Span { status: Some(404), upstream: Some(call()), ..span() };
    assert_eq!(decoded(refused)[1].1["error.type"], "404", "it is the client's own fault there");
}

#[test]
fn request_without_a_head_and_one_of_an_unknown_method_are_spans() {
    let empty = Span {
        method: String::new(),
        authority: String::new(),
        path: String::new(),
        route: None,
        ..span()
    };
    let spans = decoded(empty);
    assert_eq!((&*spans[0].0.name, &*spans[0].1["http.request.method"]), ("HTTP", "_OTHER"));
    assert!(!spans[0].1.contains_key("server.address"));
    assert!(!spans[0].1.contains_key("http.request.method_original"));
    let spans = decoded(Span { method: "PURGE".to_owned(), ..span() });
    assert_eq!(&*spans[0].0.name, "HTTP /app/");
    assert_eq!(spans[0].1["http.request.method_original"], "PURGE");
}

#[test]
fn hosts_are_split_from_their_ports() {
    for (authority, host, port) in [
        ("a.example", "a.example", None),
        ("a.example:1", "a.example", Some(1)),
        ("[::1]", "::1", None),
        ("[::1]:8443", "::1", Some(8443)),
        ("a:b", "a:b", None),
        ("", "", None),
    ] {
        assert_eq!(host_and_port(authority), (host, port), "{authority}");
    }
}

proptest! {
    #[test]
    fn whatever_a_client_sends_a_span_is_whole_and_bounded(
        path in ".{0,20}",
        repeated in 0..3000_usize,
        agent in prop::collection::vec(any::<u8>(), 0..5000),
        authority in ".{0,40}",
        method in "[!-~]{0,20}",
    ) {
        let path = path.repeat(repeated);
        let user_agent = Some(agent);
        let start = SpanStart { parent: None, ..span().start };
        let spans = decoded(Span { start, path: path.clone(), user_agent, authority, method, ..span() });
        prop_assert_eq!(spans[0].0.flags, 0x101);
        prop_assert!(path.starts_with(&spans[0].1["url.path"]));
        for text in spans[0].1.values() {
            prop_assert!(text.len() <= MAX_TEXT);
        }
    }
}
