//! State that both sides of an exchange share.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Poll, Waker};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::exchange::Fields;
use crate::exchange::message::{Envelope, Opening, ToFront};

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

    /// Returns whether a message that refuses the rest of a body waits, for the front of a single exchange.
    pub fn stops_body(&self) -> bool {
        let messages = self.messages.borrow();
        let mut messages = messages.iter();
        messages.any(|envelope| matches!(envelope.message, ToFront::StopBody))
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
pub(super) struct Shared {
    pub(super) exchange: u64,
    pub(super) front_queue: Rc<FrontQueue>,
    /// Credit left for the response; below zero if the last block cost more than there was.
    pub(super) credit: Cell<i64>,
    pub(super) sender: RefCell<Option<Waker>>,
    /// The front reads ranges that are lent to it.
    pub(super) lends: bool,
    /// Bytes that it has read of the range lent last, once it has returned that.
    pub(super) range_read: Cell<Option<u64>>,
    pub(super) body: RefCell<Upload>,
    pub(super) gone: Cell<bool>,
    /// Status that opens the tunnel for which the request asks; `None` if it asks for none.
    pub(super) opening: Option<Opening>,
    /// A tunnel is open.
    pub(super) is_tunnel_open: Cell<bool>,
    /// The response has begun, so that a failure can only reset the stream.
    pub(super) begun: Cell<bool>,
    pub(super) ended: Cell<bool>,
    /// Status of the response if the handler is dropped before it responds.
    pub(super) abort_status: Cell<u16>,
}

/// Part of the request's body that has arrived and is unread.
#[derive(Debug, Default)]
pub(super) struct Upload {
    pub(super) blocks: VecDeque<Bytes>,
    pub(super) trailers: Option<Fields>,
    pub(super) ended: bool,
    /// The handler has dropped the body.
    pub(super) dropped: bool,
    pub(super) reader: Option<Waker>,
}

impl Shared {
    pub(super) fn send(&self, message: ToFront) {
        if !self.gone.get() {
            self.front_queue.push(self.exchange, message);
        }
    }

    /// Waits until there is credit, and takes `amount` of it, even if there is less: one block is always allowed.
    pub(super) async fn spend(&self, amount: u64) -> Result<(), Cancelled> {
        std::future::poll_fn(|cx| {
            if self.gone.get() {
                return Poll::Ready(Err(Cancelled));
            }
            if self.credit.get() <= 0 {
                *self.sender.borrow_mut() = Some(cx.waker().clone());
                return Poll::Pending;
            }
            self.credit.set(self.credit.get().saturating_sub_unsigned(amount));
            Poll::Ready(Ok(()))
        })
        .await
    }

    /// Waits until the front has returned a range, and returns how many bytes of it the front has read.
    pub(super) async fn range_read(&self) -> Result<u64, Cancelled> {
        std::future::poll_fn(|cx| {
            if self.gone.get() {
                return Poll::Ready(Err(Cancelled));
            }
            let Some(count) = self.range_read.take() else {
                *self.sender.borrow_mut() = Some(cx.waker().clone());
                return Poll::Pending;
            };
            Poll::Ready(Ok(count))
        })
        .await
    }
}
