//! A handler's side of an exchange. All of it stays on one origin thread.

mod reply;
mod responder;
mod shared;
mod waiting;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use sluicegate_base::observe::account::Wait;

pub use self::responder::{BodySender, Responder};
pub use self::shared::{Cancelled, FrontQueue};
use self::shared::{Shared, Upload};
pub use self::waiting::Waiting;
use super::message::{HandlerReport, Opening, Request, ToFront, ToHandler, cost};

/// Receives the front's messages to one exchange.
#[derive(Debug)]
pub struct ExchangeHandle(Rc<Shared>);

impl ExchangeHandle {
    /// Sets the status that the client gets if the handler is dropped before it responds; 502 by default.
    pub fn set_abort_status(&self, status: u16) {
        self.0.abort_status.set(status);
    }

    /// Returns whether the response has opened a tunnel, which the route's time limit does not end.
    pub fn is_tunnel_open(&self) -> bool {
        self.0.is_tunnel_open.get()
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
                shared.credit.set(shared.credit.get().saturating_add_unsigned(amount));
                if let Some(waker) = shared.sender.take() {
                    waker.wake();
                }
            }
            ToHandler::RangeRead(count) => {
                shared.range_read.set(Some(count));
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
    pub request: Box<Request>,
    /// Body of the request.
    pub body: RequestBody,
    /// Sender of the response.
    pub reply: Responder,
}

/// Sends the front what it shows of an exchange: what the handler waits for, and facts for the access log if the front wants any.
#[derive(Debug)]
pub struct Reporter {
    shared: Rc<Shared>,
    wants_report: bool,
}

impl Reporter {
    /// Sends facts in place of those sent before. Those that a response's failure causes come before the failure.
    pub fn report(&self, report: impl FnOnce() -> HandlerReport) {
        if self.wants_report {
            self.shared.send(ToFront::Report(Box::new(report())));
        }
    }

    /// Returns whether the front wants facts.
    pub fn wants_report(&self) -> bool {
        self.wants_report
    }

    /// Says what the handler waits for from now on.
    pub fn waits(&self, wait: Wait) {
        self.shared.send(ToFront::Waits(wait));
    }

    /// Says that the handler waits for `wait` until a future is complete, unless it is at once; for `then` afterwards.
    pub fn during<F: Future>(&self, wait: Wait, then: Wait, future: F) -> Waiting<'_, F> {
        Waiting::new(self, wait, then, future)
    }
}

impl Incoming {
    /// Returns the way to send what the front shows of the exchange.
    pub fn reporter(&self) -> Reporter {
        Reporter { shared: self.reply.shared(), wants_report: self.request.wants_report }
    }

    /// Returns a new exchange, and the receiver of the front's further messages to it.
    pub fn new(
        exchange: u64,
        request: Box<Request>,
        credit: u64,
        front_queue: Rc<FrontQueue>,
    ) -> (Incoming, ExchangeHandle) {
        let shared = Rc::new(Shared {
            exchange,
            front_queue,
            credit: Cell::new(i64::try_from(credit).unwrap_or(i64::MAX)),
            sender: RefCell::default(),
            lends: request.reads_ranges,
            range_read: Cell::new(None),
            body: RefCell::new(Upload { ended: !request.has_body, ..Upload::default() }),
            gone: Cell::new(false),
            opening: Opening::of(&request),
            is_tunnel_open: Cell::new(false),
            begun: Cell::new(false),
            ended: Cell::new(false),
            abort_status: Cell::new(502),
        });
        let incoming = Incoming {
            body: RequestBody { shared: Rc::clone(&shared), length: request.content_length },
            request,
            reply: Responder::new(Rc::clone(&shared)),
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

#[cfg(test)]
mod tests;
