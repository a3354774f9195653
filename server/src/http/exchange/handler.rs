//! A handler's side of an exchange. All of it stays on one origin thread.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::Notify;

use super::message::{Envelope, HandlerReport, Head, Request, ToFront, ToHandler, cost};
use super::{Fields, Opaque};

/// Error of a request that its client has cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client has cancelled the request")]
pub struct Cancelled;

/// Messages of all exchanges of a thread, on their way to the front. The credit of each exchange bounds its part.
#[derive(Debug, Default)]
pub struct FrontQueue {
    messages: RefCell<VecDeque<Envelope<ToFront>>>,
    filled: Notify,
}

impl FrontQueue {
    /// Adds a message.
    pub fn push(&self, exchange: u64, message: ToFront) {
        let mut messages = self.messages.borrow_mut();
        messages.push_back(Envelope { exchange, message });
        self.filled.notify_one();
    }

    /// Removes and returns the oldest message.
    pub fn pop(&self) -> Option<Envelope<ToFront>> {
        self.messages.borrow_mut().pop_front()
    }

    /// Puts a message back in front, if it could not be passed on.
    pub fn put_back(&self, envelope: Envelope<ToFront>) {
        self.messages.borrow_mut().push_front(envelope);
    }

    /// Waits for a message.
    pub async fn filled(&self) {
        while self.messages.borrow().is_empty() {
            self.filled.notified().await;
        }
    }
}

/// State that both halves of an exchange share.
#[derive(Debug)]
struct Shared {
    exchange: u64,
    front_queue: Rc<FrontQueue>,
    /// Credit left for the response; below zero if the last block cost more than there was.
    credit: Cell<i64>,
    sender: RefCell<Option<Waker>>,
    body: RefCell<Upload>,
    gone: Cell<bool>,
    /// The response has begun, so that a failure can only reset the stream.
    begun: Cell<bool>,
    ended: Cell<bool>,
    /// Status of the response if the handler is dropped before it responds.
    abort_status: Cell<u16>,
}

/// Part of the request's body that has arrived and is unread.
#[derive(Debug, Default)]
struct Upload {
    blocks: VecDeque<Bytes>,
    trailers: Option<Fields>,
    ended: bool,
    /// The handler has dropped the body.
    dropped: bool,
    reader: Option<Waker>,
}

impl Shared {
    fn send(&self, message: ToFront) {
        if !self.gone.get() {
            self.front_queue.push(self.exchange, message);
        }
    }

    /// Waits until there is credit, and takes `amount` of it, even if there is less: one block is always allowed.
    async fn spend(&self, amount: u64) -> Result<(), Cancelled> {
        std::future::poll_fn(|cx| {
            if self.gone.get() {
                return Poll::Ready(Err(Cancelled));
            }
            if self.credit.get() <= 0 {
                *self.sender.borrow_mut() = Some(cx.waker().clone());
                return Poll::Pending;
            }
            self.credit
                .set(self.credit.get().saturating_sub_unsigned(amount));
            Poll::Ready(Ok(()))
        })
        .await
    }
}

/// Receives the front's messages to one exchange.
#[derive(Debug)]
pub struct ExchangeHandle(Rc<Shared>);

impl ExchangeHandle {
    /// Sets the status that the client gets if the handler is dropped before it responds; 502 by default.
    pub fn set_abort_status(&self, status: u16) {
        self.0.abort_status.set(status);
    }

    /// Takes a message that is not [`ToHandler::Open`].
    pub fn deliver(&self, message: ToHandler) {
        let shared = &*self.0;
        let mut body = shared.body.borrow_mut();
        match message {
            ToHandler::Data(block) if body.dropped => {
                shared.send(ToFront::Credit(cost(block.len())));
            }
            ToHandler::Data(block) => body.blocks.push_back(block),
            ToHandler::End(trailers) => {
                body.trailers = trailers;
                body.ended = true;
            }
            ToHandler::Credit(amount) => {
                shared
                    .credit
                    .set(shared.credit.get().saturating_add_unsigned(amount));
                if let Some(waker) = shared.sender.take() {
                    waker.wake();
                }
            }
            ToHandler::Cancel => shared.gone.set(true),
            ToHandler::Open { .. } => debug_assert!(false, "an exchange is opened once"),
        }
        if let Some(waker) = body.reader.take() {
            waker.wake();
        }
    }
}

impl Drop for ExchangeHandle {
    /// Wakes both halves: the exchange's task has ended or is about to be aborted.
    fn drop(&mut self) {
        self.0.gone.set(true);
        if let Some(waker) = self.0.body.borrow_mut().reader.take() {
            waker.wake();
        }
        if let Some(waker) = self.0.sender.take() {
            waker.wake();
        }
    }
}

/// Request as a handler receives it.
#[derive(Debug)]
pub struct Incoming {
    /// Request without its body.
    pub request: Request,
    /// Body of the request.
    pub body: RequestBody,
    /// Sender of the response.
    pub reply: Responder,
}

/// Offers the front an entry for its memory.
#[derive(Debug)]
pub struct CacheOffer(Rc<Shared>);

impl CacheOffer {
    /// Offers an entry for the front's memory; `None` removes the one that it has.
    pub fn keep(self, entry: Option<Opaque>) {
        self.0.send(ToFront::Keep(entry));
    }
}

/// Sends the front facts for the access log, if it wants any.
#[derive(Debug)]
pub struct Reporter(Option<Rc<Shared>>);

