//! Tells the fields of one connection, which are not forwarded in either direction, from those of the message.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::claims::is_claim;
use crate::exchange::{FieldNames, is_any};

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
pub(crate) fn is_hop_by_hop(name: &str) -> bool {
    HOP_BY_HOP.contains(&name)
}

/// Fields that a message's own `connection` lines name, in order, beside those that never pass.
#[derive(Debug, Default)]
pub(crate) struct Nominated(Vec<String>);

impl Nominated {
    pub(crate) fn by<'a>(connection: impl Iterator<Item = &'a HeaderValue>) -> Nominated {
        let text = connection.flat_map(|value| value.as_bytes().split(|b| *b == b','));
        let names = text.map(<[u8]>::trim_ascii);
        let is_known = |name: &&[u8]| {
            HOP_BY_HOP.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name))
        };
        let names = names.filter(|name| !name.is_empty() && !is_known(name));
        let mut names: Vec<_> =
            names.map(|name| String::from_utf8_lossy(name).to_ascii_lowercase()).collect();
        names.sort_unstable();
        Nominated(names)
    }

    pub(crate) fn contains(&self, name: &HeaderName) -> bool {
        let is_there = |known: &String| known.as_str().cmp(name.as_str());
        self.0.binary_search_by(is_there).is_ok()
    }
}

/// Fields that must not be trailers (RFC 9110 §6.5.1), beside those of the connection and those that begin with `if-`: they
/// route or authenticate a message, describe its way or its content, or control caches. Whoever merges trailers into the
/// header would believe them.
const NOT_TRAILERS: [&str; 28] = [
    "age",
    "alt-svc",
    "authorization",
    "cache-control",
    "content-encoding",
    "content-location",
    "content-range",
    "content-type",
    "cookie",
    "date",
    "early-data",
    "expect",
    "expires",
    "host",
    "location",
    "max-forwards",
    "pragma",
    "proxy",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "retry-after",
    "set-cookie",
    "trailer",
    "vary",
    "via",
    "warning",
    "www-authenticate",
];

/// Removes the trailers of a request that must not be any, that claim something about its client, and that the configuration replaces.
pub(super) fn request_trailers(trailers: HeaderMap, replaced: &FieldNames) -> HeaderMap {
    kept(trailers, |name| !is_any(name, is_claim) && !replaced.contains(name))
}

/// Removes the trailers of a response that must not be any.
pub(super) fn response_trailers(trailers: HeaderMap) -> HeaderMap {
    kept(trailers, |_| true)
}

/// Returns the fields that may be trailers, and that `passes` lets through.
fn kept(trailers: HeaderMap, passes: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let is_refused =
        |name: &str| is_hop_by_hop(name) || NOT_TRAILERS.contains(&name) || name.starts_with("if-");
    let mut kept = HeaderMap::with_capacity(trailers.keys_len());
    let mut current = None;
    for (name, value) in trailers {
        // `HeaderMap` yields a field's name with its first line only.
        if name.is_some() {
            current = name;
        }
        if let Some(name) = &current
            && !is_any(name, is_refused)
            && passes(name)
        {
            kept.append(name.clone(), value);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nominated_fields_are_found_in_any_case_and_on_any_line() {
        let lines =
            [HeaderValue::from_static("close , X-One"), HeaderValue::from_static(",x-two,")];
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
        let kept = response_trailers(given);
        assert_eq!(kept.len(), 1);
        assert!(kept.contains_key("grpc-status"));
    }

    #[test]
    fn trailers_cannot_be_fields_that_the_configuration_replaces() {
        let set = HeaderName::from_static("x-client-subject");
        let mut given = HeaderMap::new();
        for name in ["x-client-subject", "x_client-subject", "x-client-subject-2"] {
            given.insert(name, HeaderValue::from_static("CN=admin"));
        }
        let kept = request_trailers(given, &[set].iter().collect());
        assert_eq!(kept.len(), 1);
        assert!(kept.contains_key("x-client-subject-2"));
    }

    #[test]
    fn trailers_cannot_route_or_authenticate_a_message_or_name_its_client() {
        let mut given = HeaderMap::new();
        for name in [
            "x-forwarded-for",
            "x_forwarded_for",
            "x-forwarded-host",
            "forwarded",
            "x-real-ip",
            "via",
            "early-data",
            "authorization",
            "proxy-authorization",
            "cookie",
            "set-cookie",
            "www-authenticate",
            "if-match",
            "cache-control",
            "content-type",
            "content_type",
            "alt-svc",
        ] {
            given.insert(name, HeaderValue::from_static("0"));
        }
        for value in ["1", "2"] {
            given.append("x-checksum", HeaderValue::from_static(value));
        }
        // Its definitions allow it as a trailer (RFC 9110 §8.8.3).
        given.insert("etag", HeaderValue::from_static("\"a\""));
        let of_response = response_trailers(given.clone());
        assert!(of_response.contains_key("x-real-ip"), "no claim of a client");
        assert!(!of_response.contains_key("set-cookie"));
        let kept = request_trailers(given, &FieldNames::default());
        assert_eq!(kept.get_all("x-checksum").iter().count(), 2);
        assert_eq!((kept.len(), kept.contains_key("etag")), (3, true), "{kept:?}");
    }
}
