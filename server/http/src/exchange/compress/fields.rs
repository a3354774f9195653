//! Reads and changes the fields of responses that are compressed.

use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE,
    ETAG, VARY,
};
use http::{HeaderName, HeaderValue};
use sluicegate_config::Compress;

use crate::exchange::accept::Coding;
use crate::exchange::fields::Fields;

/// Fields that are true of the original alone.
const OF_ORIGINAL: [HeaderName; 6] = [
    ACCEPT_RANGES,
    CONTENT_LENGTH,
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
];

/// Returns whether the fields of a response allow to compress it.
pub(super) fn are_fit(settings: &Compress, fields: &Fields) -> bool {
    let is_plain = fields.iter().all(|(name, value)| {
        name != CONTENT_RANGE
            && (name != CONTENT_ENCODING || value.as_bytes().eq_ignore_ascii_case(b"identity"))
    });
    is_plain && has_type(settings, fields) && !has_directive(fields, &CACHE_CONTROL, "no-transform")
}

fn has_type(settings: &Compress, fields: &Fields) -> bool {
    let mut types = fields.iter().filter(|(name, _)| name == CONTENT_TYPE);
    let (Some((_, value)), None) = (types.next(), types.next()) else {
        return false;
    };
    let Ok(text) = value.to_str() else {
        return false;
    };
    let media_type = text.split(';').next().unwrap_or_default().trim_ascii();
    let media_type = media_type.to_ascii_lowercase();
    // gRPC compresses its messages itself, and a message must not wait for the next one.
    !media_type.starts_with("application/grpc") && settings.has_type(&media_type)
}

/// Returns whether a field has a member of this name in its list, with or without an argument.
pub(super) fn has_directive(fields: &Fields, name: &HeaderName, directive: &str) -> bool {
    let lines = fields.iter().filter(|(known, _)| known == name);
    let mut members = lines.flat_map(|(_, value)| value.as_bytes().split(|byte| *byte == b','));
    members.any(|member| {
        let name = member.split(|byte| *byte == b'=').next().unwrap_or_default();
        name.trim_ascii().eq_ignore_ascii_case(directive.as_bytes())
    })
}

/// Returns whether the fields say that the response depends on the encodings that a client accepts.
pub fn varies(fields: &Fields) -> bool {
    has_directive(fields, &VARY, "*") || has_directive(fields, &VARY, "accept-encoding")
}

/// Says that the response depends on the encodings that a client accepts.
pub fn add_vary(fields: &mut Fields) {
    if !varies(fields) {
        fields.push((VARY, HeaderValue::from_static("accept-encoding")));
    }
}

/// Describes the compressed body.
pub(super) fn describe(fields: &mut Fields, coding: Coding) {
    fields.retain(|(name, _)| *name != CONTENT_ENCODING && !OF_ORIGINAL.contains(name));
    for (name, value) in fields.iter_mut() {
        if *name == ETAG {
            weaken(value);
        }
    }
    if let Some(value) = coding.field() {
        fields.push((CONTENT_ENCODING, value));
    }
}

/// Makes a strong entity tag weak: compressed bodies of the same content may differ (RFC 9110 §8.8.1).
pub(crate) fn weaken(tag: &mut HeaderValue) {
    if tag.as_bytes().starts_with(b"\"")
        && let Ok(weak) = HeaderValue::from_bytes(&[b"W/", tag.as_bytes()].concat())
    {
        *tag = weak;
    }
}

/// Names the content of a 304 by the weak tag if the client has that: then a compressed response gave it, and a strong one would
/// not select it in a cache (RFC 9111 §4.3.4).
pub(super) fn name_as_held(fields: &mut Fields, held: &Fields) {
    for (_, tag) in fields.iter_mut().filter(|(name, _)| *name == ETAG) {
        let mut weak = tag.clone();
        weaken(&mut weak);
        let is_held = |line: &[u8]| line.windows(weak.len()).any(|part| part == weak.as_bytes());
        if !weak.is_empty() && held.iter().any(|(_, line)| is_held(line.as_bytes())) {
            *tag = weak;
        }
    }
}
