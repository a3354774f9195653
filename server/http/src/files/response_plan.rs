//! Plans the response to a request for a file, without I/O: the worker's cache and the disk use the same plan.

use std::hash::{BuildHasher as _, RandomState};
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use bytes::{Bytes, BytesMut};
use http::HeaderValue;
use http::header::{ACCEPT_RANGES, ALLOW, CONTENT_RANGE, CONTENT_TYPE, LOCATION, RANGE};

use super::condition::{self, Verdict};
use super::field_value::visible;
use super::meta::{self, Entry, Meta};
use super::path::Refusal;
use super::range::{self, Wanted};
use crate::exchange::{Body, Coding, ErrorPages, Fields, Reply, ReplyFields, RequestHead};

/// Response whose bytes are still in the file.
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
    /// Range of the file, not empty.
    File(Range<u64>),
}

impl Piece {
    fn length(&self) -> u64 {
        match self {
            Piece::Text(text) => text.len() as u64,
            Piece::File(range) => range.end - range.start,
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

    /// Returns the response to a path that names no file.
    pub(crate) fn refusal(refusal: Refusal) -> ResponsePlan {
        match refusal {
            Refusal::Malformed => ResponsePlan::plain(400, "400 not a path\n"),
            Refusal::NotFound => ResponsePlan::plain(404, "404 not found\n"),
        }
    }

    /// Returns the response for a client that accepts no encoding of the file.
    pub(crate) fn not_acceptable() -> ResponsePlan {
        let mut plan = ResponsePlan::plain(406, "406 no encoding of this file is acceptable\n");
        plan.fields.push(meta::vary());
        plan
    }

    /// Returns a redirect to the same path with a slash at the end, which relative names in an index need. The target is always on this
    /// host: a canonical path begins neither with `//` nor with `/\`.
    pub(crate) fn moved(head: &RequestHead) -> ResponsePlan {
        let mut place = head.path.forward(0).to_owned();
        if !place.ends_with('/') {
            place.push('/');
        }
        if let Some(query) = &head.query {
            place.push('?');
            place.push_str(query);
        }
        let Ok(place) = HeaderValue::try_from(place) else {
            return ResponsePlan::refusal(Refusal::Malformed);
        };
        let mut plan = ResponsePlan::plain(301, "301 this is a folder\n");
        plan.fields.push((LOCATION, place));
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

    /// Returns whether the content includes bytes of the file.
    pub(crate) fn reads_file(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::File(_)))
    }

    /// Returns the response with the file's bytes, or `None` if it has several pieces, since one body would copy them all.
    fn into_reply(mut self, bytes: &Bytes) -> Option<Reply> {
        let body = match (self.pieces.pop(), self.pieces.is_empty()) {
            (None, _) => Body::Empty,
            (Some(Piece::Text(text)), true) => Body::Bytes(text),
            (Some(Piece::File(range)), true) => Body::Bytes(slice(bytes, &range)),
            (Some(_), false) => return None,
        };
        Some(Reply { status: self.status, headers: self.fields.into(), body })
    }
}

/// Largest part of a file that is copied, bytes. A larger one shares the file's bytes, and keeps them all until the client has
/// acknowledged it.
const COPIED: usize = 4096;

/// Returns a range of a file in memory; the range lies within the file.
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

/// Returns the response to a GET or HEAD of a file.
pub(crate) fn respond(head: &RequestHead, meta: &Meta) -> ResponsePlan {
    evaluate(head, meta).unwrap_or_else(|| whole(meta))
}

/// Returns the response to a GET or HEAD of a file, or `None` if that has the whole file.
fn evaluate(head: &RequestHead, meta: &Meta) -> Option<ResponsePlan> {
    match condition::evaluate(&head.headers, meta) {
        Verdict::Go => {}
        Verdict::Unchanged => {
            return Some(ResponsePlan {
                status: 304,
                fields: meta.validators(),
                pieces: Vec::new(),
            });
        }
        Verdict::Failed => {
            let plan = ResponsePlan::plain(412, "412 the file is another one\n");
            return Some(about(meta, plan));
        }
    }
    let plan = match wanted(head, meta) {
        Wanted::Whole => return None,
        Wanted::Nothing => {
            let mut plan = ResponsePlan::plain(416, "416 the file is not that long\n");
            let range = visible(format!("bytes */{}", meta.size));
            plan.fields.push((CONTENT_RANGE, range));
            let bytes = HeaderValue::from_static("bytes");
            plan.fields.push((ACCEPT_RANGES, bytes));
            about(meta, plan)
        }
        Wanted::Parts(parts) => match &parts[..] {
            [part] => single(meta, part.clone()),
            parts => multiple(meta, parts),
        },
    };
    Some(plan)
}

/// Returns the response with a file in memory; `None` for several ranges, which a handler sends within its memory accounts, and
/// for any ranges of a file that the server has compressed, which are those of its original.
pub(crate) fn reply_from_memory(head: &RequestHead, entry: &Entry) -> Option<Reply> {
    if entry.meta.compressed && head.headers.iter().any(|(name, _)| name == RANGE) {
        return None;
    }
    if let Some(plan) = refuse_method(&head.method) {
        return plan.into_reply(&entry.bytes);
    }
    match evaluate(head, &entry.meta) {
        Some(plan) => plan.into_reply(&entry.bytes),
        None => Some(Reply {
            status: 200,
            headers: ReplyFields::Shared(Arc::clone(&entry.fields)),
            body: if entry.bytes.is_empty() {
                Body::Empty
            } else {
                Body::Bytes(entry.bytes.clone())
            },
        }),
    }
}

/// Adds `vary` to an error that depends on the selected variant.
fn about(meta: &Meta, mut plan: ResponsePlan) -> ResponsePlan {
    if meta.varies {
        plan.fields.push(meta::vary());
    }
    plan
}

/// Returns the part of the file that a request asks for. HEAD has no ranges (RFC 9110 §14.2). Several ranges of an encoded file get
/// the whole file, since clients disagree on whether `content-encoding` describes each part or all of them together.
fn wanted(head: &RequestHead, meta: &Meta) -> Wanted {
    let mut lines = head.headers.iter().filter(|(name, _)| name == RANGE);
    let (Some((_, value)), None) = (lines.next(), lines.next()) else {
        return Wanted::Whole;
    };
    if head.method != "GET" || !condition::range_counts(&head.headers, meta) {
        return Wanted::Whole;
    }
    match range::wanted(value.as_bytes(), meta.size) {
        Wanted::Parts(parts) if parts.len() > 1 && meta.encoding != Coding::Identity => {
            Wanted::Whole
        }
        wanted => wanted,
    }
}

fn whole(meta: &Meta) -> ResponsePlan {
    let pieces = match meta.size {
        0 => Vec::new(),
        size => vec![Piece::File(0..size)],
    };
    ResponsePlan { status: 200, fields: meta.fields(), pieces }
}

fn single(meta: &Meta, part: Range<u64>) -> ResponsePlan {
    let mut plan = whole(meta);
    plan.status = 206;
    let range = visible(content_range(&part, meta.size));
    plan.fields.push((CONTENT_RANGE, range));
    plan.pieces = vec![Piece::File(part)];
    plan
}

fn content_range(part: &Range<u64>, size: u64) -> String {
    format!("bytes {}-{}/{size}", part.start, part.end - 1)
}

/// Returns a multipart response (RFC 9110 §14.6).
fn multiple(meta: &Meta, parts: &[Range<u64>]) -> ResponsePlan {
    let boundary = boundary(meta);
    let mut fields = meta.validators();
    let kind = format!("multipart/byteranges; boundary={boundary}");
    fields.push((CONTENT_TYPE, visible(kind)));
    meta.describe(&mut fields);
    let mut pieces = Vec::with_capacity(2 * parts.len() + 1);
    for part in parts {
        let mut head = BytesMut::new();
        if !pieces.is_empty() {
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(format!("--{boundary}\r\ncontent-type: ").as_bytes());
        head.extend_from_slice(meta.content_type.as_bytes());
        let range = content_range(part, meta.size);
        head.extend_from_slice(format!("\r\ncontent-range: {range}\r\n\r\n").as_bytes());
        pieces.push(Piece::Text(head.freeze()));
        pieces.push(Piece::File(part.clone()));
    }
    pieces.push(Piece::Text(format!("\r\n--{boundary}--\r\n").into()));
    ResponsePlan { status: 206, fields, pieces }
}

/// Returns a line that the file does not hold: it depends on random keys of this process and on the state of the file, so nobody can
/// have written it there.
fn boundary(meta: &Meta) -> String {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let half = |which: u8| KEYS.hash_one((which, meta.etag.as_bytes()));
    format!("{:016x}{:016x}", half(0), half(1))
}

#[cfg(test)]
mod tests;
