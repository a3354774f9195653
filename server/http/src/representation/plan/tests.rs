use super::super::fixture;
use super::*;
use crate::exchange::test_front::head;

fn entry(text: &'static str, encoding: Coding, varies: bool) -> Representation {
    let date = HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT");
    let metadata = Metadata {
        size: text.len() as u64,
        etag: visible(format!("\"{:x}-0.0{}\"", text.len(), encoding.suffix())),
        modified: Some((0, date)),
        content_type: HeaderValue::from_static("text/plain; charset=utf-8"),
        encoding,
        varies,
        compressed: false,
    };
    Representation::new(metadata, Bytes::from_static(text.as_bytes()))
}

fn ask(
    method: &str,
    lines: &[(&'static str, &str)],
    entry: &Representation,
) -> (u16, String, String) {
    let reply = fixture::reply(&head(method, "/a.txt", lines), entry);
    let fields = { reply.headers.iter() }
        .map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap()))
        .collect();
    let body = match reply.body {
        Body::Empty => String::new(),
        Body::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        Body::Generated(_) => panic!("nobody generates it"),
    };
    (reply.status, fields, body)
}

const VALIDATORS: &str = "etag: \"a-0.0\"\nlast-modified: Thu, 01 Jan 1970 00:00:00 GMT\n";
const TYPE: &str = "content-type: text/plain; charset=utf-8\n";
const RANGES: &str = "accept-ranges: bytes\n";

#[test]
fn a_file_is_sent_with_what_is_known_about_it() {
    let entry = entry("0123456789", Coding::Identity, false);
    let fields = format!("{VALIDATORS}{TYPE}{RANGES}");
    for method in ["GET", "HEAD"] {
        let expected = (200, fields.clone(), "0123456789".to_owned());
        assert_eq!(ask(method, &[], &entry), expected);
    }
    let nothing = self::entry("", Coding::Identity, false);
    let reply = fixture::reply(&head("GET", "/a.txt", &[]), &nothing);
    assert_eq!((reply.status, reply.body), (200, Body::Empty));
}

#[test]
fn other_methods_are_refused_before_anything_is_looked_at() {
    let entry = entry("0123456789", Coding::Identity, true);
    for method in ["POST", "PUT", "DELETE", "get", "TRACE"] {
        let (status, fields, _) = ask(method, &[("if-none-match", "*")], &entry);
        assert_eq!(status, 405, "{method}");
        assert!(fields.ends_with("allow: GET, HEAD\n"), "{fields}");
    }
    let expected = (204, "allow: GET, HEAD\n".to_owned(), String::new());
    assert_eq!(ask("OPTIONS", &[], &entry), expected);
}

#[test]
fn what_the_client_has_is_not_sent_again() {
    let entry = entry("0123456789", Coding::Identity, true);
    for method in ["GET", "HEAD"] {
        let lines = [("if-none-match", "\"a-0.0\""), ("range", "bytes=50-")];
        let expected = format!("{VALIDATORS}vary: accept-encoding\n");
        assert_eq!(ask(method, &lines, &entry), (304, expected, String::new()));
        let (status, fields, _) = ask(method, &[("if-match", "\"x\"")], &entry);
        assert_eq!(status, 412);
        assert_eq!(fields, format!("{TYPE}vary: accept-encoding\n"));
    }
    let plan = respond(&head("GET", "/a.txt", &[("if-none-match", "*")]), &entry.metadata);
    assert_eq!((plan.length(), plan.reads_content()), (None, false));
}

#[test]
fn a_range_is_sent_alone() {
    let entry = entry("0123456789", Coding::Identity, false);
    for (value, range, body) in [
        ("bytes=2-4", "2-4", "234"),
        ("bytes=-3", "7-9", "789"),
        ("bytes=8-", "8-9", "89"),
        ("bytes=0-", "0-9", "0123456789"),
        // Parts that touch are one.
        ("bytes=0-1,2-3", "0-3", "0123"),
    ] {
        let fields = format!("{VALIDATORS}{TYPE}{RANGES}content-range: bytes {range}/10\n");
        let expected = (206, fields, body.to_owned());
        assert_eq!(ask("GET", &[("range", value)], &entry), expected);
    }
    let (status, fields, _) = ask("GET", &[("range", "bytes=10-")], &entry);
    assert_eq!(status, 416);
    let expected = format!("{TYPE}content-range: bytes */10\n{RANGES}");
    assert_eq!(fields, expected);
}

