//! Rules of a route that a test chooses.

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use sluicegate_config::ErrorStatuses;

use super::*;
use crate::exchange::{ErrorPage, ErrorPages, FieldNames};
use crate::path::{CanonicalPath, PathError};

/// Rules of a route for `/`.
#[derive(Default)]
pub(super) struct Rules {
    /// Result of the rewrite, if there is one.
    pub(super) rewritten: Option<Result<CanonicalPath, PathError>>,
    /// Contents in place of those of error responses.
    pub(super) pages: ErrorPages,
}

impl Rules {
    /// Returns rules with this page for a class of statuses.
    pub(super) fn with_page(first: u16, text: &'static str) -> Rules {
        let html = HeaderValue::from_static("text/html");
        let page = ErrorPage::new(html, Bytes::from_static(text.as_bytes()), None);
        Rules {
            pages: ErrorPages::new(vec![(ErrorStatuses::Class(first), page)]),
            ..Rules::default()
        }
    }
}

impl RequestRules for Rules {
    fn prefix(&self) -> &str {
        ""
    }

    fn rest<'a>(&self, path: &'a CanonicalPath) -> &'a str {
        path.forward(1)
    }

    fn rewrite(&self, _: &RequestHead) -> Option<Result<CanonicalPath, PathError>> {
        self.rewritten.clone()
    }

    fn error_pages(&self) -> &ErrorPages {
        &self.pages
    }

    fn sets(&self, _: &HeaderName) -> bool {
        false
    }

    fn replaced(&self) -> FieldNames {
        FieldNames::default()
    }

    fn removes(&self, _: &HeaderName) -> bool {
        false
    }
}

impl Edge {
    /// Begins a request by a route with these rules.
    pub(super) fn by(&self, rules: Rules, head: RequestHead) -> (TestFront, JoinHandle<()>) {
        let route = self.reload([&*self.proxy]).remove(0);
        self.pass_by(rules, route, pair(request(head, None, false), PLENTY))
    }
}
