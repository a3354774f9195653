//! Scripts of other origins that may use a route (CORS).

use std::fmt;
use std::time::Duration;

use crate::error::Error;
use crate::field::{Record, words_in_fields};
use crate::schema::{Kind, Reason, Refusal, Table, duration, seconds};
use crate::section::Section;
use crate::source::shown;
use crate::value::Word;
use crate::words::{canonical, host, token};

const MAX_METHOD: usize = 32;
const MAX_SCHEME: usize = 32;

/// Word for all origins, methods or fields.
const ANY: &str = "*";

table! {
    /// Origins whose scripts may use the route above from browsers (CORS, <https://fetch.spec.whatwg.org/#http-cors-protocol>).
    /// The server itself responds to preflights, the OPTIONS requests by which browsers ask first: with 204, after `allow`, `deny` and
    /// `rate_limit`, and before a password, because browsers send none. The route of a preflight is the one that the request itself
    /// would have, whatever methods it names; but a preflight has none of the request's fields, so that conditions in
    /// `match_headers` do not hold for it. A route for the method OPTIONS without `cors` takes preflights as any other request. All
    /// other responses of the route, errors included, get access-control-allow-origin and the other fields below in
    /// place of those of upstreams, and `vary: Origin` where they depend on the origin; [[route.response_headers]] may still change them.
    /// The server refuses no request by its origin: browsers keep the response from the script.
    #[derive(Eq)]
    pub struct Cors = [route.cors], check: check_cors {
        /// Origins whose scripts may read responses: a scheme and a host, and a port if it is not the scheme's own.
        /// "https://*.example.com" stands for one or more labels, as in `host`. "*" alone stands for all origins.
        origins: Vec<CorsOrigin> {
            kind: Kind::Words {
                words: "an origin such as \"https://app.example.com\", \"https://*.example.com\" or \"http://localhost:3000\", or \"*\"",
                each: "",
                min: 1,
                max: 256,
                read: |word| origin(word).map(|origin| origin.to_string()),
            },
            required: "\"https://app.example.com\"",
            examples: ["[\"https://example.com\", \"https://*.example.com\"]", "\"*\""],
            reload: Live
        },
        /// Methods that scripts may use. GET, HEAD and POST need no preflight where their fields are plain ones.
        methods: Vec<String> {
            kind: Kind::Words {
                words: "a method in upper case such as \"PUT\", or \"*\"",
                each: ", of up to 32 characters each",
                min: 1,
                max: 32,
                read: |word| canonical(method(word)),
            },
            default: "[\"GET\", \"HEAD\", \"POST\"]",
            examples: ["[\"GET\", \"POST\", \"PUT\", \"DELETE\"]"],
            reload: Live
        },
        /// Fields that scripts may send beside the plain ones, such as accept. "*" stands for all but authorization, which
        /// must be named.
        headers: Vec<String> {
            kind: Kind::FieldNames,
            default: "[]",
            examples: ["[\"authorization\", \"content-type\"]"],
            reload: Live
        },
        /// Fields of responses that scripts may read beside the plain ones, such as content-type.
        expose: Vec<String> {
            kind: Kind::FieldNames,
            default: "[]",
            examples: ["[\"content-range\", \"etag\"]"],
            reload: Live
        },
        /// Whether browsers send cookies and passwords with such requests, and let scripts read the responses. Then the
        /// origins, methods and fields must be named: browsers take "*" for none of them.
        credentials: bool { kind: Kind::Switch, default: "false", examples: ["true"], reload: Live },
        /// Time for which browsers may keep the response to a preflight. They shorten it to two hours or a day.
        max_age: Option<Duration> {
            kind: duration(seconds(0), seconds(86_400)),
            unset: "5 seconds, by the browser",
            examples: ["\"1h\""],
            reload: Live
        },
    }
}

impl Cors {
    /// The same keys in the table of a site.
    pub(crate) const OF_SITES: &'static Table = &Table {
        name: "site.cors",
        summary: "Origins whose scripts may use the site above. The keys are those of [route.cors].",
        ..*Self::TABLE
    };
}

fn check_cors(cors: &mut Cors, section: &Section<'_>) -> Result<(), Error> {
    let refused = |key: &str, found: String, expected: &str| {
        Err(section.source.error(section.position(key), found, expected))
    };
    let any_origin = cors.origins.contains(&CorsOrigin::Any);
    if any_origin && cors.origins.len() > 1 {
        let found = "\"*\" beside other `origins`".to_owned();
        return refused("origins", found, "\"*\" alone, or a list of origins without it");
    }
    if !cors.credentials {
        return Ok(());
    }
    let any = |list: &[String]| list.iter().any(|word| word == ANY);
    for (key, is_any) in [
        ("origins", any_origin),
        ("methods", any(&cors.methods)),
        ("headers", any(&cors.headers)),
        ("expose", any(&cors.expose)),
    ] {
        if is_any {
            let found =
                format!("\"*\" for `{key}` beside `credentials = true`, which no browser takes");
            return refused(key, found, "each by its name, or no `credentials`");
        }
    }
    Ok(())
}

/// Origins that a pattern stands for (RFC 6454 §6.2). Schemes and hosts are in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CorsOrigin {
    /// Every origin.
    Any,
    /// This origin alone, as browsers send it.
    Exact(String),
    /// Every origin whose host has one or more labels in place of the `*`.
    Below {
        /// The origin up to the host, such as `https://`.
        start: String,
        /// What follows the labels, such as `.example.com:8443`.
        end: String,
    },
}

