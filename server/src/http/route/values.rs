//! Values of placeholders.

use std::borrow::Cow;
use std::cell::OnceCell;

use regex::Captures;
use sluicegate_config::Placeholder;

use super::matching::PathMatch;
use crate::http::authority::host;
use crate::http::exchange::RequestHead;
use crate::http::path::CanonicalPath;

/// Values of placeholders for one request.
pub(super) struct Values<'a> {
    head: &'a RequestHead,
    /// Pattern of the route that the request was found for.
    pattern: &'a PathMatch,
    groups: OnceCell<Option<Captures<'a>>>,
}

impl<'a> Values<'a> {
    pub(super) fn new(head: &'a RequestHead, pattern: &'a PathMatch) -> Values<'a> {
        Values {
            head,
            pattern,
            groups: OnceCell::new(),
        }
    }

    /// Returns the value of a placeholder. Paths are in the spelling for other servers ([`CanonicalPath::forward`]).
    pub(super) fn value(&self, placeholder: &Placeholder) -> Cow<'a, str> {
        match placeholder {
            Placeholder::Host => host(&self.head.authority).into(),
            Placeholder::Path => self.path().forward(0).into(),
            Placeholder::Rest => self.rest().into(),
            Placeholder::Query => match &self.head.query {
                Some(query) => format!("?{query}").into(),
                None => "".into(),
            },
            Placeholder::Capture(group) => self.capture(*group).into(),
        }
    }

    fn path(&self) -> &'a CanonicalPath {
        &self.head.path
    }

    /// Returns the path behind the route's prefix.
    fn rest(&self) -> &'a str {
        self.pattern.forward_rest(self.path())
    }

    /// Returns what a group of the route's regular expression matched.
    fn capture(&self, group: usize) -> &'a str {
        let groups = self
            .groups
            .get_or_init(|| self.pattern.captures(self.path()));
        let found = groups.as_ref().and_then(|groups| groups.get(group));
        found.map_or("", |found| self.path().forward_range(found.range()))
    }
}
