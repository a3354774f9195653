use super::*;

const ID: HeaderName = HeaderName::from_static("x-request-id");
const CONTEXT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn identification(accept: AcceptRequestId, traceparent: TraceparentMode) -> Identification {
    Identification { request_id: Some(ID), accept, returns: true, traceparent }
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
fn trace_contexts_are_valid_as_the_w3c_defines() {
    let long = format!("01{}-more", &CONTEXT[2..]);
    for valid in [CONTEXT, &long, &format!("01{}", &CONTEXT[2..])] {
        assert!(is_traceparent(valid.as_bytes()), "{valid}");
    }
    for invalid in [
        "",
        &CONTEXT[1..],
        &CONTEXT[..54],
        &format!("{CONTEXT}-more"),
        &format!("01{}more", &CONTEXT[2..]),
        &format!("ff{}", &CONTEXT[2..]),
        &CONTEXT.to_uppercase(),
        &CONTEXT.replace('-', "_"),
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0af7651916cd43dd8448eb211c80319-cb7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333--01",
    ] {
        assert!(!is_traceparent(invalid.as_bytes()), "{invalid}");
    }
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
        assert!(is_traceparent(text.as_bytes()) && text != CONTEXT, "{text}");
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
