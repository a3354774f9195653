use quiche::h3::Header;
use sluicegate_sim::Rng;

use super::*;

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "example.org"), (":path", "/a?b=c")];

fn lines(list: &[(&str, &str)]) -> Vec<Header> {
    list.iter().map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes())).collect()
}

fn check(list: &[(&str, &str)]) -> Result<ParsedRequest, Refusal> {
    parse(&lines(list), 16 * 1024)
}

fn with(more: &[(&str, &str)]) -> Result<ParsedRequest, Refusal> {
    check(&[&GET, more].concat())
}

/// GET with one pseudo-header field given another value, or left out.
fn replaced(name: &str, value: Option<&str>) -> Vec<(&'static str, String)> {
    GET.iter()
        .filter(|(n, _)| *n != name || value.is_some())
        .map(|(n, v)| (*n, if *n == name { value.unwrap_or("") } else { v }.to_owned()))
        .collect()
}

fn check_replaced(
    name: &str,
    value: Option<&str>,
    more: &[(&str, &str)],
) -> Result<ParsedRequest, Refusal> {
    let list = replaced(name, value);
    let list: Vec<(&str, &str)> = list.iter().map(|(n, v)| (*n, v.as_str())).collect();
    check(&[&list, more].concat())
}

#[test]
fn a_head_is_parsed() {
    let request = with(&[("x-a", "1 2"), ("content-length", "10"), ("te", "trailers")]).unwrap();
    assert_eq!(request.content_length, Some(10));
    assert_eq!(request.head.method, "GET");
    assert_eq!(request.head.scheme.as_deref(), Some("https"));
    assert_eq!(request.head.authority, "example.org");
    assert_eq!((request.head.path.as_str(), request.head.query.as_deref()), ("/a", Some("b=c")));
    let (name, value) = &request.head.headers[0];
    assert_eq!((name.as_str(), value.as_bytes()), ("x-a", &b"1 2"[..]));
    assert!(with(&[("expect", "100-continue")]).unwrap().expects_status);
}

#[test]
fn pseudo_fields_come_once_first_and_known() {
    for name in [":method", ":scheme", ":path", ":authority"] {
        assert_eq!(check_replaced(name, None, &[]), Err(Malformed), "without {name}");
        assert_eq!(check_replaced(name, Some(""), &[]), Err(Malformed), "empty {name}");
        assert_eq!(check_replaced(name, Some("a b"), &[]), Err(Malformed), "blank in {name}");
        assert_eq!(check_replaced(name, Some("/a\r\nb"), &[]), Err(Malformed), "CR in {name}");
    }
    for (name, value) in GET {
        assert_eq!(with(&[(name, value)]), Err(Malformed), "{name} twice");
    }
    assert_eq!(with(&[(":status", "200")]), Err(Malformed));
    assert_eq!(with(&[(":protocol", "websocket")]), Err(Malformed));
    let mut late = vec![("x-a", "1")];
    late.extend(GET);
    assert_eq!(check(&late), Err(Malformed));
    assert_eq!(check(&[]), Err(Malformed));
}

#[test]
fn paths_have_one_of_their_forms() {
    for path in ["a", "http://example.org/", "*", "?a", "#a", "/\u{7f}"] {
        assert_eq!(check_replaced(":path", Some(path), &[]), Err(Malformed), "{path}");
    }
    for (path, canonical) in [("/\u{e9}<", "/%C3%A9%3C"), ("/`{\"}", "/%60%7B%22%7D")] {
        let checked = check_replaced(":path", Some(path), &[]).unwrap();
        assert_eq!(checked.head.path.as_str(), canonical);
    }
    let fragment = check_replaced(":path", Some("/a?b#c"), &[]);
    assert!(matches!(fragment, Err(Refusal::Path(_))), "{fragment:?}");
    let asterisk = [
        (":method", "OPTIONS"),
        (":scheme", "https"),
        (":authority", "example.org"),
        (":path", "*"),
    ];
    assert_eq!(check(&asterisk).unwrap().head.path.as_str(), "*");
}

