//! Receiving: `recvmmsg` into buffers that GRO can fill.

use std::os::fd::AsFd;

use super::socket::Socket;
use crate::counters::Counters;
use crate::event::{Event, Events};
use crate::meta::{Budget, RxMeta};
use crate::options::DriverOptions;
use crate::sys::Messages;

/// More buffers per system call gain nothing.
const MAX_BATCH: usize = 16;

/// Failures of a call after which the remaining sockets wait for the next call.
const MAX_ERRORS: u32 = 8;

pub(super) struct Receiver {
    messages: Messages,
    /// Socket that the messages came from.
    socket: usize,
    /// Messages passed on, of `count` received.
    next: usize,
    count: usize,
    /// Socket that comes first next time, so that a busy one does not starve the others.
    first: usize,
}

/// Outcome of one system call.
enum Outcome {
    Received,
    Empty,
    Failed,
}

impl Receiver {
    pub(super) fn new(options: &DriverOptions) -> Self {
        Self {
            messages: Messages::new(options.rx_buffers.clamp(1, MAX_BATCH)),
            socket: 0,
            next: 0,
            count: 0,
            first: 0,
        }
    }

    /// Returns whether received messages wait for a budget.
    pub(super) fn is_pending(&self) -> bool {
        self.next < self.count
    }

    pub(super) fn receive(
        &mut self,
        sockets: &mut [Socket],
        counters: &mut Counters,
        events: &mut Events,
        mut budget: Budget,
        mut sink: impl FnMut(&RxMeta, &mut [u8]),
    ) -> usize {
        let before = budget.datagrams;
        let mut errors = 0;
        let mut idle = 0;
        self.deliver(sockets, counters, events, &mut budget, &mut sink);
        while !budget.is_spent() && idle < sockets.len() {
            self.first %= sockets.len();
            if sockets[self.first].readable && errors < MAX_ERRORS {
                match self.receive_from(self.first, sockets, budget, counters, events) {
                    Outcome::Received => {
                        idle = 0;
                        self.deliver(sockets, counters, events, &mut budget, &mut sink);
                    }
                    Outcome::Empty => {
                        sockets[self.first].readable = false;
                        idle += 1;
                    }
                    Outcome::Failed => {
                        counters.rx_errors += 1;
                        errors += 1;
                    }
                }
            } else {
                idle += 1;
            }
            self.first += 1;
        }
        before - budget.datagrams
    }

    fn receive_from(
        &mut self,
        index: usize,
        sockets: &mut [Socket],
        budget: Budget,
        counters: &mut Counters,
        events: &mut Events,
    ) -> Outcome {
        let socket = &mut sockets[index];
        match self.messages.receive(socket.binding.as_fd(), budget.datagrams) {
            Ok(0) => Outcome::Empty,
            Ok(count) => {
                // Fewer than there was room for: the kernel found no more, and what comes later is an edge.
                socket.readable = count == budget.datagrams.min(self.messages.len());
                (self.socket, self.next, self.count) = (index, 0, count);
                Outcome::Received
            }
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN) => Outcome::Empty,
                Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT) => {
                    if !std::mem::replace(&mut socket.down, true) {
                        let listener = socket.binding.listener();
                        events.push(Event::PortDown { listener }, counters);
                    }
                    Outcome::Empty
                }
                _ => Outcome::Failed,
            },
        }
    }

    /// Hands over what was received, as far as the budget goes.
    fn deliver(
        &mut self,
        sockets: &mut [Socket],
        counters: &mut Counters,
        events: &mut Events,
        budget: &mut Budget,
        sink: &mut impl FnMut(&RxMeta, &mut [u8]),
    ) {
        while self.next < self.count {
            let Socket { binding, ingress, .. } = &mut sockets[self.socket];
            let message = self.messages.message(self.next);
            if !ingress.deliver(message, binding, counters, events, budget, sink) {
                return;
            }
            self.next += 1;
        }
    }
}
