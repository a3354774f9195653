//! Receiving: multishot requests, the buffers that they filled, and arming them again. Each socket has buffers of its own,
//! so that one that is flooded leaves the others theirs.

use std::collections::VecDeque;
use std::io;

use super::completion::Completion;
use super::ring::Ring;
use super::socket::Socket;
use crate::counters::Counters;
use crate::event::Events;
use crate::meta::{Budget, RxMeta};

pub(super) struct Receiver {
    /// Receives are armed.
    receives: bool,
    /// Per socket, the filled buffers in the order of their completions; never more than it has buffers.
    queues: Box<[VecDeque<Filled>]>,
    /// Filled buffers of all sockets.
    waiting: usize,
    /// Socket that comes first next time.
    first: usize,
    /// Per socket, whether a request is under way.
    states: Box<[State]>,
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
    buffer: u16,
    /// Bytes written, with the kernel's header.
    len: usize,
}

impl Receiver {
    /// Makes one for `sockets` sockets with `buffers` buffers each.
    pub(super) fn new(sockets: usize, buffers: usize, receives: bool) -> Self {
        let queue = || VecDeque::with_capacity(buffers);
        Self {
            receives,
            queues: std::iter::repeat_with(queue).take(sockets).collect(),
            waiting: 0,
            first: 0,
            states: vec![State::Idle; sockets].into_boxed_slice(),
            refusal: None,
        }
    }

    /// Arms receives from now on, or none.
    pub(super) fn set_receives(&mut self, on: bool) {
        self.receives = on;
    }

    /// Returns whether it receives at all.
    pub(super) fn receives(&self) -> bool {
        self.receives
    }

    /// Returns the error with which the kernel refused multishot receives.
    pub(super) fn refusal(&self) -> Option<i32> {
        self.refusal
    }

    /// Returns the number of buffers that can be delivered.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
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
            (Ok(len), Some(buffer)) => {
                self.queues[socket].push_back(Filled { buffer, len });
                self.waiting += 1;
            }
            // It was ended on purpose.
            (Err(libc::ECANCELED), None) if !self.receives => {}
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
                    ring.buffers(socket).put_back(buffer);
                    ring.buffers(socket).publish();
                }
            }
        }
        false
    }

    /// Hands datagrams to `sink` until the budget is spent, and finished buffers back to the kernel. The sockets take turns,
    /// one buffer each. Returns the number of datagrams.
    pub(super) fn deliver(
        &mut self,
        ring: &mut Ring,
        sockets: &mut [Socket],
        counters: &mut Counters,
        events: &mut Events,
        mut budget: Budget,
        mut sink: impl FnMut(&RxMeta, &mut [u8]),
    ) -> io::Result<usize> {
        let before = budget.datagrams;
        let waited = self.waiting;
        while self.waiting > 0 {
            let socket = self.first;
            if let Some(filled) = self.queues[socket].front() {
                let buffers = ring.buffers(socket);
                if let Some(message) = buffers.message(filled.buffer, filled.len) {
                    let Socket { binding, ingress } = &mut sockets[socket];
                    if !ingress.deliver(message, binding, counters, events, &mut budget, &mut sink)
                    {
                        break;
                    }
                } else {
                    counters.rx_errors += 1;
                }
                buffers.put_back(filled.buffer);
                buffers.publish();
                self.queues[socket].pop_front();
                self.waiting -= 1;
            }
            self.first = (socket + 1) % self.queues.len();
        }
        if self.waiting < waited {
            self.arm(ring)?;
        }
        Ok(before - budget.datagrams)
    }

    /// Arms what has ended, unless the socket has no buffer left to receive into.
    pub(super) fn arm(&mut self, ring: &mut Ring) -> io::Result<()> {
        if !self.receives {
            return Ok(());
        }
        for (socket, state) in self.states.iter_mut().enumerate() {
            let room = self.queues[socket].len() < ring.buffers(socket).count();
            if *state == State::Idle && room {
                ring.receive(socket)?;
                *state = State::Armed;
            }
        }
        Ok(())
    }
}
