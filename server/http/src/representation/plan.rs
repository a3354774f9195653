//! Plans the response with a representation, whether its bytes are in memory or elsewhere.

use std::hash::{BuildHasher as _, RandomState};
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use bytes::{Bytes, BytesMut};
use http::HeaderValue;
use http::header::{ACCEPT_RANGES, ALLOW, CONTENT_RANGE, CONTENT_TYPE, RANGE};

use super::condition::{self, Verdict};
use super::field_value::visible;
use super::metadata::{self, Metadata, Representation};
use super::range::{self, Wanted};
use crate::exchange::{Body, Coding, ErrorPages, Fields, Reply, ReplyFields, RequestHead};

/// Response whose bytes are still in the representation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResponsePlan {
    pub(crate) status: u16,
    pub(crate) fields: Fields,
    /// Content in order, for HEAD too.
    pub(crate) pieces: Vec<Piece>,
}

/// A part of the content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(Bytes),
    /// Range of the representation, not empty.
    Content(Range<u64>),
}

impl Piece {
    fn length(&self) -> u64 {
        match self {
            Piece::Text(text) => text.len() as u64,
            Piece::Content(range) => range.end - range.start,
        }
    }
}

impl ResponsePlan {
    /// Returns a status with a line of text.
    pub(crate) fn plain(status: u16, text: &'static str) -> ResponsePlan {
        ResponsePlan {
            status,
            fields: vec![(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"))],
            pieces: vec![Piece::Text(Bytes::from_static(text.as_bytes()))],
        }
    }

    /// Returns the response for a client that accepts no encoding of the representation.
    pub(crate) fn not_acceptable() -> ResponsePlan {
        let mut plan = ResponsePlan::plain(406, "406 no encoding of this file is acceptable\n");
        plan.fields.push(metadata::vary());
        plan
    }

    /// Replaces the content of an error that has a page.
    pub(crate) fn apply(&mut self, pages: &ErrorPages) {
        if let Some(page) = pages.page(self.status) {
            page.describe(&mut self.fields);
            self.pieces = vec![Piece::Text(page.body.clone())];
        }
    }

    /// Returns the length of the content in bytes; `None` if the status has no content, so that no field tells it.
    pub(crate) fn length(&self) -> Option<u64> {
        let described = !matches!(self.status, 204 | 304);
        described.then(|| self.pieces.iter().map(Piece::length).sum())
    }

    /// Returns whether the content includes bytes of the representation.
    pub(crate) fn reads_content(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Content(_)))
    }

    /// Returns the response with the representation's bytes, or `None` if it has several pieces, since one body would copy them all.
    fn into_reply(mut self, bytes: &Bytes) -> Option<Reply> {
        let body = match (self.pieces.pop(), self.pieces.is_empty()) {
            (None, _) => Body::Empty,
            (Some(Piece::Text(text)), true) => Body::Bytes(text),
            (Some(Piece::Content(range)), true) => Body::Bytes(slice(bytes, &range)),
            (Some(_), false) => return None,
        };
        Some(Reply { status: self.status, headers: self.fields.into(), body })
    }
}

/// Largest part of a representation that is copied, bytes. A larger one shares its bytes, and keeps them all until the client has
/// acknowledged it.
const COPIED: usize = 4096;

/// Returns a range of content in memory; the range lies within it.
pub(crate) fn slice(bytes: &Bytes, range: &Range<u64>) -> Bytes {
    let index = |offset: u64| usize::try_from(offset).map_or(bytes.len(), |i| i.min(bytes.len()));
    debug_assert!(range.end <= bytes.len() as u64);
    let part = index(range.start)..index(range.end);
    if part.len() <= COPIED.min(bytes.len() / 2) {
        Bytes::copy_from_slice(&bytes[part])
    } else {
        bytes.slice(part)
    }
}

/// Returns the response to a method other than GET and HEAD, wherever its path leads.
pub(crate) fn refuse_method(method: &str) -> Option<ResponsePlan> {
    let mut plan = match method {
        "GET" | "HEAD" => return None,
        "OPTIONS" => ResponsePlan { status: 204, fields: Vec::new(), pieces: Vec::new() },
        _ => ResponsePlan::plain(405, "405 only GET and HEAD\n"),
    };
    plan.fields.push((ALLOW, HeaderValue::from_static("GET, HEAD")));
    Some(plan)
}

/// Returns the response to a GET or HEAD.
pub(crate) fn respond(head: &RequestHead, metadata: &Metadata) -> ResponsePlan {
    evaluate(head, metadata).unwrap_or_else(|| whole(metadata))
}

