mod forwarded;
mod host;

use h2::ext::Protocol;
use http::Request;

use super::*;

/// Returns the parts of a request of HTTP/1.1 with these lines.
fn parts(method: &str, target: &str, lines: &[(&str, &str)]) -> request::Parts {
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in lines {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn get(lines: &[(&str, &str)]) -> Result<ParsedRequest, Refusal> {
    parse(&parts("GET", "/a?b", lines), "https", 1000)
}

#[test]
fn the_target_and_the_host_make_the_head() {
    let parsed = get(&[("host", "example.org"), ("accept", "*/*")]).unwrap();
    let head = &parsed.head;
    assert_eq!((head.method.as_str(), head.path.as_str()), ("GET", "/a"));
    assert_eq!(head.query.as_deref(), Some("b"));
    assert_eq!(head.scheme.as_deref(), Some("https"));
    assert_eq!(head.authority, "example.org");
    assert_eq!(head.headers.len(), 2);
    assert_eq!((parsed.content_length, parsed.refused_path), (None, None));
}

#[test]
fn fields_of_the_connection_and_those_that_it_names_are_dropped() {
    let lines = [
        ("host", "a"),
        ("connection", "keep-alive, X-Secret, host, content-length"),
        ("keep-alive", "1"),
        ("te", "trailers"),
        ("upgrade", "h2c"),
        ("x-secret", "1"),
        ("content-length", "5"),
        ("x-kept", "1"),
    ];
    let parsed = get(&lines).unwrap();
    let names: Vec<&str> = parsed.head.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["host", "content-length", "x-kept"]);
    assert_eq!(parsed.content_length, Some(5));
}

#[test]
fn transfer_codings_but_chunked_alone_are_refused() {
    let coded = |codings: &[&'static str]| {
        let codings = codings.iter().map(|coding| ("transfer-encoding", *coding));
        let lines: Vec<_> = [("host", "a")].into_iter().chain(codings).collect();
        get(&lines).err()
    };
    assert_eq!(coded(&["chunked"]), None);
    assert_eq!(coded(&["Chunked"]), None);
    for codings in [
        &["gzip, chunked"][..],
        &["chunked, chunked"],
        &[",chunked"],
        &["chunked", "chunked"],
        &["identity", "chunked"],
        &["gzip"],
        &[""],
    ] {
        assert_eq!(coded(codings), Some(Malformed), "{codings:?}");
    }
}

#[test]
fn values_of_http2_that_begin_or_end_with_white_space_are_refused() {
    for value in [" a", "a ", "\ta", "a\t", " "] {
        let lines = [("host", "a"), ("x-a", value)];
        assert_eq!(get(&lines).unwrap_err(), Malformed, "{value:?}");
        let trailer = ("x-a".parse().unwrap(), value.parse().unwrap());
        assert_eq!(trailers(&HeaderMap::from_iter([trailer])), None, "{value:?}");
    }
    get(&[("host", "a"), ("x-a", "")]).unwrap();
    get(&[("host", "a"), ("x-a", "a \t b")]).unwrap();
}

#[test]
fn a_path_of_http2_that_begins_with_its_query_is_refused() {
    let parsed = |version| {
        let mut parts = parts("GET", "http://a?b", &[("host", "a")]);
        parts.version = version;
        parse(&parts, "https", 1000)
    };
    assert_eq!(parsed(Version::HTTP_2).unwrap_err(), Malformed);
    assert_eq!(parsed(Version::HTTP_11).unwrap().head.path.as_str(), "/");
}

#[test]
fn te_is_kept_if_it_is_trailers_and_of_http2() {
    let te = |version, value| {
        let mut parts = parts("GET", "/", &[("host", "a"), ("te", value)]);
        parts.version = version;
        let headers = parse(&parts, "https", 1000).unwrap().head.headers;
        let values = headers.iter().filter(|(name, _)| name == TE);
        values.map(|(_, value)| value.clone()).collect::<Vec<_>>()
    };
    assert_eq!(te(Version::HTTP_2, "trailers"), ["trailers"]);
    for value in ["Trailers", "trailers, gzip", "gzip", ""] {
        assert!(te(Version::HTTP_2, value).is_empty(), "{value}");
    }
    assert!(te(Version::HTTP_11, "trailers").is_empty());
}

#[test]
fn a_host_that_is_missing_repeated_or_another_one_is_refused() {
    for lines in [
        &[][..],
        &[("host", "a"), ("host", "a")],
        &[("host", "")],
        &[("host", "a b")],
        &[("host", "user@a")],
    ] {
        assert_eq!(get(lines).unwrap_err(), Malformed, "{lines:?}");
    }
    let of_http2 = |host| {
        let mut parts = parts("GET", "https://example.org/", &[("host", host)]);
        parts.version = Version::HTTP_2;
        parse(&parts, "https", 1000).map(|parsed| parsed.head.authority)
    };
    assert_eq!(of_http2("Example.org"), Ok("example.org".to_owned()));
    assert_eq!(of_http2("example.com"), Err(Malformed));
    let connect = parts("CONNECT", "example.org:1", &[("host", "example.com:1")]);
    assert_eq!(parse(&connect, "https", 1000).unwrap_err(), Malformed);
}

#[test]
fn lengths_must_agree_and_be_digits() {
    let length = |values: &[&str]| {
        let lines: Vec<_> = values.iter().map(|value| ("content-length", *value)).collect();
        get(&[&[("host", "a")], lines.as_slice()].concat()).map(|parsed| parsed.content_length)
    };
    assert_eq!(length(&["7", "7"]), Ok(Some(7)));
    for refused in [&["7", "8"][..], &["+7"], &["7,7"], &[""], &["99999999999999999999"]] {
        assert_eq!(length(refused), Err(Malformed), "{refused:?}");
    }
}

#[test]
fn a_section_beyond_the_limit_is_too_large() {
    let long = "x".repeat(1000);
    assert!(get(&[("host", "a"), ("y", &long[..800])]).is_ok());
    assert_eq!(get(&[("host", "a"), ("y", &long)]), Err(TooLarge));
    let target = parts("GET", &format!("/{long}"), &[("host", "a")]);
    assert_eq!(parse(&target, "https", 1000), Err(TooLarge));
}

#[test]
fn crumbs_of_a_cookie_are_one_line() {
    let get = |crumbs: usize, others: usize| {
        let mut parts = parts("GET", "/", &[("host", "a")]);
        parts.version = Version::HTTP_2;
        for (name, count) in [("cookie", crumbs), ("x-a", others)] {
            for _ in 0..count {
                let value = HeaderValue::from_static("a=b");
                parts.headers.append(name, value);
            }
        }
        parse(&parts, "https", 16 << 10).map(|parsed| parsed.head.headers.len())
    };
    assert_eq!(get(250, 0), Ok(251));
    assert_eq!(get(250, MAX_FIELDS - 2), Ok(249 + MAX_FIELDS));
    assert_eq!(get(250, MAX_FIELDS - 1), Err(TooLarge));
    assert_eq!(get(0, MAX_FIELDS), Err(TooLarge));
    // Each counts by its size, so that the limit of bytes bounds their number.
    assert_eq!(get(500, 0), Err(TooLarge));
}

#[test]
fn a_path_that_servers_read_differently_is_kept_for_the_log() {
    let parts = parts("GET", "/a%2f..", &[("host", "a")]);
    let parsed = parse(&parts, "https", 1000).unwrap();
    assert_eq!(parsed.refused_path.as_deref(), Some("/a%2f.."));
    assert_eq!(parsed.head.path.as_str(), "");
}

#[test]
fn a_target_with_a_fragment_is_refused_and_logs_get_the_path_alone() {
    for (target, path) in [("/a#b", "/a"), ("/a?b#c", "/a"), ("http://a/#", "/")] {
        let parsed = parse(&parts("GET", target, &[("host", "a")]), "https", 1000).unwrap();
        assert_eq!(parsed.refused_path.as_deref(), Some(path), "{target}");
        assert_eq!(parsed.head.path.as_str(), "");
    }
}

#[test]
fn excluded_characters_of_a_target_are_percent_encoded() {
    let target = "/<`\u{e9}?q=up{job=\"x\"}";
    let parsed = parse(&parts("GET", target, &[("host", "a")]), "https", 1000).unwrap();
    assert_eq!(parsed.head.path.as_str(), "/%3C%60%C3%A9");
    assert_eq!(parsed.head.query.as_deref(), Some("q=up%7Bjob=%22x%22%7D"));
}

#[test]
fn trailers_that_frame_or_route_are_refused() {
    let map = |name: &'static str| {
        HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_static("1"))])
    };
    assert_eq!(trailers(&map("x-sum")).map(|fields| fields.len()), Some(1));
    for name in ["host", "content-length", "transfer-encoding", "te", "keep-alive"] {
        assert_eq!(trailers(&map(name)), None, "{name}");
    }
    let many = (0..=MAX_FIELDS).map(|number| {
        let name = HeaderName::try_from(format!("x-{number}")).unwrap();
        (name, HeaderValue::from_static("1"))
    });
    assert_eq!(trailers(&many.collect()), None);
}

