//! Conditions of a route, compiled: on the path, the method, the fields and the query.

use http::HeaderName;
use http::header::COOKIE;
use regex::{Captures, Regex};
use sluicegate_config::{NamedMatch, PathPattern, Route, ValueMatch, compile_regex};

use super::error::SiteError;
use crate::exchange::RequestHead;
use crate::field_name::is_written_like;
use crate::path::{self, CanonicalPath};

/// Compiled pattern of canonical paths.
#[derive(Clone, Debug)]
pub(super) enum PathMatch {
    /// This path alone.
    Exact(String),
    /// This path and all below it; one that ends with a slash has no path of its own.
    Prefix(String),
    /// Every path in which the expression matches.
    Regex(Regex),
}

impl PathMatch {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// The pattern matches no canonical path.
    pub(super) fn compile(pattern: &PathPattern) -> Result<PathMatch, SiteError> {
        let refuse = |advice: String| SiteError::Path { route: pattern.to_string(), advice };
        let canonical = |text: &String, sign: &str| match CanonicalPath::parse(text) {
            Ok(path) if path.as_str() == text => Ok(text.clone()),
            Ok(path) => {
                Err(refuse(format!("write `path = \"{sign}{path}\"`, the canonical spelling")))
            }
            Err(error) => Err(refuse(format!("correct `path` in [[route]]: {error}"))),
        };
        Ok(match pattern {
            PathPattern::Exact(path) => PathMatch::Exact(canonical(path, "= ")?),
            PathPattern::Prefix(path) => PathMatch::Prefix(canonical(path, "")?),
            PathPattern::Regex(regex) => {
                let compiled = compile_regex(regex).map_err(|error| refuse(error.to_string()))?;
                PathMatch::Regex(compiled)
            }
        })
    }

    /// Returns whether the pattern matches a path.
    pub(super) fn matches(&self, path: &str) -> bool {
        match self {
            PathMatch::Exact(exact) => path == exact,
            PathMatch::Prefix(prefix) => is_below(prefix, path),
            PathMatch::Regex(regex) => regex.is_match(path),
        }
    }

    /// Returns what the groups of a regular expression matched in a path.
    pub(super) fn captures<'a>(&self, path: &'a str) -> Option<Captures<'a>> {
        match self {
            PathMatch::Regex(regex) => regex.captures(path),
            PathMatch::Exact(_) | PathMatch::Prefix(_) => None,
        }
    }

    /// Returns what follows the pattern's prefix in a path that it matches, in the spelling for upstreams
    /// ([`CanonicalPath::forward`]); the whole path if the pattern has no prefix.
    pub(super) fn forward_rest<'a>(&self, path: &'a CanonicalPath) -> &'a str {
        let rest = path.strip_prefix(self.prefix()).unwrap_or(path);
        path.forward(path.len() - rest.len())
    }

    /// Returns the prefix that the pattern has; empty for an exact path and for a regular expression.
    pub(super) fn prefix(&self) -> &str {
        match self {
            PathMatch::Prefix(prefix) => prefix,
            PathMatch::Exact(_) | PathMatch::Regex(_) => "",
        }
    }

    /// Returns the pattern's regular expression; empty for a path.
    pub(super) fn regex(&self) -> &str {
        match self {
            PathMatch::Regex(regex) => regex.as_str(),
            PathMatch::Exact(_) | PathMatch::Prefix(_) => "",
        }
    }
}

/// Returns whether a path is `prefix` or below it: the prefix ends where a segment ends.
pub(super) fn is_below(prefix: &str, path: &str) -> bool {
    let rest = path.strip_prefix(prefix);
    rest.is_some_and(|rest| rest.is_empty() || prefix.ends_with('/') || rest.starts_with('/'))
}

/// Compiled conditions of a route beside host and path.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    /// Methods; empty for any.
    pub(super) methods: Vec<String>,
    fields: Vec<(HeaderName, Value)>,
    query: Vec<(String, Value)>,
}

#[derive(Clone, Debug)]
enum Value {
    Any,
    Is(String),
    Regex(Regex),
}

