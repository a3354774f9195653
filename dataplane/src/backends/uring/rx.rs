//! Receiving: multishot requests, the buffers that they filled, and arming them again.

use std::collections::VecDeque;
use std::io;

use super::ring::{Completion, Ring};
use super::socket::Socket;
use crate::counters::Counters;
use crate::event::Events;
use crate::meta::{Budget, RxMeta};

pub(super) struct Receiver {
    /// Filled buffers in the order of their completions; never more than there are buffers.
    waiting: VecDeque<Filled>,
    /// Per socket, whether a request is under way.
    states: Box<[State]>,
    /// Socket that is armed first next time.
    first: usize,
    /// Error of a kernel that does not know multishot receives, which refuses the first.
    refusal: Option<i32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// No request is under way: arm it.
    Idle,
    /// A request is under way.
    Armed,
    /// The socket is broken.
    Down,
}

struct Filled {
    socket: usize,
    buffer: u16,
    /// Bytes written, with the kernel's header.
    len: usize,
}

impl Receiver {
    pub(super) fn new(sockets: usize, buffers: usize) -> Self {
        Self {
            waiting: VecDeque::with_capacity(buffers),
            states: vec![State::Idle; sockets].into_boxed_slice(),
            first: 0,
            refusal: None,
        }
    }

    /// Returns the error with which the kernel refused multishot receives.
    pub(super) fn refusal(&self) -> Option<i32> {
        self.refusal
    }

    /// Returns the number of buffers that can be delivered.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Takes a completion in. Returns whether the socket is broken.
    pub(super) fn on_completion(
        &mut self,
        socket: usize,
        completion: Completion,
        ring: &mut Ring,
        counters: &mut Counters,
    ) -> bool {
        if let (false, Some(state)) = (completion.more, self.states.get_mut(socket)) {
            *state = State::Idle;
        }
        match (completion.result, completion.buffer) {
            (Ok(len), Some(buffer)) => self.waiting.push_back(Filled {
                socket,
                buffer,
                len,
            }),
            (Err(libc::ENOBUFS), None) => counters.rx_buffers_exhausted += 1,
            (Err(libc::EBADF | libc::ENOTSOCK | libc::EFAULT), None) => {
                counters.rx_errors += 1;
                if let Some(state) = self.states.get_mut(socket) {
                    *state = State::Down;
                }
                return true;
            }
            (result, buffer) => {
                let refused = |code: &i32| matches!(*code, libc::EINVAL | libc::EOPNOTSUPP);
                self.refusal = result.err().filter(refused).or(self.refusal);
                counters.rx_errors += 1;
                if let Some(buffer) = buffer {
                    ring.buffers().put_back(buffer);
                    ring.buffers().publish();
                }
            }
        }
        false
    }

    /// Hands datagrams to `sink` until the budget is spent, and finished buffers back to the kernel. Returns the number of
    /// datagrams.
    pub(super) fn deliver(
        &mut self,
        ring: &mut Ring,
        sockets: &mut [Socket],
        (counters, events): (&mut Counters, &mut Events),
        mut budget: Budget,
        mut sink: impl FnMut(&RxMeta, &mut [u8]),
    ) -> io::Result<usize> {
        let before = budget.datagrams;
        let mut returned = false;
        while let Some(filled) = self.waiting.front() {
            if let Some(message) = ring.buffers().message(filled.buffer, filled.len) {
                let Socket { binding, ingress } = &mut sockets[filled.socket];
                let news = (&mut *counters, &mut *events);
                if !ingress.deliver(message, binding, news, &mut budget, &mut sink) {
                    break;
                }
            } else {
                counters.rx_errors += 1;
            }
            ring.buffers().put_back(filled.buffer);
            self.waiting.pop_front();
            returned = true;
        }
        if returned {
            ring.buffers().publish();
            self.arm(ring)?;
        }
        Ok(before - budget.datagrams)
    }

    /// Arms what has ended, unless no buffer is left to receive into. The sockets take turns to be first: one that is
    /// flooded takes all buffers that there are.
    pub(super) fn arm(&mut self, ring: &mut Ring) -> io::Result<()> {
        let idle = self.states.contains(&State::Idle);
        if !idle || self.waiting.len() == ring.buffers().count() {
            return Ok(());
        }
        for step in 0..self.states.len() {
            let socket = (self.first + step) % self.states.len();
            if self.states[socket] == State::Idle {
                ring.receive(socket)?;
                self.states[socket] = State::Armed;
            }
        }
        self.first = (self.first + 1) % self.states.len();
        Ok(())
    }
}
