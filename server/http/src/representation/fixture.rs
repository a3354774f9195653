//! Representations for tests, and whole responses with them.

use bytes::Bytes;

use super::metadata::Representation;
use super::plan::{Piece, reply_from_memory, respond, slice};
use crate::exchange::{Body, Reply, RequestHead};

/// Returns the response with a representation in memory, several ranges in one body.
pub(crate) fn reply(head: &RequestHead, representation: &Representation) -> Reply {
    reply_from_memory(head, representation).unwrap_or_else(|| {
        let plan = respond(head, &representation.metadata);
        let pieces = plan.pieces.iter().map(|piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Content(range) => slice(&representation.bytes, range),
        });
        let body: Vec<Bytes> = pieces.collect();
        Reply {
            status: plan.status,
            headers: plan.fields.into(),
            body: Body::Bytes(body.concat().into()),
        }
    })
}
