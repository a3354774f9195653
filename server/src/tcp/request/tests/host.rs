//! Tests which host a request names.

use super::*;

#[test]
fn an_absolute_target_of_http1_overrides_the_host() {
    let absolute = |version, lines: &[(&str, &str)]| {
        let mut parts = parts("GET", "http://example.org:80/a", lines);
        parts.version = version;
        parse(&parts, "http", 1000).map(|parsed| parsed.head)
    };
    for host in ["example.org:80", "example.com", "a:1", ""] {
        for version in [Version::HTTP_10, Version::HTTP_11] {
            let head = absolute(version, &[("host", host)]).unwrap();
            assert_eq!(head.authority, "example.org:80");
            assert_eq!(head.path.as_str(), "/a");
            // Nobody who reads the fields finds another host.
            let host = HeaderValue::from_static("example.org:80");
            assert_eq!(head.headers, [(HOST, host)]);
        }
    }
    for lines in
        [&[][..], &[("host", "a"), ("host", "a")], &[("host", "a, b")], &[("host", "user@a")]]
    {
        let refused = absolute(Version::HTTP_11, lines).unwrap_err();
        assert_eq!(refused, Malformed, "{lines:?}");
    }
}

#[test]
fn a_host_with_an_empty_port_is_that_without_one() {
    let authority = |version, target: &str, host: &str| -> Result<String, Refusal> {
        let mut parts = parts("GET", target, &[("host", host)]);
        parts.version = version;
        let head = parse(&parts, "https", 1000)?.head;
        assert_eq!(head.headers[0].1, head.authority);
        Ok(head.authority)
    };
    let (old, new) = (Version::HTTP_11, Version::HTTP_2);
    let expected = Ok("example.org".to_owned());
    assert_eq!(authority(old, "/", "example.org:"), expected);
    assert_eq!(authority(old, "https://example.org:/", "a"), expected);
    for target in ["https://example.org/", "https://example.org:/"] {
        for host in ["example.org", "example.org:"] {
            assert_eq!(authority(new, target, host), expected, "{target} {host}");
        }
    }
    assert_eq!(authority(old, "/", "[::1]:"), Ok("[::1]".to_owned()));
    for host in [":", "a::", "a:1:"] {
        assert_eq!(authority(old, "/", host), Err(Malformed), "{host}");
    }
}
