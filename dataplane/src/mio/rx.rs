//! Receiving: `recvmmsg` into buffers that GRO can fill.

use std::io;
use std::os::fd::AsFd;

use super::Socket;
use crate::sys::{Batch, Message};
use crate::{Counters, DriverOptions, RxMeta, addr, control};

/// More buffers per system call gain nothing.
const MAX_BATCH: usize = 16;

/// Failures in a row after which a socket has to wait for its next turn.
const MAX_ERRORS: u32 = 8;

pub(super) struct Receiver {
    batch: Batch,
    /// The socket that comes first next time, so that a busy one does not starve the others.
    first: usize,
}

/// What came of one system call.
enum Outcome {
    Received(usize),
    Empty,
    Failed,
}

impl Receiver {
    pub(super) fn new(options: &DriverOptions) -> Self {
        Self {
            batch: Batch::new(options.rx_buffers.clamp(1, MAX_BATCH)),
            first: 0,
        }
    }

    pub(super) fn receive(
        &mut self,
        sockets: &mut [Socket],
        counters: &mut Counters,
        budget: usize,
        mut sink: impl FnMut(&RxMeta, &mut [u8]),
    ) -> io::Result<usize> {
        let mut total = 0;
        let mut errors = 0;
        let mut idle = 0;
        while total < budget && idle < sockets.len() {
            self.first %= sockets.len();
            let socket = &mut sockets[self.first];
            if socket.readable && errors < MAX_ERRORS {
                match self.receive_from(socket, budget - total)? {
                    Outcome::Received(count) => {
                        total += count;
                        idle = 0;
                        self.deliver(socket, counters, count, &mut sink);
                    }
                    Outcome::Empty => {
                        socket.readable = false;
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
        Ok(total)
    }

    fn receive_from(&mut self, socket: &Socket, limit: usize) -> io::Result<Outcome> {
        match self.batch.receive(socket.binding.as_fd(), limit) {
            Ok(0) => Ok(Outcome::Empty),
            Ok(count) => Ok(Outcome::Received(count)),
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN) => Ok(Outcome::Empty),
                Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT) => Err(error),
                _ => Ok(Outcome::Failed),
            },
        }
    }

    fn deliver(
        &mut self,
        socket: &Socket,
        counters: &mut Counters,
        count: usize,
        sink: &mut impl FnMut(&RxMeta, &mut [u8]),
    ) {
        for index in 0..count {
            let Message {
                name,
                control,
                payload,
                truncated,
            } = self.batch.message(index);
            if truncated {
                counters.rx_truncated += 1;
                continue;
            }
            let Some(peer) = addr::decode(name) else {
                counters.rx_errors += 1;
                continue;
            };
            let received = control::parse(control);
            let meta = received.meta(&socket.binding, peer, payload.len());
            counters.on_received(&meta, payload.len());
            sink(&meta, payload);
        }
    }
}
