//! The body of a request on its way to its handler.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::request::trailers;
use crate::http::exchange::Fields;
use crate::http::exchange::message::cost;

/// Body of a request.
#[derive(Debug)]
pub(super) struct Upload {
    /// The body, until it has ended.
    body: Option<Incoming>,
    /// Most bytes that are accepted.
    limit: u64,
    received: u64,
    /// Credit left, by [`cost`]; below zero if the last block cost more than there was.
    credit: i64,
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
    /// The trailers are malformed.
    Malformed,
    /// The client has gone, or broken the framing.
    Gone,
}

impl Upload {
    /// Begins a body of at most `limit` bytes, of which parts that cost `credit` may be read at first.
    pub(super) fn new(body: Option<Incoming>, limit: u64, credit: u64) -> Upload {
        let mut upload = Upload {
            body,
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
        self.body.is_some() && self.credit > 0
    }

    /// Stops reading. Returns whether anything was left.
    pub(super) fn stop(&mut self) -> bool {
        self.body.take().is_some()
    }

    /// Waits for the next part; only while there is a body. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Part {
        let Some(body) = &mut self.body else {
            return std::future::pending().await;
        };
        let part = match body.frame().await {
            None => Part::End(None),
            Some(Err(_)) => Part::Gone,
            Some(Ok(frame)) => match frame.into_data() {
                Ok(block) => return self.accept(block),
                Err(frame) => match frame.into_trailers() {
                    Ok(map) => {
                        trailers(&map).map_or(Part::Malformed, |fields| Part::End(Some(fields)))
                    }
                    Err(_) => Part::Malformed,
                },
            },
        };
        self.body = None;
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
