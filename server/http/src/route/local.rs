//! Handlers that need neither a file nor another server, and the responses of the router itself.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use http::header::{ALLOW, CONTENT_TYPE};
use sluicegate_config::Compress;

use super::location::Location;
use super::values::Values;
use crate::exchange::compress::Variants;
use crate::exchange::{Body, Fields, Generator, Reply, ReplyFields, RequestHead};

/// The kinds of handler that need the request's head alone, with their settings.
#[derive(Clone, Debug)]
pub enum LocalHandler {
    /// Returns the same response to every request, whatever its method.
    Fixed(FixedReply),
    /// Returns as many bytes as the path asks for.
    Generate {
        /// Largest size that is returned, bytes.
        max_size: u64,
    },
    /// Redirects to another URL.
    Redirect(Location),
}

impl LocalHandler {
    /// Returns the response. `below` is the path behind the route's prefix, without a slash in front.
    pub(super) fn respond(&self, head: &RequestHead, below: &str, values: &Values<'_>) -> Reply {
        match self {
            LocalHandler::Redirect(location) => location.reply(values).unwrap_or_else(not_found),
            LocalHandler::Fixed(fixed) => fixed.respond(head),
            LocalHandler::Generate { .. } if !matches!(head.method.as_str(), "GET" | "HEAD") => {
                allowing(405, "GET, HEAD", "405 only GET and HEAD\n")
            }
            LocalHandler::Generate { max_size } => generate(below, *max_size),
        }
    }
}

/// The response of a fixed handler.
#[derive(Clone, Debug)]
pub struct FixedReply {
    reply: Reply,
    /// The body compressed, if the route compresses.
    variants: Option<Variants>,
}

impl FixedReply {
    pub(super) fn new(
        status: u16,
        content_type: HeaderValue,
        bytes: Bytes,
        compress: Option<&Arc<Compress>>,
    ) -> FixedReply {
        let is_described = !matches!(status, 204 | 205 | 304);
        let fields: Fields =
            if is_described { vec![(CONTENT_TYPE, content_type)] } else { Vec::new() };
        FixedReply {
            variants: compress
                .and_then(|settings| Variants::new(settings, status, &fields, &bytes)),
            reply: Reply {
                status,
                headers: ReplyFields::Shared(Arc::new(fields)),
                body: if bytes.is_empty() { Body::Empty } else { Body::Bytes(bytes) },
            },
        }
    }

    fn respond(&self, head: &RequestHead) -> Reply {
        let mut reply = self.reply.clone();
        if let Some(variants) = &self.variants {
            variants.apply(&mut reply, &head.headers);
        }
        reply
    }
}

/// Returns 400: servers read the path differently.
pub fn ambiguous_path() -> Reply {
    Reply::plain(400, "400 ambiguous path\n")
}

pub(super) fn not_found() -> Reply {
    Reply::plain(404, "404 not found\n")
}

/// Returns a response that lists the methods to use instead, in Allow.
pub(super) fn allowing(status: u16, methods: &str, text: &'static str) -> Reply {
    let allow = HeaderValue::try_from(methods);
    Reply {
        status,
        headers: ReplyFields::Own(allow.map(|allow| (ALLOW, allow)).into_iter().collect()),
        body: match text {
            "" => Body::Empty,
            _ => Body::Bytes(Bytes::from_static(text.as_bytes())),
        },
    }
}

fn generate(size: &str, max_size: u64) -> Reply {
    match sluicegate_config::parse_size(size) {
        Some(size) if size <= max_size => Reply {
            status: 200,
            headers: ReplyFields::Own(vec![(
                CONTENT_TYPE,
                HeaderValue::from_static("application/octet-stream"),
            )]),
            body: Body::Generated(Generator::new(size)),
        },
        _ => not_found(),
    }
}
