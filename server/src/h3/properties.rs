//! Properties of every head, trailer section and priority that a client may send.

mod upstream;

use quiche::h3::{Header, NameValue};

pub use self::upstream::upstream;

use sluicegate_base::properties::Bytes;
use sluicegate_http::exchange::{Fields, RequestHead};

use super::priority::Priority;
use super::request::{self, ParsedRequest};

/// Largest field section, bytes.
const LARGEST: u64 = 4096;
/// Connection-specific fields (RFC 9114 §4.2).
const FORBIDDEN: [&str; 5] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// Reads field lines, `name 0x1f value 0x1e` each, as a head and as trailers. Returns whether the head is well-formed.
pub fn head(bytes: &[u8]) -> bool {
    let lines = Bytes::new(bytes).fields();
    let list: Vec<Header> = lines.iter().map(|(name, value)| Header::new(name, value)).collect();
    if let Ok(fields) = request::trailers(&list, LARGEST) {
        check_fields(&fields, &list);
        let framing = |name: &str| matches!(name, "content-length" | "host");
        assert!(!fields.iter().any(|(name, _)| framing(name.as_str())));
    }
    let Ok(request) = request::parse(&list, LARGEST) else {
        return false;
    };
    let size = list.iter().map(|line| line.name().len() + line.value().len() + 32);
    assert!(size.sum::<usize>() as u64 <= LARGEST);
    let pseudo = list.iter().take_while(|line| line.name().starts_with(b":")).count();
    check_fields(&request.head.headers, &list[pseudo..]);
    check_head(&request.head);
    check_framing(&request);
    assert_eq!(request::parse(&written(&request.head), LARGEST * 2).as_ref(), Ok(&request));
    true
}

fn visible(text: &str) -> bool {
    text.bytes().all(|byte| (0x21..=0x7e).contains(&byte))
}

fn token(text: &str) -> bool {
    let other = |byte| b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(|byte: u8| byte.is_ascii_alphanumeric() || other(byte))
}

fn check_head(head: &RequestHead) {
    assert!(token(&head.method), "{head:?}");
    let protocol = head.protocol.as_deref();
    assert!(protocol.is_none_or(|protocol| token(protocol) && head.is_tunnel()), "{head:?}");
    let names_authority_alone = head.is_tunnel() && protocol.is_none();
    let authority = !head.authority.is_empty()
        && visible(&head.authority)
        && !head.authority.contains(['@', '/', '\\', '?', '#']);
    assert!(authority, "{head:?}");
    let query = head.query.as_deref().unwrap_or_default();
    assert!(visible(query) && !query.contains('#'), "{head:?}");
    let path = match (head.method.as_str(), head.path.as_str()) {
        (_, path) if names_authority_alone => {
            path.is_empty() && head.query.is_none() && head.scheme.is_none()
        }
        ("OPTIONS", "*") => head.query.is_none(),
        (_, path) => path.starts_with('/') && visible(path) && !path.contains(['?', '#']),
    };
    assert!(path, "{head:?}");
    let scheme = matches!(head.scheme.as_deref(), Some("http" | "https"));
    assert!(scheme || names_authority_alone, "{head:?}");
}

/// Checks that neither the length of a body nor the host can be read in two ways.
fn check_framing(request: &ParsedRequest) {
    let lines = |wanted: &'static str| {
        let fields = request.head.headers.iter();
        fields.filter(move |(name, _)| name.as_str() == wanted)
    };
    let mut lengths = Vec::new();
    for (_, value) in lines("content-length") {
        let digits = value.as_bytes().iter().all(u8::is_ascii_digit);
        let length = value.to_str().ok().and_then(|text| text.parse().ok());
        assert!(digits && length.is_some(), "{request:?}");
        lengths.push(length);
    }
    lengths.dedup();
    assert!(lengths.len() <= 1, "{request:?}");
    assert_eq!(lengths.first().copied().flatten(), request.content_length);
    let hosts: Vec<_> = lines("host").collect();
    let authority = request.head.authority.as_bytes();
    let same = |value: &[u8]| value.eq_ignore_ascii_case(authority);
    assert!(hosts.len() <= 1 && hosts.iter().all(|(_, value)| same(value.as_bytes())));
}

/// Checks that each line but Host, which names the authority, is as it was sent, and none could be more than one line or framing to an HTTP/1.1 server.
fn check_fields(fields: &Fields, sent: &[Header]) {
    assert_eq!(fields.len(), sent.len());
    for ((name, value), line) in fields.iter().zip(sent) {
        let (name, value) = (name.as_str(), value.as_bytes());
        assert_eq!(name.as_bytes(), line.name());
        assert!(name == "host" || value == line.value(), "{name}");
        let lower = !name.bytes().any(|byte| byte.is_ascii_uppercase());
        assert!(token(name) && lower && !FORBIDDEN.contains(&name), "{name}");
        assert!(name != "te" || value.eq_ignore_ascii_case(b"trailers"));
        let text = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f);
        assert!(value.iter().all(text), "{value:?}");
        assert_eq!(value, value.trim_ascii());
    }
}

/// Returns a head as a client would write it.
fn written(head: &RequestHead) -> Vec<Header> {
    let mut list = vec![
        Header::new(b":method", head.method.as_bytes()),
        Header::new(b":authority", head.authority.as_bytes()),
    ];
    if let Some(protocol) = &head.protocol {
        list.push(Header::new(b":protocol", protocol.as_bytes()));
    }
    if let Some(scheme) = &head.scheme {
        let target = match &head.query {
            Some(query) => format!("{}?{}", head.path.raw(), query.raw()),
            None => head.path.raw().to_owned(),
        };
        list.push(Header::new(b":scheme", scheme.as_bytes()));
        list.push(Header::new(b":path", target.as_bytes()));
    }
    let fields = head.headers.iter();
    list.extend(
        fields.map(|(name, value)| Header::new(name.as_str().as_bytes(), value.as_bytes())),
    );
    list
}

/// Reads a priority (RFC 9218). Returns whether it differs from the default.
pub fn priority(value: &[u8]) -> bool {
    let priority = Priority::parse(value);
    assert!(priority.urgency <= 7, "{priority:?}");
    let incremental = u8::from(priority.incremental);
    let written = format!("u={}, i=?{incremental}", priority.urgency);
    assert_eq!(Priority::parse(written.as_bytes()), priority);
    // An unknown parameter changes nothing.
    let extended = [value, b", sg-trial=1"].concat();
    assert_eq!(Priority::parse(&extended), priority);
    priority != Priority::default()
}
