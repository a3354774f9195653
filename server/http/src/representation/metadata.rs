//! Metadata of a representation, as response fields.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderName, LAST_MODIFIED, VARY,
};

use crate::exchange::{Coding, Fields, compress};
use crate::store::Stored;

/// Facts about a representation in the head of a response (RFC 9110 §8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Length in bytes.
    pub size: u64,
    /// Entity tag, different for each encoding and each state. It is strong, because ranges need that (RFC 9110 §13.1.5), unless the
    /// server has compressed the bytes.
    pub etag: HeaderValue,
    /// Time of the last change, in seconds since 1970 and as text; `None` for a time in the future, which RFC 9110 §8.8.2.1 forbids to
    /// send.
    pub modified: Option<(u64, HeaderValue)>,
    /// Media type of the bytes before they were encoded.
    pub content_type: HeaderValue,
    /// Encoding of the bytes.
    pub encoding: Coding,
    /// Whether clients with other preferences may get another representation.
    pub varies: bool,
    /// Whether the server has compressed the bytes. Then the tag is that of the original, but weak, and there are no ranges.
    pub compressed: bool,
}

impl Metadata {
    /// Describes the same content in `size` bytes of another encoding.
    pub(crate) fn compressed(&self, encoding: Coding, size: u64) -> Metadata {
        let mut etag = self.etag.clone();
        compress::weaken(&mut etag);
        Metadata { size, etag, encoding, compressed: true, ..self.clone() }
    }

    /// Returns the fields of every response that leaves the client with this state, 304 included.
    pub(super) fn validators(&self) -> Fields {
        let mut fields: Fields = vec![(ETAG, self.etag.clone())];
        if let Some((_, text)) = &self.modified {
            fields.push((LAST_MODIFIED, text.clone()));
        }
        if self.varies {
            fields.push(vary());
        }
        fields
    }

    /// Adds the fields that accompany the bytes, except their type.
    pub(super) fn describe(&self, fields: &mut Fields) {
        if !self.compressed {
            fields.push((ACCEPT_RANGES, HeaderValue::from_static("bytes")));
        }
        if let Some(encoding) = self.encoding.field() {
            fields.push((CONTENT_ENCODING, encoding));
        }
    }

    /// Returns the fields of a response with the bytes.
    pub(crate) fn fields(&self) -> Fields {
        let mut fields = self.validators();
        fields.push((CONTENT_TYPE, self.content_type.clone()));
        self.describe(&mut fields);
        fields
    }
}

/// Returns the field which says that the response depends on what the client accepts.
pub(super) fn vary() -> (HeaderName, HeaderValue) {
    (VARY, HeaderValue::from_static("accept-encoding"))
}

/// A whole representation in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Representation {
    /// Metadata of the content.
    pub metadata: Metadata,
    /// Content, `metadata.size` bytes.
    pub bytes: Bytes,
    /// Fields of the responses with the whole content.
    pub(crate) fields: Arc<Fields>,
}

impl Representation {
    /// Takes metadata and content.
    pub fn new(metadata: Metadata, bytes: Bytes) -> Representation {
        let mut fields = metadata.fields();
        fields.shrink_to_fit();
        let fields = Arc::new(fields);
        Representation { metadata, bytes, fields }
    }
}

impl Stored for Representation {
    fn weight(&self) -> u64 {
        let lengths = self.fields.iter().map(|(name, value)| name.as_str().len() + value.len());
        (self.bytes.len() + lengths.sum::<usize>()) as u64
    }

    fn bytes(&mut self) -> &mut Bytes {
        &mut self.bytes
    }

    fn own_head(&mut self) {
        self.fields = Arc::new(Fields::clone(&self.fields));
    }
}
