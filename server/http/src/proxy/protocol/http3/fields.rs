//! Header sections of HTTP/3, from and to the types of the proxy.

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TE, TRANSFER_ENCODING, UPGRADE};
use http::uri::{Authority, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version};
use sluicegate_quic_client::{Header, NameValue as _};

use crate::exchange::Fields;
use crate::proxy::request_error::RequestError;
use crate::proxy::response::ReceivedHead;
use crate::proxy::upstream_head::UpstreamHead;

/// Bytes that a field counts beside its name and value (RFC 9114 §4.2.2).
const OVERHEAD: usize = 32;

/// Head of a request: pseudo-fields and fields, in their order.
pub(super) type RequestHead = Vec<Header>;

/// Returns the head of a request in HTTP/3 (RFC 9114 §4.3.1), whose body may be over.
///
/// # Errors
/// The request names no host that could be an authority.
pub(super) fn request(
    given: &UpstreamHead<'_>,
    is_over: bool,
    scheme: &Scheme,
) -> Result<RequestHead, RequestError> {
    let host = given.values(&HOST).next();
    let host = host.filter(|host| Authority::try_from(*host).is_ok());
    let host = host.ok_or(RequestError::Authority)?;
    let mut head = vec![
        Header::new(b":method", given.method().as_bytes()),
        Header::new(b":scheme", scheme.as_str().as_bytes()),
        Header::new(b":authority", host),
        Header::new(b":path", given.target()),
    ];
    let own = [HOST, CONNECTION, UPGRADE];
    let lines = given.lines().filter(|(name, _)| !own.contains(name));
    head.extend(lines.map(|(name, value)| Header::new(name.as_str().as_bytes(), value)));
    if let Some(length) = given.content_length(is_over) {
        head.push(Header::new(b"content-length", length.to_string().as_bytes()));
    }
    Ok(head)
}

/// Returns the trailers of a request.
pub(super) fn trailers(fields: &HeaderMap) -> Vec<Header> {
    let fields = fields.iter();
    fields.map(|(name, value)| Header::new(name.as_str().as_bytes(), value.as_bytes())).collect()
}

/// Returns the size of a header section (RFC 9114 §4.2.2), bytes.
pub(super) fn size(section: &[Header]) -> usize {
    let size = |field: &Header| field.name().len() + field.value().len() + OVERHEAD;
    section.iter().map(size).sum()
}

/// Returns the head of a response, interim or final; `None` if it is malformed (RFC 9114 §4.1.2).
pub(super) fn response(section: &[Header]) -> Option<ReceivedHead> {
    let (first, rest) = section.split_first()?;
    let status = first.value();
    // Three digits, as in HTTP/1.1.
    let is_status = first.name() == b":status" && status.len() == 3;
    let status = StatusCode::from_bytes(status).ok().filter(|_| is_status)?;
    let fields = rest.iter().map(field).collect::<Option<Fields>>()?;
    Some(ReceivedHead { status, version: Version::HTTP_3, fields })
}

/// Returns the length that a response announces, valid or not.
pub(super) fn announced(fields: &Fields) -> Option<u64> {
    let (_, value) = fields.iter().find(|(name, _)| *name == CONTENT_LENGTH)?;
    value.to_str().ok()?.parse().ok()
}

/// Returns the trailers of a response; `None` if they are malformed, or too many.
pub(super) fn response_trailers(section: &[Header]) -> Option<HeaderMap> {
    let mut trailers = HeaderMap::new();
    for line in section {
        let (name, value) = field(line)?;
        trailers.try_append(name, value).ok()?;
    }
    Some(trailers)
}