#[test]
fn authority_and_host_agree() {
    assert!(with(&[("host", "EXAMPLE.org")]).is_ok());
    assert_eq!(with(&[("host", "example.com")]), Err(Malformed));
    assert_eq!(with(&[("host", "example.org"), ("host", "example.org")]), Err(Malformed));
    let only_host = check_replaced(":authority", None, &[("host", "h:443")]).unwrap();
    assert_eq!(only_host.head.authority, "h:443");
    assert_eq!(check_replaced(":authority", None, &[("host", "")]), Err(Malformed));
    for authority in ["u@h", "h:x", "h::", ":443", "h..example", "h,i"] {
        let checked = check_replaced(":authority", Some(authority), &[]);
        assert_eq!(checked, Err(Malformed), "{authority}");
        let checked = check_replaced(":authority", None, &[("host", authority)]);
        assert_eq!(checked, Err(Malformed), "{authority}");
    }
    assert_eq!(check_replaced(":scheme", Some("ftp"), &[]), Err(Malformed));
}

#[test]
fn an_authority_with_an_empty_port_is_that_without_one() {
    let named = |authority, more: &[(&str, &str)]| {
        let head = check_replaced(":authority", authority, more).unwrap().head;
        let mut hosts = head.headers.iter();
        assert!(hosts.all(|(_, host)| *host == head.authority));
        head.authority
    };
    assert_eq!(named(Some("example.org:"), &[]), "example.org");
    assert_eq!(named(None, &[("host", "[::1]:")]), "[::1]");
    for authority in ["example.org", "example.org:"] {
        for host in ["example.org", "example.org:"] {
            let both = named(Some(authority), &[("host", host)]);
            assert_eq!(both, "example.org", "{authority} {host}");
        }
    }
}

#[test]
fn connect_names_an_authority_only() {
    let connect = [(":method", "CONNECT"), (":authority", "example.org:443")];
    let head = check(&connect).unwrap().head;
    assert_eq!((head.scheme, head.path.as_str()), (None, ""));
    assert_eq!(check(&connect[..1]), Err(Malformed));
    assert_eq!(check_replaced(":method", Some("CONNECT"), &[]), Err(Malformed));
}

#[test]
fn extended_connect_names_its_protocol_and_a_target_like_other_requests() {
    let extended = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":authority", "example.org"),
        (":path", "/chat?room=1"),
    ];
    let head = check(&extended).unwrap().head;
    assert!(head.is_tunnel());
    assert_eq!(head.protocol.as_deref(), Some("websocket"));
    assert_eq!(head.scheme.as_deref(), Some("https"));
    assert_eq!((head.path.as_str(), head.query.as_deref()), ("/chat", Some("room=1")));
    for missing in [":scheme", ":authority", ":path"] {
        let mut list = extended.to_vec();
        list.retain(|(name, _)| *name != missing);
        assert_eq!(check(&list), Err(Malformed), "without {missing}");
    }
    for protocol in ["", "web socket", "a/b", "a,b"] {
        let mut list = extended;
        list[1].1 = protocol;
        assert_eq!(check(&list), Err(Malformed), "{protocol:?}");
    }
    let twice = [&extended[..], &[(":protocol", "websocket")]].concat();
    assert_eq!(check(&twice), Err(Malformed));
    let mut asterisk = extended;
    asterisk[4].1 = "*";
    assert_eq!(check(&asterisk), Err(Malformed));
}

#[test]
fn extended_connect_for_another_version_of_websocket_is_refused() {
    let ask = |protocol, version| {
        let extended = [
            (":method", "CONNECT"),
            (":protocol", protocol),
            (":scheme", "https"),
            (":authority", "example.org"),
            (":path", "/chat"),
            ("sec-websocket-version", version),
        ];
        check(&extended).map(|request| request.head.is_websocket())
    };
    assert_eq!(ask("websocket", "13"), Ok(true));
    for version in ["8", "", "13, 8"] {
        assert_eq!(ask("websocket", version), Err(Refusal::Version));
    }
    assert_eq!(ask("connect-udp", "8"), Ok(false));
    assert!(with(&[("sec-websocket-version", "8")]).is_ok());
}

#[test]
fn field_names_and_values_are_checked() {
    for name in [
        "",
        "X-A",
        "x a",
        "x\u{e9}",
        "x:",
        "connection",
        "keep-alive",
        "proxy-connection",
        "transfer-encoding",
        "upgrade",
    ] {
        assert_eq!(with(&[(name, "1")]), Err(Malformed), "{name:?}");
    }
    for value in ["a\rb", "a\nb", "a\0b", " a", "a ", "\ta", "a\t", "\x7f"] {
        assert_eq!(with(&[("x-a", value)]), Err(Malformed), "{value:?}");
    }
    for value in ["", "a\tb", "caf\u{e9}"] {
        assert!(with(&[("x-a", value)]).is_ok(), "{value:?}");
    }
    assert_eq!(with(&[("te", "gzip")]), Err(Malformed));
}

