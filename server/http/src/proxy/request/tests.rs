mod forwarded;

use std::net::SocketAddr;

use http::HeaderName;
use sluicegate_config::HostHeader;

use super::super::properties::Unchanged;
use super::super::tests::proxy;
use super::*;
use crate::exchange::test_front::{head, request};

fn config() -> Proxy {
    let address: SocketAddr = "192.0.2.80:80".parse().unwrap();
    proxy(&[address])
}

/// Target and lines of a request as an upstream gets it.
#[derive(Debug, PartialEq, Eq)]
struct Rewritten {
    target: String,
    lines: Vec<(String, String)>,
}

impl Rewritten {
    fn of(head: &UpstreamHead<'_>) -> Rewritten {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let lines = head.lines().map(|(name, value)| (name.to_string(), text(value)));
        let target = text(head.target());
        Rewritten { lines: lines.collect(), target }
    }

    fn values(&self, name: &str) -> Vec<&str> {
        let lines = self.lines.iter().filter(|(known, _)| known == name);
        lines.map(|(_, value)| value.as_str()).collect()
    }
}

fn rewritten(head: RequestHead, proxy: &Proxy) -> Result<Rewritten, RequestError> {
    let rest = head.path.strip_prefix("/api/").unwrap_or(&head.path);
    let rest = if proxy.strip_prefix { rest } else { &head.path }.to_owned();
    let request = request(head, None, false);
    let head = rewrite(&request, proxy, &Unchanged, &rest, Framing::None, "192.0.2.80");
    head.map(|head| Rewritten::of(&head))
}

fn lines(head: RequestHead) -> Vec<(String, String)> {
    rewritten(head, &config()).unwrap().lines
}

/// Returns the values of a field of the rewritten request.
fn values(head: RequestHead, name: &str) -> Vec<String> {
    let lines = lines(head).into_iter().filter(|(known, _)| known == name);
    lines.map(|(_, value)| value).collect()
}

#[test]
fn fields_of_the_connection_stay_behind() {
    let dropped = [
        ("connection", "x-mine, close"),
        ("x-mine", "1"),
        ("keep-alive", "5"),
        ("proxy-connection", "close"),
        ("transfer-encoding", "chunked"),
        ("transfer_encoding", "chunked"),
        ("content-length", "77"),
        ("upgrade", "websocket"),
        ("http2-settings", "AAMAAABk"),
        ("te", "gzip"),
        ("trailer", "x-sum"),
        ("expect", "100-continue"),
        ("host", "elsewhere.example"),
        ("proxy", "http://evil.example"),
    ];
    let mut kept = lines(head("GET", "/", &dropped));
    kept.retain(|(name, _)| !name.contains("forwarded"));
    let expected = [("host", "example.org"), ("via", "3 sluicegate")];
    assert_eq!(kept, expected.map(|(n, v)| (n.to_owned(), v.to_owned())));
}

/// RFC 8470 §5.1: an intermediary adds the field, must not remove it, and takes any value for 1.
#[test]
fn early_data_is_announced_by_this_server_or_by_its_client() {
    let announced = |lines: &[_], early_data| {
        let mut given = request(head("GET", "/", lines), None, false);
        given.peer.early_data = early_data;
        let rewritten = rewrite(&given, &config(), &Unchanged, "/", Framing::None, "x").unwrap();
        Rewritten::of(&rewritten).values("early-data").join(", ")
    };
    assert_eq!(announced(&[], true), "1");
    assert_eq!(announced(&[("early-data", "0")], true), "1");
    assert_eq!(announced(&[("early-data", "1")], false), "1");
    let lines = [("early-data", "0"), ("early-data", "x")];
    assert_eq!(announced(&lines, false), "1");
    assert!(announced(&[("early_data", "1")], false).is_empty());
}

#[test]
fn cookies_are_one_line_again() {
    let crumbs = [("cookie", "a=1"), ("x", "y"), ("cookie", "b=2"), ("cookie", "c=3")];
    assert_eq!(values(head("GET", "/", &crumbs), "cookie"), ["a=1; b=2; c=3"]);
    let empty =
        [("cookie", ""), ("cookie", "a=1"), ("cookie", ""), ("cookie", "b=2"), ("cookie", "")];
    assert_eq!(values(head("GET", "/", &empty), "cookie"), ["a=1; b=2"]);
    assert!(values(head("GET", "/", &empty[..1]), "cookie").is_empty());
}

#[test]
fn other_fields_pass_in_all_their_lines() {
    let given = [("accept", "a"), ("via", "2 before"), ("accept", "b"), ("x-empty", "")];
    assert_eq!(values(head("GET", "/", &given), "accept"), ["a", "b"]);
    assert_eq!(values(head("GET", "/", &given), "via"), ["2 before", "3 sluicegate"]);
    assert_eq!(values(head("GET", "/", &given), "x-empty"), [""]);
}

#[test]
fn te_is_trailers_and_belongs_to_the_connection() {
    let given = [("te", "trailers")];
    assert_eq!(values(head("GET", "/", &given), "te"), ["trailers"]);
    assert_eq!(values(head("GET", "/", &given), "connection"), ["te"]);
}