/// Returns a field; `None` for a pseudo-field, a field of a connection, or one with characters that no field has (RFC 9114 §4.2).
fn field(line: &Header) -> Option<(HeaderName, HeaderValue)> {
    if line.name().iter().any(u8::is_ascii_uppercase) {
        return None;
    }
    // No token begins with a colon.
    let name = HeaderName::from_bytes(line.name()).ok()?;
    let is_of_connection = name == CONNECTION
        || name == TRANSFER_ENCODING
        || name == UPGRADE
        || matches!(name.as_str(), "keep-alive" | "proxy-connection");
    let has_other_te = name == TE && line.value() != b"trailers";
    let is_allowed = !is_of_connection && !has_other_te;
    let value = HeaderValue::from_bytes(line.value()).ok().filter(|_| is_allowed)?;
    Some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::upstream_head::Framing;

    fn section(lines: &[(&str, &str)]) -> Vec<Header> {
        let line = |(name, value): &(&str, &str)| Header::new(name.as_bytes(), value.as_bytes());
        lines.iter().map(line).collect()
    }

    #[test]
    fn request_has_pseudo_fields_first_and_no_field_of_a_connection() {
        let line = |name, value| (HeaderName::from_static(name), HeaderValue::from_static(value));
        let lines = [
            line("host", "app:8443"),
            line("connection", "close"),
            line("te", "trailers"),
            line("x-a", "1"),
            line("x-a", "2"),
        ];
        let target = |text: &mut Vec<u8>| text.extend_from_slice(b"/a?b=c");
        let mut head = UpstreamHead::new("POST", lines.len(), target).unwrap();
        assert_eq!(request(&head, true, &Scheme::HTTPS), Err(RequestError::Authority));
        lines.iter().for_each(|(name, value)| head.push(name, value));
        let mut expected = section(&[
            (":method", "POST"),
            (":scheme", "https"),
            (":authority", "app:8443"),
            (":path", "/a?b=c"),
            ("te", "trailers"),
            ("x-a", "1"),
            ("x-a", "2"),
        ]);
        head.set_framing(Framing::Chunked);
        assert_eq!(request(&head, false, &Scheme::HTTPS).as_ref(), Ok(&expected));
        expected.push(Header::new(b"content-length", b"0"));
        assert_eq!(request(&head, true, &Scheme::HTTPS), Ok(expected));
    }

    #[test]
    fn well_formed_response_keeps_every_line_in_order() {
        let lines = [(":status", "200"), ("set-cookie", "a"), ("x", ""), ("set-cookie", "b")];
        let head = response(&section(&lines)).unwrap();
        assert_eq!((head.status, head.version), (StatusCode::OK, Version::HTTP_3));
        let fields: Vec<_> =
            head.fields.iter().map(|(name, value)| (name.as_str(), value)).collect();
        let value = HeaderValue::from_static;
        let (a, none, b) = (value("a"), value(""), value("b"));
        assert_eq!(fields, [("set-cookie", &a), ("x", &none), ("set-cookie", &b)]);
    }

    #[test]
    fn malformed_responses_are_recognised() {
        for lines in [
            &[][..],
            &[("x", "1")],
            &[("x", "1"), (":status", "200")],
            &[(":status", "200"), (":status", "200")],
            &[(":status", "200"), (":path", "/")],
            &[(":status", "20")],
            &[(":status", "2000")],
            &[(":status", "+20")],
            &[(":status", "")],
            &[(":status", "200"), ("X", "1")],
            &[(":status", "200"), ("", "1")],
            &[(":status", "200"), ("a b", "1")],
            &[(":status", "200"), ("x", "1\r\ny: 2")],
            &[(":status", "200"), ("x", "\0")],
            &[(":status", "200"), ("connection", "close")],
            &[(":status", "200"), ("transfer-encoding", "chunked")],
            &[(":status", "200"), ("keep-alive", "1")],
            &[(":status", "200"), ("upgrade", "x")],
            &[(":status", "200"), ("te", "gzip")],
        ] {
            assert!(response(&section(lines)).is_none(), "{lines:?}");
        }
        assert!(response_trailers(&section(&[(":status", "200")])).is_none());
        assert!(response_trailers(&section(&[("x", "\n")])).is_none());
        assert_eq!(response_trailers(&section(&[("x", "1")])).unwrap()["x"], "1");
        let many: Vec<_> =
            (0..40_000).map(|i| Header::new(format!("x{i}").as_bytes(), b"")).collect();
        assert!(response_trailers(&many).is_none());
    }

    #[test]
    fn size_of_a_section_counts_each_field() {
        assert_eq!(size(&section(&[("a", "bc"), ("d", "")])), 2 * OVERHEAD + 4);
    }
}
