//! Texts with placeholders that each request fills.

use crate::error::nearest;
use crate::schema::{Reason, Refusal};
use crate::source::shown;
use crate::words::token;

/// Text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Part>);

/// Part of a text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The same text for every request.
    Text(String),
    /// Value from the request.
    Value(Placeholder),
}

/// Name of a value from a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placeholder {
    /// `{host}`: host that the client asks for, without a port.
    Host,
    /// `{path}`: path of the request.
    Path,
    /// `{rest}`: path behind the route's prefix.
    Rest,
    /// `{query}`: query with its question mark, or nothing.
    Query,
    /// `{method}`: method of the request.
    Method,
    /// `{scheme}`: `https` where the client's connection is encrypted, else `http`.
    Scheme,
    /// `{client}`: IP address of the client.
    Client,
    /// `{client_port}`: port of the client.
    ClientPort,
    /// `{client_subject}`: subject of the client's certificate.
    ClientSubject,
    /// `{client_fingerprint}`: SHA-256 of the client's certificate.
    ClientFingerprint,
    /// `{listener}`: name of the listener.
    Listener,
    /// `{request_id}`: ID of the request.
    RequestId,
    /// `{user}`: user whose password the route has verified.
    User,
    /// `{header:NAME}`: value of a field of the request; holds the name in lower case.
    Header(String),
    /// `{cookie:NAME}`: value of a cookie.
    Cookie(String),
    /// `{query:NAME}`: value of a parameter of the query, as it stands there.
    Parameter(String),
    /// `{capture:1}`: what a group of the route's regular expression matched; groups count from 1.
    Capture(usize),
}

/// Placeholders for what groups of a regular expression matched.
macro_rules! captures {
    ($($other:literal),*) => {
        [
            $($other,)*
            "{capture:1}",
            "{capture:2}",
            "{capture:3}",
            "{capture:4}",
            "{capture:5}",
            "{capture:6}",
            "{capture:7}",
            "{capture:8}",
            "{capture:9}",
        ]
    };
}

/// Placeholders of a path for upstreams.
pub(crate) const IN_PATHS: &[&str] = &captures!["{path}", "{rest}"];
/// Placeholders of the target of a redirect.
pub(crate) const IN_LOCATIONS: &[&str] = &captures!["{host}", "{path}", "{query}", "{rest}"];

/// Placeholders of the target of a redirect for all paths below a prefix, in a file of redirects.
pub(crate) const IN_REDIRECTS: &[&str] = &["{host}", "{path}", "{query}", "{rest}"];
/// Placeholders of the target of a redirect for one path.
pub(crate) const IN_EXACT_REDIRECTS: &[&str] = &["{host}", "{path}", "{query}"];

/// Placeholders of fields in responses.
pub(crate) const IN_RESPONSES: &[&str] = &captures![
    "{host}",
    "{path}",
    "{query}",
    "{rest}",
    "{method}",
    "{request_id}",
    "{header:NAME}",
    "{cookie:NAME}",
    "{query:NAME}"
];
/// Placeholders of fields in requests.
pub(crate) const IN_REQUESTS: &[&str] = &captures![
    "{host}",
    "{path}",
    "{query}",
    "{rest}",
    "{method}",
    "{request_id}",
    "{user}",
    "{scheme}",
    "{client}",
    "{client_port}",
    "{client_subject}",
    "{client_fingerprint}",
    "{listener}",
    "{header:NAME}",
    "{cookie:NAME}",
    "{query:NAME}"
];

impl Template {
    /// Reads a text that the configuration has checked. Each brace opens or closes a placeholder.
    pub fn new(text: &str) -> Self {
        Self(pieces(text).map(Part::read).collect())
    }

    /// Reads the value of a field that the configuration has checked, in which a brace opens a placeholder if a lower-case
    /// letter follows. So JSON stands for itself. Two braces stand for one.
    pub fn of_field(text: &str) -> Self {
        let parts = pieces_of_field(text).map(|piece| match piece {
            "{{" => Part::Text("{".to_owned()),
            piece => Part::read(piece),
        });
        Self(parts.collect())
    }

    /// Returns the parts in order.
    pub fn parts(&self) -> &[Part] {
        &self.0
    }

    /// Returns whether the text has this placeholder.
    pub fn names(&self, placeholder: &Placeholder) -> bool {
        let is_it = |part: &Part| matches!(part, Part::Value(value) if value == placeholder);
        self.0.iter().any(is_it)
    }

    /// Returns the text with another placeholder in place of this one.
    #[must_use]
    pub fn with(mut self, placeholder: &Placeholder, other: &Placeholder) -> Self {
        for part in &mut self.0 {
            if matches!(part, Part::Value(value) if value == placeholder) {
                *part = Part::Value(other.clone());
            }
        }
        self
    }

    /// Returns the highest group that the text names; 0 if it names none.
    pub fn groups(&self) -> usize {
        let groups = self.0.iter().map(|part| match part {
            Part::Value(Placeholder::Capture(group)) => *group,
            _ => 0,
        });
        groups.max().unwrap_or(0)
    }
}

impl Part {
    fn read(piece: &str) -> Self {
        match Placeholder::read(piece) {
            Some(placeholder) => Self::Value(placeholder),
            None => Self::Text(piece.to_owned()),
        }
    }
}

