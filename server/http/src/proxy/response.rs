//! Rewrites an upstream's response for the client.

use http::header::{ALT_SVC, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, StatusCode};

use super::failure::Failure;
use super::fields::{Nominated, is_hop_by_hop};
use crate::exchange::Fields;
use crate::exchange::message::Head;

/// Largest number of field lines in a response: far more than any application sends, and fewer than a map of fields can hold.
const MAX_LINES: usize = 4096;

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
pub(crate) fn head(
    response: http::Response<()>,
    body: BodySize,
    is_head: bool,
) -> Result<Head, Failure> {
    let status = response.status();
    match status.as_u16() {
        101 => return Err(Failure::Switched),
        200..=599 => {}
        _ => return Err(Failure::Malformed),
    }
    if response.headers().len() > MAX_LINES {
        return Err(Failure::HeadTooLarge);
    }
    let announced = framing(response.headers())?;
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
        fields: pass(response.into_parts().0.headers),
        length,
        end: bodiless || body.is_end,
    })
}

/// Returns the announced length. The protocol checks it if there is a body. This refuses what HTTP/1.1 lets pass: two framings in one
/// response (RFC 9112 §6.3), and codings that would have to be decoded.
fn framing(headers: &HeaderMap) -> Result<Option<u64>, Failure> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next() {
        let chunked = coding.as_bytes().eq_ignore_ascii_case(b"chunked");
        let alone = codings.next().is_none() && !headers.contains_key(CONTENT_LENGTH);
        return if chunked && alone { Ok(None) } else { Err(Failure::Malformed) };
    }
    let mut announced = None;
    for value in headers.get_all(CONTENT_LENGTH) {
        let length = value
            .to_str()
            .ok()
            .filter(|text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()));
        let length = length.and_then(|text| text.parse::<u64>().ok());
        let length = length.ok_or(Failure::Malformed)?;
        if announced.replace(length).is_some_and(|before| before != length) {
            return Err(Failure::Malformed);
        }
    }
    Ok(announced)
}

/// Returns the fields that are for the client. An alternative service (RFC 7838) is another way to the client's server, which is
/// this one, so an upstream's does not pass; `response_headers` of a route may add this server's own.
pub(super) fn pass(headers: HeaderMap) -> Fields {
    let nominated = Nominated::by_map(&headers);
    let mut fields = Vec::with_capacity(headers.len());
    let mut current = None;
    for (name, value) in headers {
        // `HeaderMap` yields a field's name with its first line only.
        if name.is_some() {
            current = name;
        }
        if let Some(name) = &current
            && !is_hop_by_hop(name.as_str())
            && name != ALT_SVC
            && !nominated.contains(name)
        {
            fields.push((name.clone(), value));
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(*name, HeaderValue::from_static(value));
        }
        map
    }

    #[test]
    fn ambiguous_lengths_are_malformed() {
        let announced = |lines: &[_]| framing(&headers(lines));
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
        let given = headers(&[
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
}
