//! Body of a request on its way to a script.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use sluicegate_config::FastCgi;
use tokio::time::timeout;

use super::buffers::{BodyBuffers, Held};
use super::exchange_error::ExchangeError;
use crate::exchange::handler::{Cancelled, RequestBody};
use crate::exchange::message::Request;

/// Largest part in which a body is kept and passed on, bytes.
const PART: usize = 64 << 10;

/// Body of a request, whose length is known: what was kept of it, and what arrives behind that.
#[derive(Debug)]
pub(super) struct Upload<'a> {
    kept: VecDeque<BytesMut>,
    held: Held<'a>,
    /// Length of the kept part that was passed on last.
    passed: usize,
    arriving: Option<RequestBody>,
    /// Bytes that are still to arrive.
    left: u64,
}

impl<'a> Upload<'a> {
    /// Reads the body up to `body_buffer`, so that a slow client keeps no process of the server waiting. Returns it with its length, if the
    /// request has one. A body of unknown length is read to its end, because scripts need to know how much they read; one of known
    /// length goes on as it arrives where the client has no more room.
    ///
    /// # Errors
    /// The client has cancelled the request or stopped sending, or the body cannot be kept until its length is known.
    pub(super) async fn begin(
        request: &Request,
        body: RequestBody,
        settings: &FastCgi,
        buffers: &'a BodyBuffers,
    ) -> Result<(Upload<'a>, Option<u64>), ExchangeError> {
        let mut upload = Upload {
            kept: VecDeque::new(),
            held: buffers.begin(request.peer.address),
            passed: 0,
            arriving: None,
            left: 0,
        };
        let length = request.content_length;
        if !request.has_body {
            return Ok((upload, length.filter(|length| *length == 0)));
        }
        let (kept, arriving) = upload.keep(body, length, settings).await?;
        upload.arriving = arriving;
        upload.left = match length {
            Some(length) => length.checked_sub(kept).ok_or(Cancelled)?,
            None => 0,
        };
        if upload.arriving.is_none() && upload.left > 0 {
            return Err(ExchangeError::Cancelled);
        }
        Ok((upload, length.or(Some(kept).filter(|kept| *kept > 0))))
    }

    /// Reads the beginning of the body into memory. Returns its length, and what is still to arrive.
    async fn keep(
        &mut self,
        mut body: RequestBody,
        length: Option<u64>,
        settings: &FastCgi,
    ) -> Result<(u64, Option<RequestBody>), ExchangeError> {
        let is_known = length.is_some();
        let is_longer = length.is_some_and(|length| length > settings.body_buffer);
        let mut kept = 0;
        while !is_longer || kept < settings.body_buffer {
            let frame = timeout(settings.idle_timeout, body.frame()).await;
            let Some(frame) = frame.map_err(|_| ExchangeError::ClientStalled)? else {
                return Ok((kept, None));
            };
            // Scripts have no trailers.
            let block = frame?.into_data().unwrap_or_default();
            kept += block.len() as u64;
            if !is_known && kept > settings.body_buffer {
                return Err(ExchangeError::LengthRequired);
            }
            let has_room = self.held.grow(block.len());
            if !has_room && !is_known {
                return Err(ExchangeError::NoRoom);
            }
            self.push(block);
            if !has_room {
                break;
            }
        }
        Ok((kept, Some(body)))
    }

    fn push(&mut self, mut block: Bytes) {
        while !block.is_empty() {
            match self.kept.back_mut().filter(|part| part.len() < PART) {
                Some(part) => {
                    let room = PART - part.len();
                    part.extend_from_slice(&block.split_to(room.min(block.len())));
                }
                None => self.kept.push_back(BytesMut::new()),
            }
        }
    }

    /// Drops the body, which asks the client to stop sending it.
    pub(super) fn stop(&mut self) {
        self.kept.clear();
        self.held.shrink(usize::MAX);
        self.arriving = None;
    }

    /// Polls for the next block, once the one before has left the memory; `None` at the end. The script gets exactly as many bytes as were
    /// announced.
    ///
    /// # Errors
    /// The client has cancelled the request.
    pub(super) fn poll_block(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Cancelled>>> {
        self.held.shrink(std::mem::take(&mut self.passed));
        if let Some(part) = self.kept.pop_front() {
            self.passed = part.len();
            return Poll::Ready(Some(Ok(part.freeze())));
        }
        let Some(body) = &mut self.arriving else {
            return Poll::Ready(None);
        };
        let block = loop {
            let frame = match ready!(Pin::new(&mut *body).poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                Some(Err(Cancelled)) => return Poll::Ready(Some(Err(Cancelled))),
                None => break None,
            };
            // Scripts have no trailers.
            if let Ok(block) = frame.into_data() {
                break Some(block);
            }
        };
        let taken = block.as_ref().map_or(0, Bytes::len) as u64;
        match (self.left.checked_sub(taken), block) {
            (Some(left), Some(block)) => {
                self.left = left;
                Poll::Ready(Some(Ok(block)))
            }
            (Some(0), None) => {
                self.arriving = None;
                Poll::Ready(None)
            }
            _ => Poll::Ready(Some(Err(Cancelled))),
        }
    }
}