/// Returns the response to a GET or HEAD, or `None` if that has the whole content.
fn evaluate(head: &RequestHead, metadata: &Metadata) -> Option<ResponsePlan> {
    match condition::evaluate(&head.headers, metadata) {
        Verdict::Go => {}
        Verdict::Unchanged => {
            return Some(ResponsePlan {
                status: 304,
                fields: metadata.validators(),
                pieces: Vec::new(),
            });
        }
        Verdict::Failed => {
            let plan = ResponsePlan::plain(412, "412 the file is another one\n");
            return Some(about(metadata, plan));
        }
    }
    let plan = match wanted(head, metadata) {
        Wanted::Whole => return None,
        Wanted::Nothing => {
            let mut plan = ResponsePlan::plain(416, "416 the file is not that long\n");
            let range = visible(format!("bytes */{}", metadata.size));
            plan.fields.push((CONTENT_RANGE, range));
            let bytes = HeaderValue::from_static("bytes");
            plan.fields.push((ACCEPT_RANGES, bytes));
            about(metadata, plan)
        }
        Wanted::Parts(parts) => match &parts[..] {
            [part] => single(metadata, part.clone()),
            parts => multiple(metadata, parts),
        },
    };
    Some(plan)
}

/// Returns the response with a representation in memory; `None` for several ranges, which a handler sends within its memory
/// accounts, and for any ranges of one that the server has compressed, which are those of its original.
pub(crate) fn reply_from_memory(
    head: &RequestHead,
    representation: &Representation,
) -> Option<Reply> {
    if representation.metadata.compressed && head.headers.iter().any(|(name, _)| name == RANGE) {
        return None;
    }
    if let Some(plan) = refuse_method(&head.method) {
        return plan.into_reply(&representation.bytes);
    }
    match evaluate(head, &representation.metadata) {
        Some(plan) => plan.into_reply(&representation.bytes),
        None => Some(Reply {
            status: 200,
            headers: ReplyFields::Shared(Arc::clone(&representation.fields)),
            body: if representation.bytes.is_empty() {
                Body::Empty
            } else {
                Body::Bytes(representation.bytes.clone())
            },
        }),
    }
}

/// Adds `vary` to an error that depends on the selected variant.
fn about(metadata: &Metadata, mut plan: ResponsePlan) -> ResponsePlan {
    if metadata.varies {
        plan.fields.push(metadata::vary());
    }
    plan
}

/// Returns the part that a request asks for. HEAD has no ranges (RFC 9110 §14.2). Several ranges of an encoded representation get
/// the whole of it, since clients disagree on whether `content-encoding` describes each part or all of them together.
fn wanted(head: &RequestHead, metadata: &Metadata) -> Wanted {
    let mut lines = head.headers.iter().filter(|(name, _)| name == RANGE);
    let (Some((_, value)), None) = (lines.next(), lines.next()) else {
        return Wanted::Whole;
    };
    if head.method != "GET" || !condition::range_counts(&head.headers, metadata) {
        return Wanted::Whole;
    }
    match range::wanted(value.as_bytes(), metadata.size) {
        Wanted::Parts(parts) if parts.len() > 1 && metadata.encoding != Coding::Identity => {
            Wanted::Whole
        }
        wanted => wanted,
    }
}

fn whole(metadata: &Metadata) -> ResponsePlan {
    let pieces = match metadata.size {
        0 => Vec::new(),
        size => vec![Piece::Content(0..size)],
    };
    ResponsePlan { status: 200, fields: metadata.fields(), pieces }
}

fn single(metadata: &Metadata, part: Range<u64>) -> ResponsePlan {
    let mut plan = whole(metadata);
    plan.status = 206;
    let range = visible(content_range(&part, metadata.size));
    plan.fields.push((CONTENT_RANGE, range));
    plan.pieces = vec![Piece::Content(part)];
    plan
}

fn content_range(part: &Range<u64>, size: u64) -> String {
    format!("bytes {}-{}/{size}", part.start, part.end - 1)
}

/// Returns a multipart response (RFC 9110 §14.6).
fn multiple(metadata: &Metadata, parts: &[Range<u64>]) -> ResponsePlan {
    let boundary = boundary(metadata);
    let mut fields = metadata.validators();
    let kind = format!("multipart/byteranges; boundary={boundary}");
    fields.push((CONTENT_TYPE, visible(kind)));
    metadata.describe(&mut fields);
    let mut pieces = Vec::with_capacity(2 * parts.len() + 1);
    for part in parts {
        let mut head = BytesMut::new();
        if !pieces.is_empty() {
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(format!("--{boundary}\r\ncontent-type: ").as_bytes());
        head.extend_from_slice(metadata.content_type.as_bytes());
        let range = content_range(part, metadata.size);
        head.extend_from_slice(format!("\r\ncontent-range: {range}\r\n\r\n").as_bytes());
        pieces.push(Piece::Text(head.freeze()));
        pieces.push(Piece::Content(part.clone()));
    }
    pieces.push(Piece::Text(format!("\r\n--{boundary}--\r\n").into()));
    ResponsePlan { status: 206, fields, pieces }
}

/// Returns a line that the content does not hold: it depends on random keys of this process and on the entity tag, so nobody can
/// have written it there.
fn boundary(metadata: &Metadata) -> String {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let half = |which: u8| KEYS.hash_one((which, metadata.etag.as_bytes()));
    format!("{:016x}{:016x}", half(0), half(1))
}

#[cfg(test)]
mod tests;
