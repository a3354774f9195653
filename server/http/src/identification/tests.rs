use super::*;

const ID: HeaderName = HeaderName::from_static("x-request-id");
const CONTEXT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn identification(accept: AcceptRequestId, traceparent: TraceparentMode) -> Identification {
    Identification { request_id: Some(ID), accept, returns: true, traceparent, sampling: None }
}

fn fields(lines: &[(&'static str, &str)]) -> Fields {
    let line = |(name, value): &(&'static str, &str)| {
        let value = HeaderValue::from_str(value).unwrap();
        (HeaderName::from_static(name), value)
    };
    lines.iter().map(line).collect()
}

fn kept(accept: AcceptRequestId, trusted: bool, lines: &[(&'static str, &str)]) -> String {
    let mut fields = fields(lines);
    let identification = identification(accept, TraceparentMode::Off);
    identification.screen(&mut fields, || trusted);
    let ids = fields.iter().map(|(_, value)| value.to_str().unwrap());
    ids.collect::<Vec<_>>().join(", ")
}

#[test]
fn an_id_is_accepted_from_those_whom_the_configuration_names() {
    use AcceptRequestId::{All, None, TrustedProxies};
    let lines = [("x-request-id", "a1-b2")];
    for (accept, trusted, expected) in [
        (TrustedProxies, true, "a1-b2"),
        (TrustedProxies, false, ""),
        (All, false, "a1-b2"),
        (None, true, ""),
    ] {
        assert_eq!(kept(accept, trusted, &lines), expected, "{accept:?}");
    }
}

#[test]
fn an_id_that_is_ambiguous_or_could_be_misread_is_not_accepted() {
    let long = "a".repeat(MAX_ID + 1);
    for value in ["", "a b", "a\"b", "a,b", "<b>", "{a}", &long] {
        assert_eq!(kept(AcceptRequestId::All, true, &[("x-request-id", value)]), "");
    }
    assert_eq!(kept(AcceptRequestId::All, true, &[("x-request-id", &long[1..])]), long[1..]);
    let twice = [("x-request-id", "a"), ("x-request-id", "b")];
    assert_eq!(kept(AcceptRequestId::All, true, &twice), "");
    let similar = [("x_request_id", "a"), ("x-request-id", "b"), ("x_request-id", "c")];
    assert_eq!(kept(AcceptRequestId::All, true, &similar), "b");
    assert_eq!(kept(AcceptRequestId::None, true, &similar), "");
    assert_eq!(kept(AcceptRequestId::None, true, &[("x-request-ids", "a")]), "a");
}

#[test]
fn a_request_without_an_id_gets_one_of_32_digits_that_no_other_has() {
    let identification = identification(AcceptRequestId::None, TraceparentMode::Pass);
    let ids = [(); 2].map(|()| {
        let mut fields = fields(&[("x-request-id", "a")]);
        identification.screen(&mut fields, || true);
        identification.complete(&mut fields);
        assert_eq!(fields.len(), 1, "{fields:?}");
        identification.request_id(&fields).unwrap().clone()
    });
    assert_ne!(ids[0], ids[1]);
    for id in &ids {
        let digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        assert!(id.len() == 32 && id.as_bytes().iter().all(digit), "{id:?}");
    }
    let mut known = fields(&[("x-request-id", "a")]);
    identification.complete(&mut known);
    assert_eq!(known, fields(&[("x-request-id", "a")]));
}

#[test]
fn a_valid_trace_context_is_passed_on_and_an_invalid_one_is_made_anew() {
    let treated = |mode, lines: &[(&'static str, &str)]| {
        let mut fields = fields(lines);
        let identification =
            Identification { request_id: None, ..identification(AcceptRequestId::None, mode) };
        identification.screen(&mut fields, || false);
        identification.complete(&mut fields);
        fields
    };
    let valid = [("traceparent", CONTEXT), ("tracestate", "a=b")];
    for mode in [TraceparentMode::Pass, TraceparentMode::Make, TraceparentMode::Off] {
        assert_eq!(treated(mode, &valid), fields(&valid), "{mode:?}");
    }
    let is_new = |fields: &Fields| {
        let [(name, context)] = &fields[..] else {
            panic!("{fields:?}");
        };
        assert_eq!(*name, TRACEPARENT);
        let text = context.to_str().unwrap();
        assert!(TraceContext::parse(text.as_bytes()).is_some() && text != CONTEXT, "{text}");
        assert!(text.ends_with("-00"), "not sampled: {text}");
    };
    let invalid = [("traceparent", "00-x"), ("tracestate", "a=b")];
    let twice = [("traceparent", CONTEXT), ("traceparent", CONTEXT)];
    for mode in [TraceparentMode::Pass, TraceparentMode::Make] {
        is_new(&treated(mode, &invalid));
        is_new(&treated(mode, &twice));
    }
    assert_eq!(treated(TraceparentMode::Off, &invalid), fields(&invalid));
    let state = [("tracestate", "a=b")];
    assert_eq!(treated(TraceparentMode::Pass, &state), []);
    is_new(&treated(TraceparentMode::Make, &state));
    assert_eq!(treated(TraceparentMode::Off, &state), fields(&state));
}

#[test]
fn responses_return_the_id_in_place_of_an_upstreams_own() {
    let identification = identification(AcceptRequestId::All, TraceparentMode::Pass);
    let request = fields(&[("x-request-id", "a")]);
    let returned = identification.returned(&request).unwrap();
    let mut response = fields(&[("x-request-id", "b"), ("etag", "\"x\"")]);
    returned.add(&mut response);
    assert_eq!(response, fields(&[("etag", "\"x\""), ("x-request-id", "a")]));
    assert_eq!(identification.returned(&response[..1]), None);
    let silent = Identification { returns: false, ..identification };
    assert_eq!(silent.returned(&request), None);
}

/// Returns how a configuration with this table of telemetry identifies requests.
fn exporting(telemetry: &str) -> Identification {
    let listener = "[[listener]]\nname = \"l\"\naddress = \"[::1]:1\"\ntls = \"self-signed\"\n";
    let text = format!("{listener}[telemetry]\nendpoint = \"http://[::1]:4318\"\n{telemetry}\n");
    let registry = sluicegate_cc::Registry::builtin();
    let config = sluicegate_config::Config::from_toml("test.toml", &text, &registry).unwrap();
    Identification::new(&config.tracing, &config.telemetry)
}

/// Identifies a request with these fields. Returns the beginning of its span, if it becomes one, and the fields for an upstream.
fn traced(
    identification: &Identification,
    is_trusted: bool,
    lines: &[(&'static str, &str)],
) -> (Option<Box<SpanStart>>, Option<TraceContext>, Fields) {
    let mut fields = fields(lines);
    identification.screen(&mut fields, || is_trusted);
    let span = identification.begin_span(&mut fields, || is_trusted);
    identification.complete(&mut fields);
    identification.name_upstream_call(&mut fields);
    fields.retain(|(name, _)| *name == TRACEPARENT || *name == TRACESTATE);
    (span, trace_context(&fields), fields)
}

#[test]
fn request_without_a_valid_context_begins_a_trace_that_its_upstream_continues() {
    let all = exporting("");
    let twice = [("traceparent", CONTEXT), ("traceparent", CONTEXT)];
    let invalid = [("traceparent", "00-x"), ("tracestate", "a=b")];
    let mut seen = Vec::new();
    for lines in [&[][..], &twice, &invalid, &[("tracestate", "a=b")]] {
        let (span, upstream, fields) = traced(&all, false, lines);
        let span = span.unwrap();
        assert_eq!((span.parent, &*span.state, fields.len()), (None, "", 1), "{lines:?}");
        assert_eq!(upstream, Some(span.context.of_upstream()));
        assert!(!seen.contains(&span.context.trace_id) && span.context.is_sampled);
        seen.push(span.context.trace_id);
    }
}

#[test]
fn span_continues_the_trace_of_its_request() {
    let lines = [("traceparent", CONTEXT), ("tracestate", "a=b"), ("tracestate", "c=d")];
    let (span, upstream, sent) = traced(&exporting("sample_rate = 0.0"), true, &lines);
    let (span, parent) = (span.unwrap(), TraceContext::parse(CONTEXT.as_bytes()).unwrap());
    assert_eq!(span.context.trace_id, parent.trace_id);
    assert_eq!((span.parent, &*span.state), (Some(parent.span_id), "a=b,c=d"));
    assert_ne!(span.context.span_id, parent.span_id);
    assert_eq!(upstream, Some(span.context.of_upstream()));
    assert_eq!(sent[1..], fields(&lines)[1..], "tracestate is passed on");
    let long = "a".repeat(MAX_STATE + 1);
    let lines = [("traceparent", CONTEXT), ("tracestate", &*long)];
    assert_eq!(traced(&exporting(""), true, &lines).0.unwrap().state, "");
}

#[test]
fn only_the_clients_whom_the_configuration_names_decide_and_have_their_traces_continued() {
    let unsampled = CONTEXT.replace("-01", "-00");
    for (follow, is_trusted, rate, follows) in [
        ("all", false, "0.0", true),
        ("all", false, "1.0", true),
        ("trusted_proxies", true, "0.0", true),
        ("trusted_proxies", false, "0.0", false),
        ("trusted_proxies", false, "1.0", false),
        ("none", true, "0.0", false),
        ("none", true, "1.0", false),
        ("", true, "0.0", true),
        ("", false, "0.0", false),
        ("", false, "1.0", false),
    ] {
        let follow = match follow {
            "" => String::new(),
            follow => format!("follow_parent = \"{follow}\"\n"),
        };
        let case = format!("{follow}sample_rate = {rate}");
        for (context, flag) in [(CONTEXT, true), (&unsampled, false)] {
            let lines = [("traceparent", context), ("tracestate", "a=b")];
            let (span, upstream, sent) = traced(&exporting(&case), is_trusted, &lines);
            let expected = if follows { flag } else { rate == "1.0" };
            assert_eq!(span.is_some(), expected, "{case} {context}");
            let upstream = upstream.unwrap();
            assert_eq!(upstream.is_sampled, expected, "{case} {context}");
            let parent = trace_context(&fields(&lines)).unwrap();
            assert_eq!(upstream.trace_id == parent.trace_id, follows, "{case} {context}");
            assert_eq!(sent.len(), if follows { 2 } else { 1 }, "{case}: {sent:?}");
            let (begun, continued) = match &span {
                Some(span) => (span.state.is_empty(), span.parent == Some(parent.span_id)),
                None => (!follows, follows),
            };
            assert_eq!((begun, continued), (!follows, follows), "{case} {context}");
            if follows && !flag {
                assert_eq!(sent, fields(&lines), "nobody records it: it passes as it is");
            }
        }
    }
    let (span, upstream, _) = traced(&exporting("sample_rate = 0.0"), false, &[]);
    assert!(span.is_none() && upstream.is_some_and(|context| !context.is_sampled));
}

#[test]
fn share_of_the_requests_becomes_spans() {
    let half = exporting("sample_rate = 0.5");
    let sampled = (0..2000).filter(|_| half.begin_span(&mut Vec::new(), || false).is_some());
    assert!((800..1200).contains(&sampled.count()));
}

/// The bounds are at least five standard deviations away, so chance fails the test once in a million runs.
#[test]
fn small_share_of_the_requests_is_drawn_without_bias() {
    for (rate, expected) in [("0.001", 120..280), ("0.01", 1750..2250)] {
        let few = exporting(&format!("sample_rate = {rate}")).sampling.unwrap();
        let sampled = (0..200_000).filter(|_| few.chooses(None)).count();
        assert!(expected.contains(&sampled), "{rate}: {sampled}");
    }
}