#[test]
fn there_is_exactly_one_host() {
    for (policy, expected) in [
        (HostHeader::Client, "example.org"),
        (HostHeader::Upstream, "192.0.2.80"),
        (HostHeader::Name("inner.example:81".to_owned()), "inner.example:81"),
    ] {
        let proxy = Proxy { host: policy, ..config() };
        let head = head("GET", "/", &[("host", "example.org")]);
        let request = rewritten(head, &proxy).unwrap();
        assert_eq!(request.values("host"), [expected]);
        assert_eq!(request.lines[0].0, "host");
    }
}

#[test]
fn targets_are_in_origin_form() {
    let of = |method: &str, path: &str, strip_prefix| {
        let proxy = Proxy { strip_prefix, ..config() };
        rewritten(head(method, path, &[]), &proxy).map(|request| request.target)
    };
    for (path, whole, stripped) in [
        ("/api/a?b=c", "/api/a?b=c", "/a?b=c"),
        ("/api/", "/api/", "/"),
        ("/api/?q", "/api/?q", "/?q"),
        ("/api//x", "/api/x", "/x"),
        ("/other", "/other", "/other"),
        ("//example.net/x", "/example.net/x", "/example.net/x"),
        ("/a?b?c=http://x/", "/a?b?c=http://x/", "/a?b?c=http://x/"),
    ] {
        assert_eq!(of("GET", path, false).unwrap(), whole);
        assert_eq!(of("GET", path, true).unwrap(), stripped);
    }
    assert_eq!(of("OPTIONS", "*", true).unwrap(), "*");
    assert_eq!(of("GET", "*", false), Err(RequestError::Path));
    assert_eq!(of("GET", "/a#b c\r\nx: y", false).unwrap(), "/a%23b%20c%0D%0Ax:%20y");
    // Fronts refuse these.
    for (path, sent) in [
        ("/a?#b", "/a?%23b"),
        ("/a?b c", "/a?b%20c"),
        ("/a?\u{7f}", "/a?%7F"),
        ("/a?\r\nx: y", "/a?%0D%0Ax:%20y"),
        ("/?\0", "/?%00"),
    ] {
        assert_eq!(of("GET", path, false).unwrap(), sent, "{path:?}");
    }
    let long = format!("/{}", "a".repeat(70_000));
    assert_eq!(of("GET", &long, false), Err(RequestError::Path));
}

#[test]
fn no_line_break_gets_into_a_request() {
    for text in ["a\r\nb: c", "a\nb", "a\0b"] {
        // No field can hold one.
        assert!(HeaderValue::from_bytes(text.as_bytes()).is_err());
        assert!(HeaderName::from_bytes(text.as_bytes()).is_err());
        let mut bad = head("GET", "/", &[]);
        bad.authority = text.to_owned();
        let named = Proxy { host: HostHeader::Name("fine.example".to_owned()), ..config() };
        // Neither `host` nor the forwarded fields can hold it.
        assert_eq!(rewritten(bad.clone(), &config()).err(), Some(RequestError::Authority));
        assert_eq!(rewritten(bad, &named).err(), Some(RequestError::Authority));
        let mut bad = head(text, "/", &[]);
        assert_eq!(rewritten(bad.clone(), &config()).err(), Some(RequestError::Method));
        bad = head("GET", "/", &[]);
        bad.scheme = Some(text.to_owned());
        // The front knows the scheme, whatever the client says.
        let rewritten = rewritten(bad, &config()).unwrap();
        assert_eq!(rewritten.values("x-forwarded-proto"), ["https"]);
        let forwarded = rewritten.values("forwarded");
        assert!(forwarded[0].ends_with(";proto=https"), "{forwarded:?}");
    }
}

#[test]
fn fields_that_frame_a_body_are_the_proxy_s_own() {
    let framed = |method: &str, framing, is_over| {
        let lines = [("content-length", "9"), ("trailer", "x"), ("transfer-encoding", "chunked")];
        let given = request(head(method, "/", &lines), None, false);
        let head = rewrite(&given, &config(), &Unchanged, "/", framing, "x").unwrap();
        let rewritten = Rewritten::of(&head);
        for name in ["content-length", "transfer-encoding"] {
            assert!(rewritten.values(name).is_empty(), "{rewritten:?}");
        }
        assert_eq!(head.framing(), framing);
        (head.content_length(is_over), rewritten.values("trailer").len())
    };
    assert_eq!(framed("GET", Framing::None, true), (None, 0));
    assert_eq!(framed("POST", Framing::None, true), (Some(0), 0));
    assert_eq!(framed("POST", Framing::Length(9), false), (Some(9), 0));
    assert_eq!(framed("POST", Framing::Chunked, false), (None, 1));
    // Its end came behind the head.
    assert_eq!(framed("POST", Framing::Chunked, true), (Some(0), 1));
    assert_eq!(framed("REPORT", Framing::Chunked, true), (None, 1));
}

#[test]
fn hops_are_counted_down_where_they_have_a_meaning() {
    let left = |method, hops: &'static str| {
        let request = rewritten(head(method, "/", &[("max-forwards", hops)]), &config())?;
        Ok(request.values("max-forwards").join(", "))
    };
    assert_eq!(left("OPTIONS", "3").unwrap(), "2");
    assert_eq!(left("TRACE", "0"), Err(RequestError::LastHop));
    assert_eq!(left("GET", "0").unwrap(), "0");
}
