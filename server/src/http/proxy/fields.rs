//! Tells the fields of one connection, which are not forwarded in either direction, from those of the message.

use http::header::{CONNECTION, HOST, TRAILER};
use http::{HeaderMap, HeaderName, HeaderValue};

/// Fields that frame a message or concern its connection (RFC 9110 §7.6.1, RFC 9114 §4.2). `content-length` is one of
/// them: the proxy writes its own.
const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "content-length",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Returns whether a field concerns the connection in every message.
pub(super) fn is_hop_by_hop(name: &str) -> bool {
    HOP_BY_HOP.contains(&name)
}

/// Fields that a message's own `connection` lines name.
#[derive(Debug, Default)]
pub(super) struct Nominated(Vec<String>);

impl Nominated {
    pub(super) fn by<'a>(connection: impl Iterator<Item = &'a HeaderValue>) -> Nominated {
        let text = connection.flat_map(|value| value.as_bytes().split(|b| *b == b','));
        let names =
            text.map(|name| String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase());
        Nominated(names.filter(|name| !name.is_empty()).collect())
    }

    pub(super) fn by_map(fields: &HeaderMap) -> Nominated {
        Nominated::by(fields.get_all(CONNECTION).iter())
    }

    pub(super) fn contains(&self, name: &HeaderName) -> bool {
        self.0.iter().any(|nominated| nominated == name.as_str())
    }
}

/// Removes the fields that must not be trailers (RFC 9110 §6.5.1): those that frame or route a message.
pub(super) fn trailers(mut trailers: HeaderMap) -> HeaderMap {
    for name in HOP_BY_HOP {
        trailers.remove(name);
    }
    trailers.remove(HOST);
    trailers.remove(TRAILER);
    trailers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nominated_fields_are_found_in_any_case_and_on_any_line() {
        let lines = [
            HeaderValue::from_static("close , X-One"),
            HeaderValue::from_static(",x-two,"),
        ];
        let nominated = Nominated::by(lines.iter());
        assert!(nominated.contains(&HeaderName::from_static("x-one")));
        assert!(nominated.contains(&HeaderName::from_static("x-two")));
        assert!(!nominated.contains(&HeaderName::from_static("x-three")));
        assert_eq!(nominated.0.len(), 3);
    }

    #[test]
    fn trailers_cannot_frame_a_message() {
        let mut given = HeaderMap::new();
        for name in ["content-length", "transfer-encoding", "host", "grpc-status"] {
            given.insert(name, HeaderValue::from_static("0"));
        }
        let kept = trailers(given);
        assert_eq!(kept.len(), 1);
        assert!(kept.contains_key("grpc-status"));
    }
}
