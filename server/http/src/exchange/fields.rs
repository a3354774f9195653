//! Fields of requests and responses.

use std::ops::Deref;
use std::sync::Arc;

use http::header::COOKIE;
use http::{HeaderName, HeaderValue};

/// Field lines in the order sent.
pub type Fields = Vec<(HeaderName, HeaderValue)>;

/// Returns the value of a cookie, the first of its name (RFC 6265 §5.4).
pub fn cookie<'a>(fields: &'a [(HeaderName, HeaderValue)], name: &str) -> Option<&'a [u8]> {
    let lines = fields.iter().filter(|(known, _)| known == COOKIE);
    let mut pairs = lines.flat_map(|(_, line)| line.as_bytes().split(|byte| *byte == b';'));
    pairs.find_map(|pair| {
        let rest = pair.trim_ascii().strip_prefix(name.as_bytes())?;
        rest.strip_prefix(b"=")
    })
}

/// Returns whether `of` holds for the field, or for its name with `-` in place of `_`: many upstreams do not tell them apart.
pub fn is_any(name: &HeaderName, of: impl Fn(&str) -> bool) -> bool {
    match name.as_str() {
        name if name.contains('_') => of(&name.replace('_', "-")),
        name => of(name),
    }
}

/// Names of fields. A name with `_` in place of `-` counts as the same.
#[derive(Clone, Debug, Default)]
pub struct FieldNames(Arc<[String]>);

impl FieldNames {
    /// Returns whether a field is among them.
    pub fn contains(&self, name: &HeaderName) -> bool {
        !self.0.is_empty() && is_any(name, |name| self.0.iter().any(|known| known == name))
    }
}

impl<'a> FromIterator<&'a HeaderName> for FieldNames {
    fn from_iter<I: IntoIterator<Item = &'a HeaderName>>(names: I) -> FieldNames {
        let names = names.into_iter();
        FieldNames(names.map(|name| name.as_str().replace('_', "-")).collect())
    }
}

/// Line of a response which says that the front adds no `server` of its own, and which it does not send. No server names itself
/// with nothing.
pub const NO_SERVER: (HeaderName, HeaderValue) =
    (http::header::SERVER, HeaderValue::from_static(""));

/// Fields of a [`Reply`](super::Reply).
#[derive(Clone, Debug)]
pub enum ReplyFields {
    /// Fields of this reply alone.
    Own(Fields),
    /// Fields that many replies share, so that a front encodes them once.
    Shared(Arc<Fields>),
}

impl ReplyFields {
    /// Returns the fields for changes to this reply alone.
    pub fn edit(&mut self) -> &mut Fields {
        match self {
            ReplyFields::Own(fields) => fields,
            ReplyFields::Shared(fields) => Arc::make_mut(fields),
        }
    }

    /// Returns the fields, as a copy if others share them.
    pub fn into_own(self) -> Fields {
        match self {
            ReplyFields::Own(fields) => fields,
            ReplyFields::Shared(fields) => Arc::unwrap_or_clone(fields),
        }
    }
}

impl Deref for ReplyFields {
    type Target = Fields;

    fn deref(&self) -> &Fields {
        match self {
            ReplyFields::Own(fields) => fields,
            ReplyFields::Shared(fields) => fields,
        }
    }
}

impl From<Fields> for ReplyFields {
    fn from(fields: Fields) -> ReplyFields {
        ReplyFields::Own(fields)
    }
}

impl PartialEq for ReplyFields {
    fn eq(&self, other: &ReplyFields) -> bool {
        **self == **other
    }
}

impl Eq for ReplyFields {}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::{ETAG, VARY};

    use super::*;

    #[test]
    fn a_change_of_shared_fields_changes_one_reply() {
        let fields: Fields = vec![(ETAG, HeaderValue::from_static("\"x\""))];
        let shared = Arc::new(fields.clone());
        let [mut changed, other] = [(); 2].map(|()| ReplyFields::Shared(Arc::clone(&shared)));
        changed.edit().push((VARY, HeaderValue::from_static("*")));
        assert_eq!((changed.len(), other), (2, fields.into()));
        assert_eq!(changed.into_own().len(), 2);
    }
}
