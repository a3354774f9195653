//! Sending: one `sendmsg` per buffer, cut into datagrams by the kernel.

use std::io;
use std::os::fd::AsFd;

use super::Socket;
use crate::egress::{MAX_TRANSMIT, Outgoing, Progress};
use crate::{Counters, Transmitted, TxMeta, sys};

pub(super) struct Transmitter {
    buffer: Box<[u8]>,
    /// What the kernel had no room for: the first to go, and its bytes are still in the buffer.
    pending: Option<Outgoing>,
    /// Room was reported since.
    writable: bool,
}

impl Transmitter {
    pub(super) fn new() -> Self {
        Self {
            buffer: vec![0; MAX_TRANSMIT].into_boxed_slice(),
            pending: None,
            writable: false,
        }
    }

    /// The socket that has no room, until it was reported to have some.
    pub(super) fn blocked(&self) -> Option<usize> {
        self.pending.as_ref().map(|pending| pending.socket)
    }

    /// A blocked transmission can go on.
    pub(super) fn can_go_on(&self) -> bool {
        self.pending.is_some() && self.writable
    }

    pub(super) fn on_writable(&mut self, socket: usize) {
        self.writable |= self.blocked() == Some(socket);
    }

    pub(super) fn transmit(
        &mut self,
        sockets: &mut [Socket],
        counters: &mut Counters,
        budget: usize,
        mut fill: impl FnMut(&mut [u8]) -> Option<TxMeta>,
    ) -> io::Result<Transmitted> {
        let mut transmitted = Transmitted::default();
        if let Some(pending) = self.pending.take() {
            self.send(sockets, counters, pending)?;
        }
        while self.pending.is_none() && transmitted.buffers < budget {
            let Some(meta) = fill(&mut self.buffer) else {
                break;
            };
            transmitted.buffers += 1;
            let socket = sockets
                .iter()
                .position(|s| s.binding.listener() == meta.listener);
            match socket {
                Some(index) if meta.len <= self.buffer.len() => {
                    let outgoing = Outgoing::new(meta, index, sockets[index].gso, counters);
                    self.send(sockets, counters, outgoing)?;
                }
                _ => counters.tx_errors += 1,
            }
        }
        transmitted.blocked = self.pending.is_some();
        Ok(transmitted)
    }

    /// Sends all of it, or keeps the rest.
    fn send(
        &mut self,
        sockets: &mut [Socket],
        counters: &mut Counters,
        mut outgoing: Outgoing,
    ) -> io::Result<()> {
        let socket = &mut sockets[outgoing.socket];
        loop {
            let sent = sys::send(
                socket.binding.as_fd(),
                outgoing.name(),
                outgoing.control(),
                &self.buffer[outgoing.range()],
            );
            let progress = match sent {
                Ok(_) => outgoing.on_sent(&mut socket.gso, counters),
                Err(error) => outgoing.on_error(error, &mut socket.gso, counters),
            };
            match progress {
                Progress::Ready => {}
                Progress::Finished => return Ok(()),
                Progress::Broken(error) => return Err(error),
                Progress::Blocked => {
                    self.pending = Some(outgoing);
                    self.writable = false;
                    return Ok(());
                }
            }
        }
    }
}
