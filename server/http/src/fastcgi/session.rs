//! A request on its connection to a FastCGI server.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes, BytesMut};
use sluicegate_config::FastCgi;
use tokio::io::AsyncWrite as _;
use tokio::time::Instant;

use super::exchange_error::ExchangeError;
use super::records::{self, Decoder, Status};
use super::upload::Upload;
use crate::block::poll_block;
use crate::exchange::handler::Cancelled;
use crate::proxy::{BareStream, Deadline, Failure};

/// Part of the response of a FastCGI server.
#[derive(Debug)]
pub(super) enum Event {
    /// Bytes of the response.
    Output(Bytes),
    /// Bytes of the script's standard error.
    Error(Bytes),
    /// End of the output.
    OutputEnd,
    /// End of the response.
    End(Status),
    /// The server has closed the connection.
    Closed,
}

/// Connection that carries one request.
pub(super) struct Session<'a> {
    stream: BareStream,
    upload: Upload<'a>,
    /// Records that are still to be written.
    unsent: BytesMut,
    /// The record that ends the request's body is among them, or was written.
    input_ended: bool,
    /// A write has failed. The response may be there nevertheless.
    write_failed: bool,
    /// Time at which the request last moved.
    sent_at: Instant,
    /// Bytes that were read and are not decoded yet.
    received: Bytes,
    decoder: Decoder,
    /// Time of the last read.
    read_at: Instant,
}

impl<'a> Session<'a> {
    /// Begins a request with these parameters.
    pub(super) fn new(stream: BareStream, params: &[u8], upload: Upload<'a>) -> Session<'a> {
        let (mut unsent, now) = (BytesMut::new(), Instant::now());
        records::begin(params, &mut unsent);
        Session {
            stream,
            upload,
            unsent,
            input_ended: false,
            write_failed: false,
            sent_at: now,
            received: Bytes::new(),
            decoder: Decoder::new(),
            read_at: now,
        }
    }

    /// Returns the connection.
    pub(super) fn stream(&self) -> &BareStream {
        &self.stream
    }

    /// Returns the later one of the times at which request and response last moved.
    pub(super) fn moved_at(&self) -> Instant {
        self.sent_at.max(self.read_at)
    }

    /// Sends what can be sent of the request: no more of its body is read than the server takes.
    ///
    /// # Errors
    /// The client has cancelled the request.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>) -> Result<(), ExchangeError> {
        while !self.write_failed {
            if !self.unsent.is_empty() {
                match Pin::new(&mut self.stream).poll_write(cx, &self.unsent) {
                    Poll::Pending => return Ok(()),
                    Poll::Ready(Ok(count @ 1..)) => {
                        self.unsent.advance(count);
                        self.sent_at = Instant::now();
                    }
                    Poll::Ready(Ok(0) | Err(_)) => {
                        self.write_failed = true;
                        self.unsent = BytesMut::new();
                        self.upload.stop();
                    }
                }
                continue;
            }
            if self.input_ended {
                return Ok(());
            }
            match self.upload.poll_block(cx) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Some(block)) => {
                    records::body(&block?, &mut self.unsent);
                    self.sent_at = Instant::now();
                }
                Poll::Ready(None) => {
                    records::end_of_body(&mut self.unsent);
                    self.input_ended = true;
                }
            }
        }
        Ok(())
    }

    /// Polls for the next part of the response.
    ///
    /// # Errors
    /// The server has sent no valid response.
    pub(super) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Result<Event, Failure>> {
        loop {
            match self.decoder.next(&mut self.received) {
                Ok(Some(records::Event::Output(part))) => {
                    return Poll::Ready(Ok(Event::Output(part)));
                }
                Ok(Some(records::Event::Error(part))) => {
                    return Poll::Ready(Ok(Event::Error(part)));
                }
                Ok(Some(records::Event::OutputEnd)) => {
                    return Poll::Ready(Ok(Event::OutputEnd));
                }
                Ok(Some(records::Event::End(status))) => {
                    return Poll::Ready(Ok(Event::End(status)));
                }
                Ok(None) => {}
                Err(records::Malformed) => return Poll::Ready(Err(Failure::Malformed)),
            }
            match ready!(poll_block(&mut self.stream, cx)) {
                Ok(block) if !block.is_empty() => {
                    self.received = block;
                    self.read_at = Instant::now();
                }
                Ok(_) | Err(_) => return Poll::Ready(Ok(Event::Closed)),
            }
        }
    }

    /// Returns why the head of the response comes too late, if it does. `idle_timeout` bounds each pause of the request's body; once
    /// that is sent, `head_timeout` runs, whatever else arrives.
    pub(super) fn late(
        &self,
        cx: &mut Context<'_>,
        settings: &FastCgi,
        timer: &mut Deadline,
    ) -> Option<ExchangeError> {
        let is_sent = self.write_failed || self.input_ended && self.unsent.is_empty();
        let (limit, error) = if is_sent {
            (settings.head_timeout, ExchangeError::Failed(Failure::HeadTimeout))
        } else if self.unsent.is_empty() {
            (settings.idle_timeout, ExchangeError::ClientStalled)
        } else {
            (settings.idle_timeout, ExchangeError::Failed(Failure::WriteTimeout))
        };
        timer.is_over(cx, self.sent_at + limit).then_some(error)
    }

    /// Sends the request until `future` is ready.
    ///
    /// # Errors
    /// The client has cancelled the request.
    pub(super) async fn drive<T>(
        &mut self,
        future: impl Future<Output = Result<T, Cancelled>>,
    ) -> Result<T, ExchangeError> {
        let mut future = pin!(future);
        std::future::poll_fn(|cx| {
            self.poll_send(cx)?;
            future.as_mut().poll(cx).map_err(ExchangeError::from)
        })
        .await
    }
}
