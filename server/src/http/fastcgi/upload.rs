//! Body of a request on its way to a script.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use sluicegate_config::FastCgi;
use tokio::time::timeout;

use super::buffers::{BodyBuffers, Held};
use super::stop::Stop;
use crate::http::exchange::handler::{Cancelled, RequestBody};
use crate::http::exchange::message::Request;

/// Body of a request, whose length is known.
#[derive(Debug)]
pub(super) struct Upload<'a> {
    source: Source<'a>,
    /// Bytes that are still to come.
    left: u64,
}

#[derive(Debug)]
enum Source<'a> {
    Nothing,
    /// The whole body, with its place in memory.
    Kept {
        bytes: Bytes,
        _held: Held<'a>,
    },
    /// The body as it arrives.
    Arriving(RequestBody),
}

impl<'a> Upload<'a> {
    /// Returns the body and its length, if the request has one. A body of unknown length is read to its end first, because scripts need to
    /// know how much they read.
    ///
    /// # Errors
    /// The client has cancelled the request or stopped sending, or the body is too long to be kept.
    pub(super) async fn begin(
        request: &Request,
        body: RequestBody,
        settings: &FastCgi,
        buffers: &'a BodyBuffers,
    ) -> Result<(Upload<'a>, Option<u64>), Stop> {
        let (source, length) = match request.content_length {
            length if !request.has_body => (Source::Nothing, length.filter(|length| *length == 0)),
            Some(length) => (Source::Arriving(body), Some(length)),
            None => {
                let (bytes, held) = keep(body, settings, buffers).await?;
                match bytes.len() as u64 {
                    0 => (Source::Nothing, None),
                    length => {
                        let _held = held;
                        (Source::Kept { bytes, _held }, Some(length))
                    }
                }
            }
        };
        let left = length.unwrap_or(0);
        Ok((Upload { source, left }, length))
    }

    /// Drops the body, which asks the client to stop sending it.
    pub(super) fn stop(&mut self) {
        self.source = Source::Nothing;
    }

    /// Polls for the next block; `None` at the end. The script gets exactly as many bytes as were announced.
    ///
    /// # Errors
    /// The client has cancelled the request.
    pub(super) fn poll_block(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Cancelled>>> {
        let block = match &mut self.source {
            Source::Nothing => return Poll::Ready(None),
            Source::Kept { bytes, .. } => {
                let kept = std::mem::take(bytes);
                self.source = Source::Nothing;
                return Poll::Ready(Some(Ok(kept)));
            }
            Source::Arriving(body) => loop {
                let frame = match ready!(Pin::new(&mut *body).poll_frame(cx)) {
                    Some(Ok(frame)) => frame,
                    Some(Err(Cancelled)) => return Poll::Ready(Some(Err(Cancelled))),
                    None => break None,
                };
                // Scripts have no trailers.
                if let Ok(block) = frame.into_data() {
                    break Some(block);
                }
            },
        };
        let taken = block.as_ref().map_or(0, Bytes::len) as u64;
        match (self.left.checked_sub(taken), block) {
            (Some(left), Some(block)) => {
                self.left = left;
                Poll::Ready(Some(Ok(block)))
            }
            (Some(0), None) => {
                self.source = Source::Nothing;
                Poll::Ready(None)
            }
            _ => Poll::Ready(Some(Err(Cancelled))),
        }
    }
}

/// Reads a whole body into memory.
async fn keep<'a>(
    mut body: RequestBody,
    settings: &FastCgi,
    buffers: &'a BodyBuffers,
) -> Result<(Bytes, Held<'a>), Stop> {
    let limit = usize::try_from(settings.body_buffer).unwrap_or(usize::MAX);
    let (mut kept, mut held) = (BytesMut::new(), buffers.begin());
    loop {
        let frame = timeout(settings.idle_timeout, body.frame()).await;
        let Some(frame) = frame.map_err(|_| Stop::ClientStalled)? else {
            return Ok((kept.freeze(), held));
        };
        let block = frame?.into_data().unwrap_or_default();
        if kept.len() + block.len() > limit || !held.grow(block.len()) {
            return Err(Stop::LengthRequired);
        }
        kept.extend_from_slice(&block);
    }
}
