//! A folder's configuration for tests.

use bytes::Bytes;
use sluicegate_config::{Files, Symlinks};

use super::meta::Entry;
use super::response_plan::{Piece, respond, slice};
use crate::exchange::{Body, Reply, RequestHead};

/// Returns the response with a file in memory, several ranges in one body.
pub(super) fn reply(head: &RequestHead, entry: &Entry) -> Reply {
    super::reply_from_memory(head, entry).unwrap_or_else(|| {
        let plan = respond(head, &entry.meta);
        let pieces = plan.pieces.iter().map(|piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::File(range) => slice(&entry.bytes, range),
        });
        let body: Vec<Bytes> = pieces.collect();
        Reply {
            status: plan.status,
            headers: plan.fields.into(),
            body: Body::Bytes(body.concat().into()),
        }
    })
}

/// Returns a folder that does not exist.
pub(super) fn files(precompressed: bool) -> Files {
    Files {
        root: "/nowhere".into(),
        index: Vec::new(),
        precompressed,
        symlinks: Symlinks::Never,
        candidates: vec!["{path}".to_owned()],
        mime_types: Vec::new(),
    }
}
