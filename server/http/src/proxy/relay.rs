//! Forwards the body of a response from an upstream to the client.

use std::future::Future as _;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::Frame;
use tokio::time::Instant;

use super::blocks::Blocks;
use super::failure::Failure;
use super::protocol::UpstreamStream;
use super::upload::Upload;
use super::{ExchangeError, fields, response};
use crate::exchange::Fields;
use crate::exchange::handler::{BodySender, Cancelled};

/// Events while a response is relayed.
enum Step {
    Frame(Frame<Bytes>),
    /// No frame is there now.
    Empty,
    End,
}

/// Response body while it is forwarded.
pub(super) struct Relay<'a> {
    pub(super) stream: &'a mut dyn UpstreamStream,
    pub(super) upload: &'a Upload,
    pub(super) idle_timeout: Duration,
    /// Longest time for which the client had no room for the body.
    pub(super) longest_pause: Duration,
}

impl Relay<'_> {
    /// Forwards the whole body and returns its trailers. No byte waits for another that the upstream has not sent yet, and the
    /// upstream is read no faster than the client accepts.
    ///
    /// # Errors
    /// The body ended early, so the response must not end properly; or the client has cancelled.
    pub(super) async fn run(
        mut self,
        writer: &mut BodySender,
        length: Option<u64>,
    ) -> Result<Option<Fields>, ExchangeError> {
        let mut blocks = Blocks::new(length);
        let mut trailers = None;
        let mut resumed = Instant::now();
        loop {
            let may_wait = blocks.is_empty() && !writer.keeps_bytes();
            let step = std::future::poll_fn(|cx| self.step(cx, may_wait, resumed));
            match step.await? {
                Step::Frame(frame) => match frame.into_data() {
                    Ok(mut piece) => {
                        while let Some(block) = blocks.add(&mut piece) {
                            resumed = self.send(writer, block).await?.unwrap_or(resumed);
                        }
                    }
                    Err(frame) => trailers = frame.into_trailers().ok(),
                },
                Step::Empty => {
                    if let Some(block) = blocks.flush() {
                        resumed = self.send(writer, block).await?.unwrap_or(resumed);
                    } else {
                        resumed = self.flush(writer).await?;
                    }
                }
                Step::End => break,
            }
        }
        if let Some(block) = blocks.flush() {
            self.send(writer, block).await?;
        }
        Ok(trailers.map(forwarded).filter(|fields| !fields.is_empty()))
    }

    /// Sends a block to the client while the stream is driven, so that the request's body moves on. Returns the time
    /// at which the client had room, if it had none at once.
    async fn send(
        &mut self,
        writer: &mut BodySender,
        block: Bytes,
    ) -> Result<Option<Instant>, Cancelled> {
        let mut sent = pin!(writer.data(block));
        if let Poll::Ready(sent) =
            std::future::poll_fn(|cx| Poll::Ready(sent.as_mut().poll(cx))).await
        {
            return sent.map(|()| None);
        }
        let offered = Instant::now();
        self.stream.drive(sent).await?;
        let taken = Instant::now();
        self.longest_pause = self.longest_pause.max(taken - offered);
        Ok(Some(taken))
    }

    /// Sends the client what a compressor keeps, in the same way.
    async fn flush(&mut self, writer: &mut BodySender) -> Result<Instant, Cancelled> {
        self.stream.drive(writer.flush()).await?;
        Ok(Instant::now())
    }

    fn step(
        &mut self,
        cx: &mut Context<'_>,
        may_wait: bool,
        resumed: Instant,
    ) -> Poll<Result<Step, ExchangeError>> {
        match self.stream.poll_body(cx) {
            Poll::Ready(Some(Ok(frame))) => return Poll::Ready(Ok(Step::Frame(frame))),
            Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(self.cut())),
            Poll::Ready(None) => return Poll::Ready(Ok(Step::End)),
            Poll::Pending if !may_wait => return Poll::Ready(Ok(Step::Empty)),
            Poll::Pending => {}
        }
        let meter = self.stream.meter();
        let moved = meter.read_at().max(meter.written_at());
        let moved = moved.max(self.upload.moved_at()).max(resumed);
        if self.stream.is_over(cx, moved + self.idle_timeout) {
            Poll::Ready(Err(ExchangeError::Failed(Failure::BodyTimeout)))
        } else {
            Poll::Pending
        }
    }

    /// Returns why the body broke off.
    fn cut(&self) -> ExchangeError {
        if self.upload.broken() {
            ExchangeError::Cancelled
        } else {
            ExchangeError::Failed(Failure::of_cut(self.longest_pause))
        }
    }
}

/// Returns the trailers for the client.
fn forwarded(trailers: HeaderMap) -> Fields {
    response::pass(response::lines(fields::response_trailers(trailers)))
}
