//! Rewrites an upstream's response for the client.

use http::header::{ALT_SVC, CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, StatusCode, Version};

use super::failure::Failure;
use super::fields::{Nominated, is_hop_by_hop};
use crate::exchange::Fields;
use crate::exchange::message::Head;

/// Largest number of field lines in a response: far more than any application sends, and fewer than a map of fields can hold.
const MAX_LINES: usize = 4096;

/// Head of a response, as an upstream sent it.
#[derive(Debug)]
pub(crate) struct ReceivedHead {
    pub(crate) status: StatusCode,
    pub(crate) version: Version,
    pub(crate) fields: Fields,
}

impl From<http::Response<()>> for ReceivedHead {
    fn from(response: http::Response<()>) -> ReceivedHead {
        let (head, ()) = response.into_parts();
        let (status, version) = (head.status, head.version);
        ReceivedHead { status, version, fields: lines(head.headers) }
    }
}

/// Size of a body that has not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BodySize {
    /// Number of bytes, if it was announced.
    pub(crate) length: Option<u64>,
    /// Whether nothing of it is missing.
    pub(crate) is_end: bool,
}

impl BodySize {
    /// Returns the size that a header section announces, valid or not.
    pub(crate) fn announced(headers: &HeaderMap) -> BodySize {
        let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        BodySize { length: length.and_then(|length| length.parse().ok()), is_end: false }
    }
}

/// Returns the head for the client of a final response.
///
/// # Errors
/// The response states its length ambiguously, switches protocols, or has too many fields.
pub(crate) fn head(response: ReceivedHead, body: BodySize, is_head: bool) -> Result<Head, Failure> {
    let status = response.status;
    match status.as_u16() {
        101 => return Err(Failure::Switched),
        200..=599 => {}
        _ => return Err(Failure::Malformed),
    }
    if response.fields.len() > MAX_LINES {
        return Err(Failure::HeadTooLarge);
    }
    let announced = framing(&response.fields)?;
    let bodiless =
        is_head || status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED;
    let length = if status == StatusCode::NO_CONTENT {
        None
    } else if bodiless {
        announced
    } else {
        body.length
    };
    Ok(Head {
        status: status.as_u16(),
        fields: pass(response.fields),
        length,
        end: bodiless || body.is_end,
    })
}

/// Returns the announced length. The protocol checks it if there is a body. This refuses what HTTP/1.1 lets pass: two framings in one
/// response (RFC 9112 §6.3), and codings that would have to be decoded.
fn framing(fields: &Fields) -> Result<Option<u64>, Failure> {
    let (mut is_chunked, mut announced) = (false, None);
    for (name, value) in fields {
        if *name == TRANSFER_ENCODING {
            let is_known = value.as_bytes().eq_ignore_ascii_case(b"chunked");
            if !is_known || std::mem::replace(&mut is_chunked, true) {
                return Err(Failure::Malformed);
            }
        } else if *name == CONTENT_LENGTH {
            let text = value.to_str().map_err(|_| Failure::Malformed)?;
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let length = text.parse::<u64>().ok().filter(|_| is_number);
            let length = length.ok_or(Failure::Malformed)?;
            if announced.replace(length).is_some_and(|before| before != length) {
                return Err(Failure::Malformed);
            }
        }
    }
    if is_chunked && announced.is_some() { Err(Failure::Malformed) } else { Ok(announced) }
}

/// Returns the fields that are for the client. An alternative service (RFC 7838) is another way to the client's server, which is
/// this one, so an upstream's does not pass; `response_headers` of a route may add this server's own.
pub(super) fn pass(mut fields: Fields) -> Fields {
    let connection = fields.iter().filter(|(name, _)| *name == CONNECTION);
    let nominated = Nominated::by(connection.map(|(_, value)| value));
    fields.retain(|(name, _)| {
        !is_hop_by_hop(name.as_str()) && *name != ALT_SVC && !nominated.contains(name)
    });
    fields
}

/// Returns the lines of a map, those of each field together.
pub(super) fn lines(headers: HeaderMap) -> Fields {
    let mut lines = Fields::with_capacity(headers.len());
    for (name, value) in headers {
        // `HeaderMap` yields a field's name with its first line only.
        let name = name.or_else(|| lines.last().map(|(name, _)| HeaderName::clone(name)));
        lines.extend(name.map(|name| (name, value)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn fields(lines: &[(&'static str, &'static str)]) -> Fields {
        let line = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        lines.iter().map(line).collect()
    }

    #[test]
    fn ambiguous_lengths_are_malformed() {
        let announced = |lines: &[_]| framing(&fields(lines));
        assert_eq!(announced(&[]), Ok(None));
        assert_eq!(announced(&[("content-length", "5")]), Ok(Some(5)));
        let twice = [("content-length", "5"), ("content-length", "5")];
        assert_eq!(announced(&twice), Ok(Some(5)));
        assert_eq!(announced(&[("transfer-encoding", "Chunked")]), Ok(None));
        for bad in [
            vec![("content-length", "5"), ("content-length", "6")],
            vec![("content-length", "+5")],
            vec![("content-length", "")],
            vec![("content-length", "5, 5")],
            vec![("transfer-encoding", "gzip, chunked")],
            vec![("transfer-encoding", "gzip")],
            vec![("transfer-encoding", "chunked"), ("content-length", "5")],
            vec![("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")],
        ] {
            assert_eq!(announced(&bad), Err(Failure::Malformed), "{bad:?}");
        }
    }

    #[test]
    fn every_line_of_a_field_is_passed_in_order() {
        let given = fields(&[
            ("set-cookie", "a"),
            ("connection", "x-secret, close"),
            ("x-secret", "1"),
            ("set-cookie", "b"),
            ("keep-alive", "timeout=5"),
            ("alt-svc", "h3=\":8443\""),
            ("content-length", "3"),
        ]);
        let passed: Vec<_> =
            pass(given).into_iter().map(|(name, value)| (name.to_string(), value)).collect();
        let cookie = |text| ("set-cookie".to_owned(), HeaderValue::from_static(text));
        assert_eq!(passed, [cookie("a"), cookie("b")]);
    }

    #[test]
    fn lines_of_a_map_keep_their_names() {
        let given = fields(&[("set-cookie", "a"), ("x-one", "1"), ("set-cookie", "b")]);
        let map: HeaderMap = given.into_iter().collect();
        let expected = fields(&[("set-cookie", "a"), ("set-cookie", "b"), ("x-one", "1")]);
        assert_eq!(lines(map), expected);
    }
}