#[test]
fn content_length_is_digits_and_single_valued() {
    for value in ["", "+1", "-1", "1,1", "0x1", "1 ", "99999999999999999999"] {
        assert_eq!(with(&[("content-length", value)]), Err(Malformed), "{value:?}");
    }
    let twice = |a, b| with(&[("content-length", a), ("content-length", b)]);
    assert_eq!(twice("5", "5").unwrap().content_length, Some(5));
    assert_eq!(twice("5", "6"), Err(Malformed));
}

#[test]
fn size_and_number_of_fields_are_bounded() {
    let list = lines(&GET);
    let size: usize = GET.iter().map(|(n, v)| n.len() + v.len() + 32).sum();
    assert!(parse(&list, size as u64).is_ok());
    assert_eq!(parse(&list, size as u64 - 1), Err(TooLarge));
    let many = |count| with(&vec![("a", "b"); count - GET.len()]);
    assert!(many(MAX_FIELDS).is_ok());
    assert_eq!(many(MAX_FIELDS + 1), Err(TooLarge));
}

#[test]
fn crumbs_of_a_cookie_are_one_line() {
    let crumbs = vec![("cookie", "a=b"); 250];
    let others = vec![("a", "b"); MAX_FIELDS - GET.len()];
    let parsed = with(&crumbs).unwrap();
    assert_eq!(parsed.head.headers.len(), crumbs.len());
    assert!(with(&[&crumbs[..], &others[1..]].concat()).is_ok());
    assert_eq!(with(&[&crumbs[..], &others[..]].concat()), Err(TooLarge));
    // Each counts by its size, so that the limit of bytes bounds their number.
    assert_eq!(with(&crumbs.repeat(2)), Err(TooLarge));
    assert_eq!(trailers(&lines(&crumbs), 1 << 20), Err(Malformed));
}

#[test]
fn trailers_frame_nothing() {
    let check = |name, value| trailers(&lines(&[(name, value)]), 1024).map(drop);
    assert_eq!(check("x-checksum", "1"), Ok(()));
    for name in [":path", "content-length", "transfer-encoding", "X"] {
        assert_eq!(check(name, "1"), Err(Malformed), "{name}");
    }
}

const NAMES: [&str; 13] = [
    ":method",
    ":protocol",
    ":scheme",
    ":authority",
    ":path",
    "host",
    "content-length",
    "te",
    "connection",
    "x",
    "X",
    "",
    ":x",
];
const VALUES: [&str; 14] = [
    "GET",
    "CONNECT",
    "OPTIONS",
    "https",
    "example.org",
    "/",
    "*",
    "5",
    "6",
    "trailers",
    "",
    "a\nb",
    " a",
    "\0",
];

/// Half of them start from a good head, so that both outcomes are frequent.
fn random(seed: u64) -> Vec<(&'static str, &'static str)> {
    let mut rng = Rng::new(seed);
    let mut below = |bound: usize| rng.below(bound);
    let mut list = if below(2) == 0 { GET.to_vec() } else { Vec::new() };
    for _ in 0..below(4) {
        let at = below(list.len() + 1);
        list.insert(at, (NAMES[below(NAMES.len())], VALUES[below(VALUES.len())]));
    }
    list
}

#[test]
fn accepted_heads_keep_the_rules() {
    let mut accepted = 0;
    for seed in 1..=50_000_u64 {
        let list = random(seed);
        let Ok(request) = check(&list) else {
            continue;
        };
        accepted += 1;
        let head = request.head;
        let count = |name: &str| list.iter().filter(|(n, _)| *n == name).count();
        let pseudo = list.iter().take_while(|(n, _)| n.starts_with(':')).count();
        assert!(list[pseudo..].iter().all(|(n, _)| !n.starts_with(':')), "seed {seed}");
        assert_eq!(count(":method"), 1, "seed {seed}");
        assert!(count(":authority") + count("host") >= 1, "seed {seed}");
        assert_eq!(count("connection") + count("X") + count(":x") + count(""), 0, "seed {seed}");
        assert!(!head.authority.is_empty(), "seed {seed}");
        let names_authority_alone = head.is_tunnel() && head.protocol.is_none();
        assert_eq!(names_authority_alone, head.scheme.is_none(), "seed {seed}");
        assert!(head.is_tunnel() || head.protocol.is_none(), "seed {seed}");
        assert!(list.iter().all(|(_, v)| !v.contains(['\r', '\n', '\0'])), "seed {seed}");
    }
    assert!((1_000..49_000).contains(&accepted), "{accepted}");
}
