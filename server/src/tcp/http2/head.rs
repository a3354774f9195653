//! Heads of responses, as HTTP/2 has them.

use http::header::{CONNECTION, DATE};
use http::{HeaderMap, HeaderName, Response, StatusCode, response};
use sluicegate_base::clock;
use sluicegate_http::date;
use sluicegate_http::exchange::Fields;

use crate::tcp::request::is_of_connection;

/// Returns the head of a final response, with its date (RFC 9110 §6.6.1).
pub(super) fn last(mut parts: response::Parts) -> Response<()> {
    strip(&mut parts.headers);
    let date = parts.headers.entry(DATE);
    date.or_insert_with(|| date::at(clock::unix()));
    Response::from_parts(parts, ())
}

/// Returns an informational response; `None` if its status is not one.
pub(super) fn interim(status: u16, fields: Fields) -> Option<Response<()>> {
    let mut head = Response::new(());
    *head.status_mut() = StatusCode::from_u16(status).ok()?;
    *head.headers_mut() = fields.into_iter().collect();
    strip(head.headers_mut());
    Some(head)
}

/// Removes the fields of a connection of HTTP/1.1 and those that `connection` names: with one of them, the response would be malformed
/// (RFC 9113 §8.2.2).
fn strip(headers: &mut HeaderMap) {
    let mut removed: Vec<HeaderName> =
        headers.keys().filter(|name| is_of_connection(name)).cloned().collect();
    let options = headers.get_all(CONNECTION).iter();
    let options = options.filter_map(|value| value.to_str().ok());
    let named = options.flat_map(|value| value.split(','));
    removed.extend(named.filter_map(|name| name.trim().parse().ok()));
    for name in removed {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn fields(lines: &[(&'static str, &'static str)]) -> Fields {
        let line = |(name, value): &(&'static str, &'static str)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        };
        lines.iter().map(line).collect()
    }

    #[test]
    fn response_has_no_field_of_a_connection() {
        let lines = [
            ("connection", "upgrade, x-hop"),
            ("upgrade", "websocket"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("link", "</a>"),
            ("link", "</b>"),
        ];
        let head = interim(103, fields(&lines)).unwrap();
        assert_eq!(head.status(), 103);
        let left: HeaderMap = fields(&lines[6..]).into_iter().collect();
        assert_eq!(*head.headers(), left);
        let (parts, ()) = head.into_parts();
        assert_eq!(last(parts).headers().len(), left.len() + 1);
    }

    #[test]
    fn response_keeps_its_date_and_gets_one_otherwise() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let of = |lines: &[(&'static str, &'static str)]| {
            let mut head = Response::new(());
            *head.headers_mut() = fields(lines).into_iter().collect();
            last(head.into_parts().0)
        };
        assert_eq!(of(&[("date", date)]).headers()[DATE], date);
        let added = of(&[]);
        let added = added.headers()[DATE].to_str().unwrap();
        assert!(httpdate::parse_http_date(added).is_ok());
    }
}