impl Conditions {
    /// Compiles the conditions of a route.
    ///
    /// # Errors
    /// A condition cannot be used; the configuration refuses these by the same rules.
    pub(super) fn compile(route: &Route) -> Result<Conditions, String> {
        let value = |of: &NamedMatch| -> Result<Value, String> {
            Ok(match &of.value {
                ValueMatch::Any => Value::Any,
                ValueMatch::Is(value) => Value::Is(value.clone()),
                ValueMatch::Regex(regex) => {
                    Value::Regex(compile_regex(regex).map_err(|_| regex.clone())?)
                }
            })
        };
        let fields = route.match_headers.iter().map(|condition| {
            let name = HeaderName::try_from(&condition.0.name);
            let name = name.map_err(|_| condition.0.name.clone())?;
            Ok((name, value(&condition.0)?))
        });
        let query = { route.match_query.iter() }
            .map(|condition| Ok((condition.0.name.clone(), value(&condition.0)?)));
        Ok(Conditions {
            methods: route.methods.clone(),
            fields: fields.collect::<Result<_, String>>()?,
            query: query.collect::<Result<_, String>>()?,
        })
    }

    /// Returns the number of conditions on fields and query.
    pub(super) fn count(&self) -> usize {
        self.fields.len() + self.query.len()
    }

    /// Returns whether the method is one of the route's.
    pub(super) fn method_matches(&self, method: &str) -> bool {
        self.methods.is_empty() || self.methods.iter().any(|known| known == method)
    }

    /// Returns whether the conditions on fields hold. A field with `_` in its name meets a condition on `-`: upstreams may take it for
    /// that one, and would serve what the route denies.
    pub(super) fn fields_match(&self, head: &RequestHead) -> bool {
        self.fields.iter().all(|(name, value)| {
            let is_meant = |known: &HeaderName| is_written_like(known.as_str(), name.as_str());
            let lines = head.headers.iter().filter(|(known, _)| is_meant(known));
            let mut lines = lines.map(|(_, line)| line.as_bytes());
            if name == COOKIE {
                // Clients of HTTP/2 and 3 may send each cookie on a line of its own (RFC 9114 §4.2.1).
                let cookies: Vec<_> = lines.collect();
                return !cookies.is_empty() && value.matches(&cookies.join(&b"; "[..]));
            }
            lines.any(|line| value.matches(line))
        })
    }

    /// Returns whether the conditions on the query hold.
    pub(super) fn query_matches(&self, query: Option<&str>) -> bool {
        self.query.iter().all(|(name, value)| {
            let mut values = parameters(query.unwrap_or_default(), name);
            values.any(|found| match value {
                Value::Any => true,
                Value::Is(value) => decoded(found).eq(value.bytes()),
                Value::Regex(_) => value.matches(&decoded(found).collect::<Vec<u8>>()),
            })
        })
    }
}

impl Value {
    fn matches(&self, value: &[u8]) -> bool {
        match self {
            Value::Any => true,
            Value::Is(expected) => value == expected.as_bytes(),
            Value::Regex(regex) => regex.is_match(&String::from_utf8_lossy(value)),
        }
    }
}

/// Returns the values of the parameters of a query that have this name, as they stand in the query.
pub(super) fn parameters<'a>(query: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    query.split('&').filter_map(move |parameter| {
        let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let is_there = !parameter.is_empty() && decoded(key).eq(name.bytes());
        is_there.then_some(value)
    })
}

/// Decodes a name or value of a query (`application/x-www-form-urlencoded`).
fn decoded(text: &str) -> impl Iterator<Item = u8> {
    let parts = text.split('+').enumerate();
    parts.flat_map(|(at, part)| {
        let space = (at > 0).then_some(b' ');
        space.into_iter().chain(path::decoded(part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_a_segment_ends() {
        for (prefix, path, expected) in [
            ("/api", "/api", true),
            ("/api", "/api/", true),
            ("/api", "/api/x", true),
            ("/api", "/apix", false),
            ("/api", "/ap", false),
            ("/api/", "/api/", true),
            ("/api/", "/api/x", true),
            ("/api/", "/api", false),
            ("/", "/", true),
            ("/", "/x", true),
        ] {
            assert_eq!(is_below(prefix, path), expected, "{prefix} {path}");
        }
    }

    #[test]
    fn parameters_are_compared_after_decoding() {
        let values = |query, name| parameters(query, name).collect::<Vec<&str>>();
        assert_eq!(values("a=1&b=2&a=3", "a"), ["1", "3"]);
        assert_eq!(values("a&b", "a"), [""]);
        assert_eq!(values("%61%20b=x", "a b"), ["x"]);
        assert_eq!(values("", ""), [""; 0]);
        assert_eq!(values("a=1=2", "a"), ["1=2"]);
        let text = |text| String::from_utf8(decoded(text).collect()).unwrap();
        assert_eq!(text("a+b%2Bc%2bd"), "a b+c+d");
        assert_eq!(text("%"), "%");
        assert_eq!(text("%4"), "%4");
        assert_eq!(text("%zz%41"), "%zzA");
    }
}