impl CorsOrigin {
    /// Returns whether the pattern stands for an origin that a browser has sent.
    pub fn matches(&self, origin: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(exact) => origin == exact,
            Self::Below { start, end } => {
                let labels = origin.strip_prefix(start.as_str());
                let labels = labels.and_then(|rest| rest.strip_suffix(end.as_str()));
                labels.is_some_and(|labels| host(labels).is_some_and(|host| host == labels))
            }
        }
    }
}

impl fmt::Display for CorsOrigin {
    /// Writes the pattern as a file does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str(ANY),
            Self::Exact(origin) => f.write_str(origin),
            Self::Below { start, end } => write!(f, "{start}*{end}"),
        }
    }
}

impl Word for CorsOrigin {
    fn of_canonical(word: String) -> Option<Self> {
        Some(match word.split_once("://*.") {
            _ if word == ANY => Self::Any,
            Some((scheme, end)) => {
                Self::Below { start: format!("{scheme}://"), end: format!(".{end}") }
            }
            None => Self::Exact(word),
        })
    }
}

words_in_fields!(CorsOrigin);

/// Reads an origin, and suggests the form of one with a path or without a scheme.
fn origin(word: &str) -> Result<CorsOrigin, Refusal> {
    let read = |word: &str| canonical_origin(word).and_then(CorsOrigin::of_canonical);
    if let Some(origin) = read(word) {
        return Ok(origin);
    }
    let scheme = word.find("://").map_or(0, |at| at + 3);
    let end = word[scheme..].find('/').map_or(word.len(), |at| scheme + at);
    let meant = read(&word[..end]).or_else(|| read(&format!("https://{}", &word[..end])));
    Err(meant.map_or_else(Refusal::default, |meant| {
        Refusal::because(Reason {
            found: format!("\"{}\" for `origins`", shown(word)),
            expected: "a scheme and a host, and a port if it is not the scheme's own".to_owned(),
            nearest: Some(meant.to_string()),
        })
    }))
}

/// Returns an origin, or a pattern of origins, as browsers write it.
fn canonical_origin(word: &str) -> Option<String> {
    if word == ANY {
        return Some(word.to_owned());
    }
    let (scheme, rest) = word.split_once("://")?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"+-.".contains(&b);
    let starts = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
    if !starts || scheme.len() > MAX_SCHEME || !scheme.bytes().all(plain) {
        return None;
    }
    let scheme = scheme.to_ascii_lowercase();
    let (labels, rest) = match rest.strip_prefix("*.") {
        Some(rest) => ("*.", rest),
        None => ("", rest),
    };
    let digits = |port: &str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let (name, port) = match rest.rsplit_once(':') {
        Some((name, port)) if digits(port) => (name, Some(port.parse::<u16>().ok()?)),
        _ => (rest, None),
    };
    let own = match &*scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    };
    let port = port.filter(|port| Some(*port) != own);
    let port = port.map_or_else(String::new, |port| format!(":{port}"));
    Some(format!("{scheme}://{labels}{}{port}", host(name)?))
}

fn method(word: &str) -> Option<&str> {
    let upper = !word.bytes().any(|b| b.is_ascii_lowercase());
    (upper && token(word, MAX_METHOD)).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_read_as_browsers_write_them() {
        for (word, expected) in [
            ("*", "*"),
            ("https://App.Example.com", "https://app.example.com"),
            ("https://example.com:443", "https://example.com"),
            ("http://example.com:80", "http://example.com"),
            ("http://localhost:3000", "http://localhost:3000"),
            ("https://[2001:DB8::1]:8443", "https://[2001:db8::1]:8443"),
            ("https://*.example.com:8443", "https://*.example.com:8443"),
            ("capacitor://localhost", "capacitor://localhost"),
        ] {
            assert_eq!(origin(word).unwrap().to_string(), expected, "{word}");
        }
        for word in
            ["", "null", "https://", "://a", "https://*", "https://a*.b", "1://a", "https://a:x"]
        {
            let refused = origin(word).unwrap_err();
            assert!(
                refused.0.is_none_or(|reason| word == "null" && reason.nearest.is_some()),
                "{word}"
            );
        }
        for (word, meant) in [
            ("https://example.com/", "https://example.com"),
            ("https://example.com/app", "https://example.com"),
            ("example.com", "https://example.com"),
            ("*.example.com", "https://*.example.com"),
        ] {
            let reason = origin(word).unwrap_err().0.unwrap();
            assert_eq!(reason.nearest.as_deref(), Some(meant), "{word}");
        }
    }

    #[test]
    fn a_pattern_stands_for_names_below_and_for_nothing_that_only_looks_like_one() {
        let pattern = origin("https://*.example.com").unwrap();
        for known in ["https://a.example.com", "https://a.b.example.com"] {
            assert!(pattern.matches(known), "{known}");
        }
        for other in [
            "https://example.com",
            "https://.example.com",
            "http://a.example.com",
            "https://a.example.com:8443",
            "https://a.example.com.evil.test",
            "https://evil.test/.example.com",
            "https://evil.test:1.example.com",
            "https://evil.test@a.example.com",
            "https://aexample.com",
            "null",
            "",
        ] {
            assert!(!pattern.matches(other), "{other}");
        }
    }
}
