//! Receiving: multishot requests, the buffers that they filled, and arming them again.

use std::collections::VecDeque;
use std::io;

use super::buffers::Message;
use super::{Completion, Ring, Socket};
use crate::{Counters, RxMeta, addr, control};

pub(super) struct Receiver {
    /// Filled buffers in the order of their completions; never more than there are buffers.
    waiting: VecDeque<Filled>,
    /// Which sockets have a request under way.
    armed: Box<[bool]>,
    /// The kernel does not know multishot receives; it says so at once.
    refusal: Option<i32>,
}

struct Filled {
    socket: usize,
    buffer: u16,
    /// Bytes with the kernel's header.
    len: usize,
}

impl Receiver {
    pub(super) fn new(sockets: usize, buffers: usize) -> Self {
        Self {
            waiting: VecDeque::with_capacity(buffers),
            armed: vec![false; sockets].into_boxed_slice(),
            refusal: None,
        }
    }

    /// The error with which the kernel refused a receive as such.
    pub(super) fn refusal(&self) -> Option<i32> {
        self.refusal
    }

    /// Buffers that can be delivered.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn on_completion(
        &mut self,
        socket: usize,
        completion: Completion,
        ring: &mut Ring,
        counters: &mut Counters,
    ) -> io::Result<()> {
        if let (false, Some(armed)) = (completion.more, self.armed.get_mut(socket)) {
            *armed = false;
        }
        match (completion.result, completion.buffer) {
            (Ok(len), Some(buffer)) => {
                self.waiting.push_back(Filled {
                    socket,
                    buffer,
                    len,
                });
                return Ok(());
            }
            (Err(libc::ENOBUFS), None) => counters.rx_exhausted += 1,
            (Err(code @ (libc::EBADF | libc::ENOTSOCK | libc::EFAULT)), None) => {
                return Err(io::Error::from_raw_os_error(code));
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
        Ok(())
    }

    /// Hands up to `budget` buffers to `sink` and gives them back to the kernel.
    pub(super) fn deliver(
        &mut self,
        ring: &mut Ring,
        sockets: &[Socket],
        counters: &mut Counters,
        budget: usize,
        mut sink: impl FnMut(&RxMeta, &mut [u8]),
    ) -> io::Result<usize> {
        let count = budget.min(self.waiting.len());
        for filled in self.waiting.drain(..count) {
            match ring.buffers().message(filled.buffer, filled.len) {
                Some(message) if !message.truncated => {
                    pass(message, &sockets[filled.socket], counters, &mut sink);
                }
                Some(_) => counters.rx_truncated += 1,
                None => counters.rx_errors += 1,
            }
            ring.buffers().put_back(filled.buffer);
        }
        if count > 0 {
            ring.buffers().publish();
            self.arm(ring)?;
        }
        Ok(count)
    }

    /// Arms what has ended, unless no buffer is left to receive into.
    pub(super) fn arm(&mut self, ring: &mut Ring) -> io::Result<()> {
        if self.waiting.len() == ring.buffers().count() {
            return Ok(());
        }
        for (socket, armed) in self.armed.iter_mut().enumerate() {
            if !*armed {
                ring.receive(socket)?;
                *armed = true;
            }
        }
        Ok(())
    }
}

fn pass(
    message: Message<'_>,
    socket: &Socket,
    counters: &mut Counters,
    sink: &mut impl FnMut(&RxMeta, &mut [u8]),
) {
    let Some(peer) = addr::decode(message.name) else {
        counters.rx_errors += 1;
        return;
    };
    let received = control::parse(message.control);
    let meta = received.meta(&socket.binding, peer, message.payload.len());
    counters.on_received(&meta, message.payload.len());
    sink(&meta, message.payload);
}