impl Placeholder {
    fn read(piece: &str) -> Option<Self> {
        Some(match piece {
            "{method}" => Self::Method,
            "{scheme}" => Self::Scheme,
            "{client}" => Self::Client,
            "{client_port}" => Self::ClientPort,
            "{client_subject}" => Self::ClientSubject,
            "{client_fingerprint}" => Self::ClientFingerprint,
            "{listener}" => Self::Listener,
            "{request_id}" => Self::RequestId,
            "{user}" => Self::User,
            "{host}" => Self::Host,
            "{path}" => Self::Path,
            "{rest}" => Self::Rest,
            "{query}" => Self::Query,
            _ => {
                let inner = piece.strip_prefix('{')?.strip_suffix('}')?;
                let (kind, name) = inner.split_once(':')?;
                match kind {
                    "header" => Self::Header(name.to_ascii_lowercase()),
                    "cookie" => Self::Cookie(name.to_owned()),
                    "query" => Self::Parameter(name.to_owned()),
                    "capture" => Self::Capture(name.parse().ok()?),
                    _ => return None,
                }
            }
        })
    }
}

/// Refuses a placeholder of `key` that is not one of `known`, and other text with a byte that is not `plain`.
pub(crate) fn check(
    text: &str,
    key: &str,
    known: &[&'static str],
    plain: impl Fn(u8) -> bool,
) -> Result<(), Refusal> {
    for piece in pieces(text) {
        if !piece.starts_with('{') {
            if !piece.bytes().all(&plain) {
                return Err(Refusal::default());
            }
        } else if !is_known(piece, known) {
            return Err(Refusal::because(unknown(piece, key, known)));
        }
    }
    Ok(())
}

/// Returns the first placeholder of a field's value that is not one of `known`.
pub(crate) fn unknown_in_field(text: &str, key: &str, known: &[&'static str]) -> Option<Reason> {
    let is_unknown = |piece: &&str| opens(piece) && !is_known(piece, known);
    let piece = pieces_of_field(text).find(is_unknown)?;
    Some(unknown(piece, key, known))
}

fn unknown(piece: &str, key: &str, known: &[&'static str]) -> Reason {
    Reason {
        found: format!("placeholder `{}` in `{key}`", shown(piece)),
        expected: format!("one of: {}", known.join(", ")),
        nearest: nearest(piece, known.iter().copied()),
    }
}

/// Returns whether a placeholder is one of `known`, in which `NAME` stands for a token.
fn is_known(piece: &str, known: &[&str]) -> bool {
    known.iter().any(|known| match known.strip_suffix("NAME}") {
        Some(start) => {
            let name = piece.strip_prefix(start).and_then(|rest| rest.strip_suffix('}'));
            // HTTP/2 and 3 send no field `host`; its placeholder is {host}.
            let is_host =
                |name: &str| name.eq_ignore_ascii_case("host") && *known == "{header:NAME}";
            name.is_some_and(|name| token(name, 128) && !is_host(name))
        }
        None => piece == *known,
    })
}

/// Returns whether the text begins with a placeholder of a field's value.
fn opens(text: &str) -> bool {
    matches!(text.as_bytes(), [b'{', letter, ..] if letter.is_ascii_lowercase())
}

/// Returns the placeholders and the doubled braces of a field's value, and the texts between them.
fn pieces_of_field(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = if opens(rest) {
            rest.find('}').map(|at| at + 1)
        } else if rest.starts_with("{{") {
            Some(2)
        } else {
            let mut braces = rest.char_indices().skip(1);
            let next = braces.find(|(at, _)| opens(&rest[*at..]) || rest[*at..].starts_with("{{"));
            next.map(|(at, _)| at)
        };
        let (piece, behind) = rest.split_at(end.unwrap_or(rest.len()));
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Returns the placeholders of a text, with their braces, and the texts between them.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = match rest.find('{') {
            Some(0) => rest.find('}').map(|at| at + 1),
            open => open,
        };
        let (piece, behind) = rest.split_at(end.unwrap_or(rest.len()));
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stand_in_the_order_of_the_text() {
        let text = |text: &str| Part::Text(text.to_owned());
        let template = Template::new("/a{path}{capture:2}/b{query}");
        assert_eq!(
            template.parts(),
            [
                text("/a"),
                Part::Value(Placeholder::Path),
                Part::Value(Placeholder::Capture(2)),
                text("/b"),
                Part::Value(Placeholder::Query),
            ]
        );
        assert_eq!(template.groups(), 2);
        assert_eq!(Template::new("").parts(), []);
        assert_eq!(Template::new("/x").groups(), 0);
    }

    #[test]
    fn every_known_placeholder_has_a_value() {
        let lists = [IN_PATHS, IN_LOCATIONS, IN_REQUESTS, IN_RESPONSES];
        for known in lists.concat() {
            assert!(Placeholder::read(known).is_some(), "{known}");
        }
    }

    #[test]
    fn braces_of_a_field_s_value_stand_for_themselves_unless_a_name_follows() {
        let text = |text: &str| Part::Text(text.to_owned());
        for same in ["{\"max_age\":1,\"x\":[{\"y\":{}}]}", "{}", "{", "}", "{ a }", "{Host}"] {
            assert_eq!(Template::of_field(same).parts(), [text(same)], "{same}");
        }
        let header = Part::Value(Placeholder::Header("x-a".to_owned()));
        for (field, parts) in [
            ("a{host}", vec![text("a"), Part::Value(Placeholder::Host)]),
            ("{header:X-A}", vec![header]),
            ("<{{id}>", vec![text("<"), text("{"), text("id}>")]),
        ] {
            assert_eq!(Template::of_field(field).parts(), parts, "{field}");
        }
    }
}
