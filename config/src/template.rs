//! Texts with placeholders that each request fills.

use crate::error::nearest;
use crate::schema::{Reason, Refusal};
use crate::source::shown;

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

impl Template {
    /// Reads a text that the configuration has checked.
    pub fn new(text: &str) -> Self {
        let parts = pieces(text).map(|piece| match Placeholder::read(piece) {
            Some(placeholder) => Part::Value(placeholder),
            None => Part::Text(piece.to_owned()),
        });
        Self(parts.collect())
    }

    /// Returns the parts in order.
    pub fn parts(&self) -> &[Part] {
        &self.0
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

impl Placeholder {
    fn read(piece: &str) -> Option<Self> {
        Some(match piece {
            "{host}" => Self::Host,
            "{path}" => Self::Path,
            "{rest}" => Self::Rest,
            "{query}" => Self::Query,
            _ => {
                let group = piece.strip_prefix("{capture:")?.strip_suffix('}')?;
                Self::Capture(group.parse().ok()?)
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
        } else if !known.contains(&piece) {
            return Err(Refusal::because(Reason {
                found: format!("placeholder `{}` in `{key}`", shown(piece)),
                expected: format!("one of: {}", known.join(", ")),
                nearest: nearest(piece, known.iter().copied()),
            }));
        }
    }
    Ok(())
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
        for known in IN_PATHS.iter().chain(IN_LOCATIONS) {
            assert!(Placeholder::read(known).is_some(), "{known}");
        }
    }
}
