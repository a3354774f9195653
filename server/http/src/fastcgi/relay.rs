//! Forwards the body of a script's response to the client.

use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout};

use super::error_log::ErrorLog;
use super::exchange_error::ExchangeError;
use super::records::Status;
use super::session::{Event, Session};
use crate::exchange::handler::BodySender;
use crate::proxy::{Blocks, Deadline, Failure};

/// Largest part of a body that is read for a response without one, bytes.
const DISCARDED: usize = 64 << 10;

/// Response body while it is forwarded.
pub(super) struct Relay<'s, 'a> {
    session: &'s mut Session<'a>,
    errors: &'s mut ErrorLog,
    idle_timeout: Duration,
    /// Length by `content-length`.
    length: Option<u64>,
    /// Bytes of the body that have come.
    taken: u64,
    blocks: Blocks,
    /// The server has nothing more to send.
    ended: bool,
    /// Time at which the client last had room.
    resumed: Instant,
    /// Longest time for which the client had no room.
    longest_pause: Duration,
}

impl<'s, 'a> Relay<'s, 'a> {
    pub(super) fn new(
        session: &'s mut Session<'a>,
        errors: &'s mut ErrorLog,
        idle_timeout: Duration,
        length: Option<u64>,
    ) -> Relay<'s, 'a> {
        Relay {
            session,
            errors,
            idle_timeout,
            length,
            taken: 0,
            blocks: Blocks::new(length),
            ended: false,
            resumed: Instant::now(),
            longest_pause: Duration::ZERO,
        }
    }

    /// Forwards the whole body, of which `first` has come with the head. No byte waits for another that the script has not sent yet, and
    /// the connection is read no faster than the client accepts. Bytes beyond the announced length are dropped. The body ends with the
    /// script's output: the client does not wait for what else the script does.
    ///
    /// # Errors
    /// The body ended early, so the response must not end properly; or the client has cancelled.
    pub(super) async fn run(
        &mut self,
        first: Bytes,
        writer: &mut BodySender,
    ) -> Result<(), ExchangeError> {
        let ended = self.pass(first, writer).await;
        if ended != Err(ExchangeError::Cancelled) {
            // What has come before a failure is for the client, too.
            self.flush(writer).await?;
        }
        ended
    }

    /// Forwards the body, except what waits for more bytes at its end.
    async fn pass(&mut self, first: Bytes, writer: &mut BodySender) -> Result<(), ExchangeError> {
        self.add(first, writer).await?;
        let mut deadline = Deadline::default();
        loop {
            let may_wait = self.blocks.is_empty() && !writer.keeps_bytes();
            let step = std::future::poll_fn(|cx| self.poll_step(cx, may_wait, &mut deadline));
            match step.await? {
                None => self.flush(writer).await?,
                Some(Event::Output(piece)) => self.add(piece, writer).await?,
                Some(Event::Error(text)) => self.errors.push(&text),
                Some(end) => {
                    self.ended = !matches!(end, Event::OutputEnd);
                    let has_all = match end {
                        Event::OutputEnd | Event::End(Status::Complete) => {
                            self.length.is_none_or(|length| length == self.taken)
                        }
                        _ => self.length == Some(self.taken),
                    };
                    return if has_all { Ok(()) } else { Err(self.cut()) };
                }
            }
        }
    }

    /// Reads what follows the client's response, so that its script comes to its end and its messages to the log, within bounds.
    pub(super) async fn discard(self) {
        // What arrives does not prolong it, for no client waits.
        let _ = timeout(self.idle_timeout, self.read_rest()).await;
    }

    async fn read_rest(mut self) {
        let (mut deadline, mut left) = (Deadline::default(), DISCARDED);
        while !self.ended {
            let step = std::future::poll_fn(|cx| self.poll_step(cx, true, &mut deadline));
            match step.await {
                Ok(Some(Event::Error(text))) => self.errors.push(&text),
                Ok(Some(Event::Output(piece))) if piece.len() <= left => left -= piece.len(),
                Ok(Some(Event::OutputEnd)) => {}
                _ => return,
            }
        }
    }

    /// Polls for the next event; `None` if there is none now and the caller has something else to do.
    fn poll_step(
        &mut self,
        cx: &mut Context<'_>,
        may_wait: bool,
        deadline: &mut Deadline,
    ) -> Poll<Result<Option<Event>, ExchangeError>> {
        self.session.poll_send(cx)?;
        match self.session.poll_event(cx) {
            Poll::Ready(Ok(event)) => return Poll::Ready(Ok(Some(event))),
            Poll::Ready(Err(_)) => return Poll::Ready(Err(self.cut())),
            Poll::Pending if !may_wait => return Poll::Ready(Ok(None)),
            Poll::Pending => {}
        }
        let moved = self.session.moved_at().max(self.resumed);
        if deadline.is_over(cx, moved + self.idle_timeout) {
            Poll::Ready(Err(ExchangeError::Failed(Failure::BodyTimeout)))
        } else {
            Poll::Pending
        }
    }

    /// Returns why the body broke off.
    fn cut(&self) -> ExchangeError {
        ExchangeError::Failed(Failure::of_cut(self.longest_pause))
    }

    async fn add(
        &mut self,
        mut piece: Bytes,
        writer: &mut BodySender,
    ) -> Result<(), ExchangeError> {
        if let Some(length) = self.length {
            let left = usize::try_from(length - self.taken).unwrap_or(usize::MAX);
            piece.truncate(left);
        }
        self.taken += piece.len() as u64;
        while let Some(block) = self.blocks.add(&mut piece) {
            self.send(block, writer).await?;
        }
        Ok(())
    }

    /// Sends what waits for more bytes, here or in a compressor.
    async fn flush(&mut self, writer: &mut BodySender) -> Result<(), ExchangeError> {
        if let Some(block) = self.blocks.flush() {
            return self.send(block, writer).await;
        }
        self.session.drive(writer.flush()).await?;
        self.resumed = Instant::now();
        Ok(())
    }

    async fn send(&mut self, block: Bytes, writer: &mut BodySender) -> Result<(), ExchangeError> {
        let offered = Instant::now();
        self.session.drive(writer.data(block)).await?;
        self.resumed = Instant::now();
        self.longest_pause = self.longest_pause.max(self.resumed - offered);
        Ok(())
    }
}
