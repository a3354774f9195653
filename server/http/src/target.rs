//! Targets of requests: one judgement of path and query for every front.
//!
//! Clients send characters that RFC 3986 excludes, as in `?query=up{job="x"}` or `/caf\u{e9}`. They stand for their percent-encoded
//! forms, which upstreams get; a target with a fragment is refused.

use std::fmt;
use std::ops::Deref;

use super::path::CanonicalPath;

/// Path and query of a target in origin form, or `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestTarget {
    /// Canonical path; empty if the target is refused.
    pub path: CanonicalPath,
    /// Query: the part behind the first `?`.
    pub query: Option<Query>,
    /// Path as the client sent it, if the target is refused with 400: servers read it differently.
    pub refused: Option<String>,
}

impl RequestTarget {
    /// Reads a target; `None` if it has a control character or white space, which no client sends.
    pub fn read(target: &str) -> Option<RequestTarget> {
        if target.bytes().any(|byte| byte.is_ascii_control() || byte == b' ') {
            return None;
        }
        let (path, query) = match target.bytes().position(|byte| byte == b'?') {
            Some(mark) => (&target[..mark], Some(&target[mark + 1..])),
            None => (target, None),
        };
        let canonical = match path {
            "" => Some(CanonicalPath::empty()),
            "*" => Some(CanonicalPath::asterisk()),
            // A target has no fragment (RFC 9112 §3.2): some servers cut it off, others read a part of the path.
            _ if target.contains('#') => None,
            path => CanonicalPath::parse(path).ok(),
        };
        // Logs have this path, and a fragment is the client's own, like a query.
        let named = || path.split('#').next().unwrap_or_default().to_owned();
        let refused = canonical.is_none().then(named);
        Some(RequestTarget {
            path: canonical.unwrap_or_else(CanonicalPath::empty),
            query: query.map(Query::new),
            refused,
        })
    }
}

/// Query of a target. It dereferences to its text, in which the characters that RFC 3986 §3.4 excludes are percent-encoded, except
/// brackets: every server takes those.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    text: Box<str>,
    /// The client's spelling, if it is another one of visible ASCII characters.
    raw: Option<Box<str>>,
}

impl Query {
    /// Reads a query, without the `?` in front.
    pub fn new(raw: &str) -> Query {
        if raw.bytes().all(is_plain) {
            return Query { text: raw.into(), raw: None };
        }
        let mut text = String::with_capacity(raw.len() + 16);
        for byte in raw.bytes() {
            if is_plain(byte) {
                text.push(char::from(byte));
            } else {
                super::path::escape(byte, &mut text);
            }
        }
        let is_visible = raw.bytes().all(|byte| byte.is_ascii_graphic());
        Query { text: text.into(), raw: is_visible.then(|| raw.into()) }
    }

    /// Returns the client's spelling. If that has an octet outside visible ASCII, returns the text: some servers drop such octets.
    pub fn raw(&self) -> &str {
        self.raw.as_deref().unwrap_or(&self.text)
    }
}

impl From<&str> for Query {
    fn from(raw: &str) -> Query {
        Query::new(raw)
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Deref for Query {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

/// Returns whether an octet may stand in a query unencoded. A `%` that begins no octet stays: it is data to most servers.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"\"#<>\\^`{|}".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(target: &str) -> RequestTarget {
        RequestTarget::read(target).unwrap()
    }

    #[test]
    fn excluded_characters_stand_for_their_encoded_forms() {
        let target = read("/caf\u{e9}<`{|}^\">[x]?query=up{job=\"x\"}&l[]=\u{e4}&p=100%");
        assert_eq!(target.refused, None);
        assert_eq!(&*target.path, "/caf%C3%A9%3C%60%7B%7C%7D%5E%22%3E%5Bx%5D");
        let query = target.query.unwrap();
        assert_eq!(&*query, "query=up%7Bjob=%22x%22%7D&l[]=%C3%A4&p=100%");
        // Its octets outside ASCII are sent in no case.
        assert_eq!(query.raw(), &*query);
    }

    #[test]
    fn a_visible_query_keeps_its_spelling_beside_the_encoded_one() {
        let query = Query::new("a={\"b\"}");
        assert_eq!((&*query, query.raw()), ("a=%7B%22b%22%7D", "a={\"b\"}"));
        let plain = Query::new("a=b%7b&c=/?:@!$'()*+,;");
        assert_eq!(plain.raw(), &*plain);
    }

    #[test]
    fn a_fragment_is_refused_wherever_it_stands() {
        for (raw, path) in [
            ("/a#b", "/a"),
            ("/#", "/"),
            ("/a?b#c", "/a"),
            ("/a?#", "/a"),
            ("/private#?x", "/private"),
        ] {
            let target = read(raw);
            assert!(target.path.is_empty(), "{raw}");
            assert_eq!(target.refused.as_deref(), Some(path), "{raw}");
        }
        assert_eq!(read("/a%23b?c=%23").refused, None);
    }

    #[test]
    fn a_path_that_servers_read_differently_is_refused_with_its_query() {
        let target = read("/a%2F..?c");
        assert_eq!(target.refused.as_deref(), Some("/a%2F.."));
        assert_eq!(target.query.as_deref(), Some("c"));
    }

    #[test]
    fn control_characters_and_white_space_are_malformed() {
        for byte in (0..=b' ').chain([0x7f]).map(char::from) {
            assert_eq!(RequestTarget::read(&format!("/a{byte}")), None, "{byte:?}");
            assert_eq!(RequestTarget::read(&format!("/a?{byte}")), None, "{byte:?}");
        }
    }
}
