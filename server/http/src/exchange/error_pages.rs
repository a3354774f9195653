//! Contents in place of those of error responses.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LOCATION, CONTENT_TYPE, ETAG,
    LAST_MODIFIED,
};
use http::{HeaderName, HeaderValue};
use sluicegate_config::{Compress, ErrorStatuses};

use super::compress::{Variants, add_vary};
use super::message::Head;
use super::{Body, Fields, Reply};

/// Fields about the content that a page replaces.
const ABOUT_CONTENT: [HeaderName; 9] = [
    CONTENT_TYPE,
    CONTENT_ENCODING,
    CONTENT_LANGUAGE,
    CONTENT_LOCATION,
    CONTENT_DISPOSITION,
    ETAG,
    LAST_MODIFIED,
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
];

/// A status of errors, whose responses all have a body.
const ERROR: u16 = 400;

/// Pages by the statuses of the responses whose content they replace.
#[derive(Debug, Default)]
pub struct ErrorPages(Vec<(ErrorStatuses, ErrorPage)>);

/// Content of error responses.
#[derive(Clone, Debug)]
pub struct ErrorPage {
    /// Media type.
    pub content_type: HeaderValue,
    /// The bytes, shared by all responses with them.
    pub body: Bytes,
    /// The bytes compressed, if they are.
    variants: Option<Variants>,
}

impl ErrorPages {
    /// Returns the pages, each with its statuses.
    pub const fn new(pages: Vec<(ErrorStatuses, ErrorPage)>) -> ErrorPages {
        ErrorPages(pages)
    }

    /// Returns the page for a status: the one for it alone, or the one for its class.
    pub fn page(&self, status: u16) -> Option<&ErrorPage> {
        let of = |statuses| self.0.iter().find(|(known, _)| *known == statuses);
        let page =
            of(ErrorStatuses::One(status)).or_else(|| of(ErrorStatuses::Class(status / 100)));
        page.map(|(_, page)| page)
    }

    /// Replaces the content of a response whose status has a page.
    pub fn apply(&self, reply: &mut Reply) {
        if let Some(page) = self.page(reply.status) {
            page.describe(reply.headers.edit());
            if page.variants.is_some() {
                // Other requests may get it compressed.
                add_vary(reply.headers.edit());
            }
            reply.body = Body::Bytes(page.body.clone());
        }
    }

    /// Replaces the content likewise, for a request with these fields: compressed, if its client prefers that.
    pub fn apply_for(&self, reply: &mut Reply, request: &Fields) {
        self.apply(reply);
        let page = self.page(reply.status);
        if let Some(variants) = page.and_then(|page| page.variants.as_ref()) {
            variants.apply(reply, request);
        }
    }
}

impl ErrorPage {
    /// Returns a page, which is compressed in advance where its route compresses.
    pub fn new(
        content_type: HeaderValue,
        body: Bytes,
        compress: Option<&Arc<Compress>>,
    ) -> ErrorPage {
        let fields = vec![(CONTENT_TYPE, content_type.clone())];
        let variants = compress.and_then(|settings| Variants::new(settings, ERROR, &fields, &body));
        ErrorPage { content_type, body, variants }
    }

    /// Returns the response with this head and the page as its content.
    pub fn reply(&self, head: Head) -> Reply {
        let mut fields = head.fields;
        self.describe(&mut fields);
        Reply { status: head.status, headers: fields.into(), body: Body::Bytes(self.body.clone()) }
    }

    /// Replaces the fields about the content of a response.
    pub fn describe(&self, fields: &mut Fields) {
        fields.retain(|(name, _)| !ABOUT_CONTENT.contains(name));
        fields.push((CONTENT_TYPE, self.content_type.clone()));
    }
}

#[cfg(test)]
mod tests {
    use http::header::{ALLOW, RETRY_AFTER};

    use super::*;

    fn pages() -> ErrorPages {
        let page = |text: &'static str| {
            let html = HeaderValue::from_static("text/html");
            ErrorPage::new(html, Bytes::from_static(text.as_bytes()), None)
        };
        ErrorPages::new(vec![
            (ErrorStatuses::Class(5), page("sorry")),
            (ErrorStatuses::One(503), page("later")),
            (ErrorStatuses::One(404), page("gone")),
        ])
    }

    #[test]
    fn the_page_of_one_status_comes_before_that_of_its_class() {
        let text = |status| pages().page(status).map(|page| page.body.clone());
        for (status, expected) in [
            (404, Some("gone")),
            (405, None),
            (500, Some("sorry")),
            (503, Some("later")),
            (599, Some("sorry")),
            (200, None),
        ] {
            assert_eq!(text(status), expected.map(Bytes::from), "{status}");
        }
    }

    #[test]
    fn a_page_replaces_the_content_and_the_fields_about_it_alone() {
        let mut reply = Reply::plain(503, "503 busy\n");
        let field = |text| HeaderValue::from_static(text);
        let others = [(RETRY_AFTER, field("1")), (ALLOW, field("GET"))];
        let about = [(ETAG, field("\"x\"")), (CONTENT_ENCODING, field("gzip"))];
        reply.headers.edit().extend(others.iter().chain(&about).cloned());
        pages().apply(&mut reply);
        let [retry, allow] = others;
        let expected: Fields = vec![retry, allow, (CONTENT_TYPE, field("text/html"))];
        assert_eq!(reply.headers, expected.into());
        assert_eq!(reply.body, Body::Bytes(Bytes::from_static(b"later")));
        assert_eq!(reply.status, 503);

        let unchanged = Reply::plain(405, "405 no\n");
        let mut reply = unchanged.clone();
        pages().apply(&mut reply);
        assert_eq!(reply, unchanged);
    }
}
