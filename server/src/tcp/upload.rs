//! The body of a request on its way to its handler.

use bytes::Bytes;
use sluicegate_http::exchange::message::cost;
use tokio::sync::oneshot;

use super::request_body::{Part, RequestBody};
use super::tunnel_reader::TunnelReader;

/// Body of a request.
#[derive(Debug)]
pub(super) struct Upload {
    /// Source of the body, until it has ended.
    source: Option<Source>,
    /// Most bytes that are accepted.
    limit: u64,
    received: u64,
    /// Credit left, by [`cost`]; below zero if the last block cost more than there was.
    credit: i64,
}

/// Source of a body.
#[derive(Debug)]
pub(super) enum Source {
    /// The request.
    Body(RequestBody),
    /// A tunnel that may be opened.
    Opening(oneshot::Receiver<TunnelReader>),
    /// An open tunnel.
    Tunnel(TunnelReader),
}

impl Upload {
    /// Begins a body of at most `limit` bytes, of which parts that cost `credit` may be read at first.
    pub(super) fn new(source: Option<Source>, limit: u64, credit: u64) -> Upload {
        let mut upload = Upload { source, limit, received: 0, credit: 0 };
        upload.add_credit(credit);
        upload
    }

    /// Adds credit for blocks that were read.
    pub(super) fn add_credit(&mut self, amount: u64) {
        self.credit = self.credit.saturating_add_unsigned(amount);
    }

    /// Returns whether a part may be read: there is one, and credit for it.
    pub(super) fn is_wanted(&self) -> bool {
        self.source.is_some() && self.credit > 0
    }

    /// Returns whether all bytes of the body were read, although nobody has looked for its end yet.
    pub(super) fn has_arrived(&self) -> bool {
        matches!(&self.source, Some(Source::Body(body)) if body.is_end_stream())
    }

    /// Stops reading. Returns the body if its end was not read.
    pub(super) fn stop(&mut self) -> Option<RequestBody> {
        match self.source.take() {
            Some(Source::Body(body)) => Some(body),
            _ => None,
        }
    }

    /// Waits for the next part; only while there is a body. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Part {
        let Some(source) = &mut self.source else {
            return std::future::pending().await;
        };
        if let Source::Opening(opening) = source {
            let Ok(tunnel) = opening.await else {
                // The response opens none.
                self.source = None;
                return std::future::pending().await;
            };
            *source = Source::Tunnel(tunnel);
        }
        let part = match source {
            Source::Body(body) => body.next().await,
            Source::Tunnel(tunnel) => match tunnel.next().await {
                Ok(block) if block.is_empty() => Part::End(None),
                Ok(block) => Part::Data(block),
                Err(_) => Part::Gone,
            },
            Source::Opening(_) => return std::future::pending().await,
        };
        if let Part::Data(block) = part {
            return self.accept(block);
        }
        self.source = None;
        part
    }

    fn accept(&mut self, block: Bytes) -> Part {
        self.received += block.len() as u64;
        if self.received > self.limit {
            return Part::TooLarge;
        }
        self.credit = self.credit.saturating_sub_unsigned(cost(block.len()));
        Part::Data(block)
    }
}
