//! The response of a handler on its way to its client.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use sluicegate_http::exchange::accounts::Direction;
use sluicegate_http::exchange::local::LocalExchange;
use sluicegate_http::exchange::message::{Head, cost};
use sluicegate_http::exchange::{Fields, Reply};

use crate::tcp::open_connections::ConnectionHandle;

/// Response of a handler, as far as the front has not taken it.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) head: Option<Result<Head, Reply>>,
    pub(super) blocks: VecDeque<Bytes>,
    pub(super) trailers: Option<Fields>,
    /// The handler has completed the response.
    pub(super) ended: bool,
    /// The front responds in place of the handler.
    pub(super) refused: bool,
    /// The response was not completed, so it must not look whole.
    pub(super) broken: bool,
    /// The front has the whole response and takes no more.
    pub(super) taken: bool,
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
            blocks: VecDeque::new(),
            trailers: None,
            ended: false,
            refused: false,
            broken: false,
            taken: false,
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

    /// Takes the first block, or as much of it as `most` bytes. Returns it with the credit that it gives back to the handler.
    pub(super) fn take_block(&mut self, most: usize) -> Option<(Bytes, u64)> {
        let mut block = self.blocks.pop_front()?;
        if block.len() <= most {
            let cost = cost(block.len());
            return Some((block, cost));
        }
        self.blocks.push_front(block.split_off(most));
        Some((block, most as u64))
    }

    /// Raises the memory of a direction that moves. Returns the further credit, bytes.
    pub(super) fn grow(&self, direction: Direction) -> u64 {
        let more = self.permit.as_ref().map_or(0, |permit| permit.grow(direction));
        if more > 0 {
            self.count();
        }
        more
    }

    /// Drops the blocks that were not taken, and gives their memory back. The response is broken off, unless the front responds
    /// itself.
    pub(super) fn release(&mut self) {
        self.broken |= !self.refused;
        self.blocks.clear();
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

    /// Returns whether the front responds in place of the handler, or has broken its response off.
    pub(super) fn is_refused(&self) -> bool {
        self.refused || self.broken
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.handle.reserve(self.counted.get(), 0);
    }
}
