//! The body of a request on its way to its handler.

use std::io;

use bytes::Bytes;
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::sync::oneshot;

use super::request::trailers;
use super::tunnel_reader::TunnelReader;
use crate::http::exchange::Fields;
use crate::http::exchange::message::cost;

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
    Body(Incoming),
    /// A tunnel that may be opened.
    Opening(oneshot::Receiver<TunnelReader>),
    /// An open tunnel.
    Tunnel(TunnelReader),
}

/// Next part of a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A block.
    Data(Bytes),
    /// The end, perhaps with trailers.
    End(Option<Fields>),
    /// The body is longer than the limit.
    TooLarge,
    /// The framing or the trailers are malformed.
    Malformed,
    /// The client has gone.
    Gone,
}

impl Upload {
    /// Begins a body of at most `limit` bytes, of which parts that cost `credit` may be read at first.
    pub(super) fn new(source: Option<Source>, limit: u64, credit: u64) -> Upload {
        let mut upload = Upload {
            source,
            limit,
            received: 0,
            credit: 0,
        };
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
    pub(super) fn stop(&mut self) -> Option<Incoming> {
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
            Source::Body(body) => part_of(body).await,
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

/// Waits for the next part of a request's body.
pub(super) async fn part_of(body: &mut Incoming) -> Part {
    match body.frame().await {
        None => Part::End(None),
        Some(Err(error)) if is_of_framing(&error) => Part::Malformed,
        Some(Err(_)) => Part::Gone,
        Some(Ok(frame)) => match frame.into_data() {
            Ok(block) => Part::Data(block),
            Err(frame) => match frame.into_trailers() {
                Ok(map) => trailers(&map).map_or(Part::Malformed, |fields| Part::End(Some(fields))),
                Err(_) => Part::Malformed,
            },
        },
    }
}

/// Returns whether hyper could not read the chunks of a body.
fn is_of_framing(error: &hyper::Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref());
    cause.is_some_and(|cause: &io::Error| {
        matches!(
            cause.kind(),
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData
        )
    })
}