/// Returns the value of `sec-websocket-accept` for a request with these lines and a host.
fn accept(method: &str, lines: &[(&str, &str)]) -> Result<Option<HeaderValue>, Refusal> {
    let lines = [&[("host", "a")], lines].concat();
    let parsed = parse(&parts(method, "/chat", &lines), "https", 1000)?;
    assert_eq!(parsed.accept.is_some(), parsed.head.is_websocket());
    Ok(parsed.accept)
}

const UPGRADE_LINES: [(&str, &str); 4] = [
    ("connection", "keep-alive, Upgrade"),
    ("upgrade", "h2c, WebSocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

#[test]
fn an_upgrade_to_websocket_is_described_as_extended_connect() {
    let lines = [&[("host", "a")], &UPGRADE_LINES[..]].concat();
    let parsed = parse(&parts("GET", "/chat?x", &lines), "https", 1000).unwrap();
    assert_eq!(parsed.accept.unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    let head = &parsed.head;
    assert!(head.is_websocket());
    assert_eq!((head.path.as_str(), head.query.as_deref()), ("/chat", Some("x")));
    assert_eq!(head.method_sent(Version::HTTP_11), "GET");
    let names: Vec<&str> = head.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["host", "sec-websocket-version", "sec-websocket-key"]);
}

#[test]
fn a_request_that_does_not_ask_for_websocket_is_served_as_any_other() {
    let [connection, upgrade, version, key] = UPGRADE_LINES;
    assert_eq!(accept("GET", &[upgrade, version, key]), Ok(None));
    assert_eq!(accept("GET", &[connection, version, key]), Ok(None));
    assert_eq!(accept("GET", &[connection, ("upgrade", "h2c"), key]), Ok(None));
    assert_eq!(accept("POST", &UPGRADE_LINES), Ok(None));
    let mut old = parts("GET", "/chat", &[&[("host", "a")], &UPGRADE_LINES[..]].concat());
    for other in [Version::HTTP_10, Version::HTTP_2] {
        old.version = other;
        assert_eq!(parse(&old, "https", 1000).unwrap().accept, None);
    }
}

#[test]
fn a_handshake_that_breaks_the_rules_is_refused() {
    let [connection, upgrade, version, key] = UPGRADE_LINES;
    let refused = |more: &[(&str, &str)], refusal| {
        let lines = [&[connection, upgrade], more].concat();
        assert_eq!(accept("GET", &lines), Err(refusal), "{more:?}");
    };
    refused(&[version], Malformed);
    refused(&[key], Malformed);
    refused(&[version, key, key], Malformed);
    refused(&[version, version, key], Malformed);
    for key in [
        "",
        "dGhlIHNhbXBsZQ==",
        "dGhlIHNhbXBsZSBub25jZQ=x",
        "dGhlIHNhbXBsZSBub25jZQ==AAAA",
        "-GhlIHNhbXBsZSBub25jZQ==",
    ] {
        refused(&[version, ("sec-websocket-key", key)], Malformed);
    }
    refused(&[version, key, ("content-length", "5")], Malformed);
    refused(&[version, key, ("transfer-encoding", "chunked")], Malformed);
    assert!(accept("GET", &[connection, upgrade, version, key, ("content-length", "0")]).is_ok());
    for version in ["8", "", "13, 8"] {
        refused(&[("sec-websocket-version", version), key], Refusal::Version);
    }
}

#[test]
fn extended_connect_has_a_scheme_and_a_path() {
    let ask = |method, target| {
        let mut parts = parts(method, target, &[]);
        parts.version = Version::HTTP_2;
        parts.extensions.insert(Protocol::from_static("websocket"));
        parse(&parts, "https", 1000)
    };
    let parsed = ask("CONNECT", "https://a/chat").unwrap();
    assert!(parsed.head.is_websocket());
    assert_eq!(parsed.head.path.as_str(), "/chat");
    assert_eq!(parsed.accept, None);
    assert_eq!(ask("CONNECT", "a:443"), Err(Malformed));
    assert_eq!(ask("GET", "https://a/chat"), Err(Malformed));
}

#[test]
fn extended_connect_for_another_version_of_websocket_is_refused() {
    let ask = |protocol, version| {
        let mut parts = parts("CONNECT", "https://a/chat", &[("sec-websocket-version", version)]);
        parts.version = Version::HTTP_2;
        parts.extensions.insert(Protocol::from_static(protocol));
        parse(&parts, "https", 1000).map(|parsed| parsed.head.is_websocket())
    };
    assert_eq!(ask("websocket", "13"), Ok(true));
    for version in ["8", "", "13, 8"] {
        assert_eq!(ask("websocket", version), Err(Refusal::Version));
    }
    assert_eq!(ask("connect-udp", "8"), Ok(false));
}
