//! The way of a handler's response to the front, and its memory.

use std::cell::Cell;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use sluicegate_http::exchange::Reply;
use sluicegate_http::exchange::accounts::Direction;
use sluicegate_http::exchange::local::LocalExchange;
use sluicegate_http::exchange::message::Head;

use crate::tcp::open_connections::ConnectionHandle;

/// Way of a handler's response to the front.
#[derive(Debug)]
pub(super) struct Flow {
    /// Head of the response, or the reply in its place.
    pub(super) head: Option<Result<Head, Reply>>,
    pub(super) waker: Option<Waker>,
    /// Memory of the exchange; `None` once it was revoked, or given back early.
    permit: Option<LocalExchange>,
    /// Connection that this memory counts for, and how much does.
    handle: Rc<ConnectionHandle>,
    counted: Cell<u64>,
    /// The front has dropped its side after the response.
    left: bool,
    /// Wakes the handler's task once the front has.
    on_leave: Option<Waker>,
}

impl Flow {
    /// Returns an empty response with the memory of its exchange.
    pub(super) fn new(permit: LocalExchange, handle: &Rc<ConnectionHandle>) -> Flow {
        let flow = Flow {
            head: None,
            waker: None,
            permit: Some(permit),
            handle: Rc::clone(handle),
            counted: Cell::new(0),
            left: false,
            on_leave: None,
        };
        flow.count();
        flow
    }

    /// Counts the memory of the exchange as the connection's.
    fn count(&self) {
        let now = self.permit.as_ref().map_or(0, LocalExchange::promised);
        self.handle.reserve(self.counted.replace(now), now);
    }

    /// Raises the memory of a direction that moves. Returns the further credit, bytes.
    pub(super) fn grow(&self, direction: Direction) -> u64 {
        let more = self.permit.as_ref().map_or(0, |permit| permit.grow(direction));
        if more > 0 {
            self.count();
        }
        more
    }

    /// Gives the memory back.
    pub(super) fn release(&mut self) {
        self.permit = None;
        self.count();
    }

    /// Notes that the front has dropped its side.
    pub(super) fn leave(&mut self) {
        self.left = true;
        if let Some(waker) = self.on_leave.take() {
            waker.wake();
        }
    }

    /// Waits until the front has dropped its side.
    pub(super) fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.left {
            return Poll::Ready(());
        }
        self.on_leave = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.handle.reserve(self.counted.get(), 0);
    }
}