#[test]
fn a_small_range_does_not_hold_the_file() {
    let mut entry = entry("", Coding::Identity, false);
    entry.metadata.size = 100_000;
    entry.bytes = vec![7; 100_000].into();
    for (range, holds) in
        [("bytes=0-0", false), ("bytes=-4096", false), ("bytes=0-4096", true), ("bytes=0-", true)]
    {
        let reply = fixture::reply(&head("GET", "/a.txt", &[("range", range)]), &entry);
        assert_eq!((reply.status, !entry.bytes.is_unique()), (206, holds), "{range}");
    }
}

#[test]
fn ranges_are_passed_over_where_they_do_not_count() {
    let entry = entry("0123456789", Coding::Identity, false);
    let range = ("range", "bytes=2-4");
    assert_eq!(ask("HEAD", &[range], &entry).0, 200);
    assert_eq!(ask("HEAD", &[("range", "bytes=10-")], &entry).0, 200);
    assert_eq!(ask("GET", &[range, range], &entry).0, 200);
    assert_eq!(ask("GET", &[range, ("if-range", "\"x\"")], &entry).0, 200);
    assert_eq!(ask("GET", &[range, ("if-range", "W/\"a-0.0\"")], &entry).0, 200);
    assert_eq!(ask("GET", &[range, ("if-range", "\"a-0.0\"")], &entry).0, 206);
    // Preconditions come first.
    assert_eq!(ask("GET", &[range, ("if-match", "\"x\"")], &entry).0, 412);
}

#[test]
fn several_ranges_are_parts() {
    let text: &'static str = Box::leak("0123456789".repeat(30).into_boxed_str());
    let entry = entry(text, Coding::Identity, true);
    let (status, fields, body) = ask("GET", &[("range", "bytes=290-, 0-2, 100-109")], &entry);
    assert_eq!(status, 206);
    assert!(!fields.contains("content-range"), "{fields}");
    let (_, kind) = fields.split_once("boundary=").unwrap();
    let (boundary, after) = kind.split_once('\n').unwrap();
    assert_eq!(after, RANGES);
    let part = |range: &str, text: &str| {
        format!(
            "--{boundary}\r\n{}\r\ncontent-range: bytes {range}/300\r\n\r\n{text}\r\n",
            TYPE.trim_end()
        )
    };
    let expected = [
        part("0-2", "012"),
        part("100-109", "0123456789"),
        part("290-299", "0123456789"),
        format!("--{boundary}--\r\n"),
    ];
    assert_eq!(body, expected.concat());
    let request = head("GET", "/a.txt", &[("range", "bytes=290-, 0-2, 100-109")]);
    let plan = respond(&request, &entry.metadata);
    assert_eq!(plan.length(), Some(body.len() as u64));
    // Another state of the file has another boundary.
    let other = Metadata { etag: HeaderValue::from_static("\"x\""), ..entry.metadata.clone() };
    assert_ne!(self::boundary(&other), boundary);
    assert_eq!(self::boundary(&entry.metadata), boundary);
}

#[test]
fn an_encoded_file_is_sent_in_one_part_or_whole() {
    let text: &'static str = Box::leak("0123456789".repeat(30).into_boxed_str());
    let entry = entry(text, Coding::Gzip, true);
    let (status, fields, body) = ask("GET", &[("range", "bytes=0-2")], &entry);
    assert_eq!((status, &body[..]), (206, "012"));
    assert!(fields.contains("content-encoding: gzip\n"), "{fields}");
    assert!(fields.contains("vary: accept-encoding\n"), "{fields}");
    let (status, _, body) = ask("GET", &[("range", "bytes=0-2,200-")], &entry);
    assert_eq!((status, &body[..]), (200, text));
}
