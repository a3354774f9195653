//! Compresses the bodies of responses (RFC 9110 §8.4.1), as a step between a handler and the front that neither knows.
//!
//! The head of a response alone decides: an [`Offer`] knows what the client accepts, and whether the response is fit for it. A
//! `BodyEncoder` then compresses the body, block by block.

mod body;
mod counters;
mod encoder;
mod fields;

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, IF_NONE_MATCH};
use sluicegate_base::clients::ClientPrefix;
use sluicegate_config::{Compress, CompressionAlgorithm};

pub use self::body::Compressors;
pub(crate) use self::body::{BodyEncoder, Failed};
pub use self::counters::{Algorithm, CompressionCounters};
pub(crate) use self::fields::weaken;
pub use self::fields::{add_vary, varies};
use super::accept::{Coding, Weights};
use super::message::{Head, Request};
use super::{Body, Fields, Reply};
use encoder::{Encoder, Then};

/// Compression that a route offers for the response to one request.
#[derive(Debug)]
pub struct Offer {
    compressors: Rc<Compressors>,
    settings: Arc<Compress>,
    /// Algorithm that the client prefers to the original.
    algorithm: Option<Algorithm>,
    client: ClientPrefix,
    is_head: bool,
    /// Lines of `if-none-match`.
    held: Fields,
}

impl Offer {
    /// Returns what to offer for the response to a request.
    pub fn new(
        compressors: &Rc<Compressors>,
        settings: &Arc<Compress>,
        request: &Request,
    ) -> Offer {
        let head = &request.head;
        let held = head.headers.iter().filter(|(name, _)| name == IF_NONE_MATCH);
        Offer {
            compressors: Rc::clone(compressors),
            settings: Arc::clone(settings),
            algorithm: preferred(settings, &head.headers),
            client: request.peer.address.into(),
            is_head: head.method == "HEAD",
            held: held.cloned().collect(),
        }
    }

    /// Begins to compress the response with this head if it is fit for that, and describes it in the head.
    pub(crate) fn begin(&self, head: &mut Head) -> Option<BodyEncoder> {
        if head.status == 304 {
            add_vary(&mut head.fields);
            fields::name_as_held(&mut head.fields, &self.held);
            return None;
        }
        let length = head.length.unwrap_or(u64::MAX);
        if !has_whole_body(head.status) || !is_fit(&self.settings, &head.fields, length) {
            return None;
        }
        add_vary(&mut head.fields);
        if head.end && !self.is_head {
            return None;
        }
        let algorithm = self.algorithm?;
        // HEAD has the fields of GET (RFC 9110 §9.3.2).
        let encoder = if self.is_head {
            None
        } else {
            let compressors = &self.compressors;
            Some(compressors.begin(algorithm, &self.settings, self.client)?)
        };
        fields::describe(&mut head.fields, coding(algorithm));
        head.length = None;
        encoder
    }
}

/// Returns the algorithm that the client prefers to the original.
fn preferred(settings: &Compress, headers: &Fields) -> Option<Algorithm> {
    if fields::has_directive(headers, &CACHE_CONTROL, "no-transform") {
        return None;
    }
    let mut known = algorithms(settings);
    let best = Weights::of(headers).best(known.clone().map(coding))?;
    known.find(|known| coding(*known) == best)
}

fn algorithms(settings: &Compress) -> impl Iterator<Item = Algorithm> + Clone {
    settings.algorithms.iter().map(|known| match known {
        CompressionAlgorithm::Zstd => Algorithm::Zstd,
        CompressionAlgorithm::Brotli => Algorithm::Brotli,
        CompressionAlgorithm::Gzip => Algorithm::Gzip,
    })
}

fn coding(algorithm: Algorithm) -> Coding {
    match algorithm {
        Algorithm::Zstd => Coding::Zstd,
        Algorithm::Brotli => Coding::Brotli,
        Algorithm::Gzip => Coding::Gzip,
    }
}

/// Returns whether responses with a status have a whole body: 205 has none, and a part of a file is a part of its original (RFC
/// 9110 §14.4).
fn has_whole_body(status: u16) -> bool {
    (200..=599).contains(&status) && !matches!(status, 204..=206 | 304)
}

/// Content that is known in advance, as each algorithm compresses it.
#[derive(Clone, Debug)]
pub struct Variants {
    settings: Arc<Compress>,
    bodies: Vec<(Algorithm, Bytes)>,
}

impl Variants {
    /// Compresses the content of responses with this status and these fields; `None` if it is not fit for that.
    pub fn new(
        settings: &Arc<Compress>,
        status: u16,
        fields: &Fields,
        body: &Bytes,
    ) -> Option<Variants> {
        if !has_whole_body(status) || !is_fit(settings, fields, body.len() as u64) {
            return None;
        }
        let bodies = algorithms(settings).filter_map(|algorithm| {
            let mut encoder = Encoder::new(algorithm, settings);
            let compressed = encoder.run(body, Then::Finish).ok()?.concat();
            (compressed.len() < body.len()).then(|| (algorithm, compressed.into()))
        });
        Some(Variants { settings: Arc::clone(settings), bodies: bodies.collect() })
    }

    /// Replaces the content of a reply, for a request with these fields whose client prefers it compressed.
    pub fn apply(&self, reply: &mut Reply, request: &Fields) {
        let fields = reply.headers.edit();
        add_vary(fields);
        let Some(algorithm) = preferred(&self.settings, request) else {
            return;
        };
        let mut bodies = self.bodies.iter();
        if let Some((_, body)) = bodies.find(|(known, _)| *known == algorithm) {
            fields::describe(fields, coding(algorithm));
            reply.body = Body::Bytes(body.clone());
        }
    }
}

/// Returns whether a body with these fields and of this length may be compressed for a client that accepts it.
pub fn is_fit(settings: &Compress, fields: &Fields, length: u64) -> bool {
    length >= settings.min_size.max(1) && fields::are_fit(settings, fields)
}

/// Returns whether the client of a request with these fields prefers a compressed body.
pub fn is_preferred(settings: &Compress, request: &Fields) -> bool {
    preferred(settings, request).is_some()
}

/// There is no memory for another body that is compressed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoRoom;

/// Compresses a whole body for a request with these fields, if its client accepts that and it makes the body smaller.
///
/// # Errors
/// Other responses take all of the memory, or the client's part of it.
pub(crate) async fn whole(
    compressors: &Rc<Compressors>,
    settings: &Compress,
    client: ClientPrefix,
    request: &Fields,
    body: Bytes,
) -> Result<Option<(Coding, Bytes)>, NoRoom> {
    let Some(algorithm) = preferred(settings, request) else {
        return Ok(None);
    };
    let encoder = compressors.begin(algorithm, settings, client);
    let compressed = whole_by(encoder.ok_or(NoRoom)?, &body).await;
    Ok(compressed.map(|bytes| (coding(algorithm), bytes)))
}

/// Returns a body compressed, if that makes it smaller.
async fn whole_by(mut encoder: BodyEncoder, body: &Bytes) -> Option<Bytes> {
    let mut blocks = encoder.data(body.clone()).await.ok()?;
    blocks.append(&mut encoder.finish().await.ok()?);
    let compressed = Bytes::from(blocks.concat());
    (compressed.len() < body.len()).then_some(compressed)
}

#[cfg(test)]
mod tests;