impl Reporter {
    /// Sends facts in place of those sent before. Those that a response's failure causes come before the failure.
    pub fn report(&self, report: impl FnOnce() -> HandlerReport) {
        if let Some(shared) = &self.0 {
            shared.send(ToFront::Report(Box::new(report())));
        }
    }
}

impl Incoming {
    /// Returns the way to send facts for the access log.
    pub fn reporter(&self) -> Reporter {
        let wanted = self.request.wants_report;
        Reporter(wanted.then(|| Rc::clone(&self.reply.shared)))
    }

    /// Returns the way to offer an entry for the front's memory.
    pub fn cache_offer(&self) -> CacheOffer {
        CacheOffer(Rc::clone(&self.reply.shared))
    }

    /// Returns a new exchange, and the receiver of the front's further messages to it.
    pub fn new(
        exchange: u64,
        request: Request,
        credit: u64,
        front_queue: Rc<FrontQueue>,
    ) -> (Incoming, ExchangeHandle) {
        let shared = Rc::new(Shared {
            exchange,
            front_queue,
            credit: Cell::new(i64::try_from(credit).unwrap_or(i64::MAX)),
            sender: RefCell::default(),
            body: RefCell::new(Upload {
                ended: !request.has_body,
                ..Upload::default()
            }),
            gone: Cell::new(false),
            begun: Cell::new(false),
            ended: Cell::new(false),
            abort_status: Cell::new(502),
        });
        let incoming = Incoming {
            body: RequestBody {
                shared: Rc::clone(&shared),
                length: request.content_length,
            },
            request,
            reply: Responder {
                shared: Rc::clone(&shared),
            },
        };
        (incoming, ExchangeHandle(shared))
    }
}

/// Body of a request: block by block, then its trailers. Dropping it asks the client to stop sending.
#[derive(Debug)]
pub struct RequestBody {
    shared: Rc<Shared>,
    length: Option<u64>,
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Cancelled;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cancelled>>> {
        let mut body = self.shared.body.borrow_mut();
        if let Some(block) = body.blocks.pop_front() {
            self.shared.send(ToFront::Credit(cost(block.len())));
            return Poll::Ready(Some(Ok(Frame::data(block))));
        }
        if body.ended {
            return Poll::Ready(body.trailers.take().map(|fields| {
                let trailers: HeaderMap = fields.into_iter().collect();
                Ok(Frame::trailers(trailers))
            }));
        }
        if self.shared.gone.get() {
            return Poll::Ready(Some(Err(Cancelled)));
        }
        body.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        let body = self.shared.body.borrow();
        body.ended && body.blocks.is_empty() && body.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match self.length {
            Some(length) => SizeHint::with_exact(length),
            None if self.is_end_stream() => SizeHint::with_exact(0),
            None => SizeHint::default(),
        }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let mut body = self.shared.body.borrow_mut();
        body.dropped = true;
        body.blocks.clear();
        if !body.ended {
            self.shared.send(ToFront::StopBody);
        }
    }
}

/// Sends the response of an exchange. Dropping it before the response begins sends 502, or the status that
/// [`ExchangeHandle::set_abort_status`] set.
#[derive(Debug)]
pub struct Responder {
    shared: Rc<Shared>,
}

impl Responder {
    /// Sends an informational response (RFC 9110 §15.2).
    ///
    /// # Errors
    /// The client has cancelled the request.
    pub async fn interim(&mut self, status: u16, fields: Fields) -> Result<(), Cancelled> {
        let size: usize = fields.iter().map(|(n, v)| n.as_str().len() + v.len()).sum();
        self.shared.spend(cost(size)).await?;
        self.shared.send(ToFront::Interim(status, fields));
        Ok(())
    }

    /// Begins the final response. With `end` set in the head it is complete.
    ///
    /// # Errors
    /// The client has cancelled the request.
    pub async fn head(self, head: Head) -> Result<BodySender, Cancelled> {
        if self.shared.gone.get() {
            return Err(Cancelled);
        }
        self.shared.begun.set(true);
        self.shared.ended.set(head.end);
        self.shared.send(ToFront::Head(head));
        Ok(BodySender {
            shared: Rc::clone(&self.shared),
        })
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if !self.shared.begun.get() {
            self.shared.begun.set(true);
            self.shared.ended.set(true);
            self.shared
                .send(ToFront::Abort(self.shared.abort_status.get()));
        }
    }
}

/// Sends the body of a response. Dropping it before the end resets the client's stream: a truncated body must not look
/// whole.
#[derive(Debug)]
pub struct BodySender {
    shared: Rc<Shared>,
}

impl BodySender {
    /// Waits until [`BodySender::data`] would send a block at once.
    ///
    /// # Errors
    /// The client has cancelled the request.
    pub async fn ready(&mut self) -> Result<(), Cancelled> {
        self.shared.spend(0).await
    }

    /// Sends a block, once the client has taken enough of the earlier ones. The memory behind it should not be much larger
    /// than the block.
    ///
    /// # Errors
    /// The client has cancelled the request.
    pub async fn data(&mut self, block: Bytes) -> Result<(), Cancelled> {
        if block.is_empty() {
            return Ok(());
        }
        self.shared.spend(cost(block.len())).await?;
        self.shared.send(ToFront::Data(block));
        Ok(())
    }

    /// Completes the response.
    pub fn end(self, trailers: Option<Fields>) {
        if !self.shared.ended.replace(true) {
            self.shared.send(ToFront::End(trailers));
        }
    }
}

impl Drop for BodySender {
    fn drop(&mut self) {
        if !self.shared.ended.replace(true) {
            self.shared
                .send(ToFront::Abort(self.shared.abort_status.get()));
        }
    }
}

#[cfg(test)]
mod tests;
