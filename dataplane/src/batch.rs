//! One GSO batch, or one datagram, on its way out: the messages that the kernel takes, fallbacks, the outcome.

use std::ops::Range;

use crate::addr::{self, NAME_LEN};
use crate::control::Control;
use crate::counters::Counters;
use crate::event::{Event, Events};
use crate::meta::{ListenerId, TxMeta, datagrams};

/// Largest UDP payload over IPv4, bytes; a GSO batch is bound by it as a whole.
pub(crate) const MAX_TRANSMIT: usize = 65_507;

/// Most datagrams in a GSO batch: `UDP_MAX_SEGMENTS` of every kernel with GSO; newer ones take more.
pub(crate) const MAX_SEGMENTS: usize = 64;

/// Datagrams that a socket sends one by one after GSO was refused, before it probes again. Doubles with each refusal.
const FIRST_PAUSE: u32 = 1024;
const LONGEST_PAUSE: u32 = 1 << 20;

/// Whether a socket sends GSO batches.
#[derive(Debug)]
pub(crate) struct Gso {
    supported: bool,
    /// Datagrams to be sent one by one before GSO is tried again.
    pause: u32,
    next_pause: u32,
}

impl Gso {
    pub(crate) fn new(supported: bool) -> Self {
        Self { supported, pause: 0, next_pause: FIRST_PAUSE }
    }

    /// Returns whether batches may be made now.
    pub(crate) fn is_usable(&self) -> bool {
        self.supported && self.pause == 0
    }

    /// Begins a pause. Batches that were closed before it are refused, too, and do not lengthen it.
    fn on_refused(&mut self) {
        if self.pause > 0 {
            return;
        }
        self.pause = self.next_pause;
        self.next_pause = LONGEST_PAUSE.min(self.next_pause * 2);
    }

    fn on_sent(&mut self, datagrams: u64) {
        if datagrams > 1 {
            self.next_pause = FIRST_PAUSE;
        } else {
            self.pause = self.pause.saturating_sub(1);
        }
    }
}

/// State that sending changes beside the batch.
pub(crate) struct Effects<'a> {
    pub(crate) gso: &'a mut Gso,
    pub(crate) counters: &'a mut Counters,
    pub(crate) events: &'a mut Events,
}

/// State of a batch after an attempt to send.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The batch is not finished, and its next message can be sent.
    Ready,
    /// It waits for room in the kernel.
    Blocked,
    /// It was sent, or dropped and counted.
    Finished,
    /// It was dropped and counted, and the socket is broken.
    SocketDown,
}

/// Place of a batch's bytes and their division into datagrams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Index of the transmit buffer.
    pub(crate) buffer: usize,
    /// Offset of the first byte in the buffer.
    pub(crate) start: usize,
    /// Bytes of all datagrams.
    pub(crate) len: usize,
    /// Size of each datagram but the last, which may be shorter.
    pub(crate) segment: usize,
}

/// A closed batch. The driver keeps the bytes, this keeps the rest.
#[derive(Debug)]
pub(crate) struct Batch {
    listener: ListenerId,
    meta: TxMeta,
    layout: Layout,
    name: [u8; NAME_LEN],
    name_len: usize,
    control: Control,
    /// Bytes of the message sent next, counted from the start of the batch.
    range: Range<usize>,
    /// The message sent next is one that the kernel cuts.
    cut: bool,
    /// Datagram by datagram, because GSO was refused.
    singly: bool,
    /// GSO was refused with an error that the datagrams' size may have caused.
    doubtful: bool,
    sent: bool,
    failed: bool,
}

impl Batch {
    pub(crate) fn new(listener: ListenerId, meta: TxMeta, layout: Layout) -> Self {
        let mut name = [0; NAME_LEN];
        let name_len = addr::encode(&meta.peer, &mut name);
        let mut batch = Self {
            listener,
            meta,
            layout,
            name,
            name_len,
            control: Control::new(),
            range: 0..0,
            cut: false,
            singly: false,
            doubtful: false,
            sent: false,
            failed: false,
        };
        batch.plan(0);
        batch
    }

    /// Returns the index of the transmit buffer.
    pub(crate) fn buffer(&self) -> usize {
        self.layout.buffer
    }

    /// Returns whether any of its messages left.
    pub(crate) fn was_sent(&self) -> bool {
        self.sent
    }

    pub(crate) fn name(&self) -> &[u8] {
        &self.name[..self.name_len]
    }

    pub(crate) fn control(&self) -> &[u8] {
        self.control.as_slice()
    }

    /// Returns the range of the transmit buffer that the next message has.
    pub(crate) fn range(&self) -> Range<usize> {
        self.layout.start + self.range.start..self.layout.start + self.range.end
    }

    /// Records that the kernel took the message.
    pub(crate) fn on_sent(&mut self, effects: &mut Effects<'_>) -> Progress {
        self.sent = true;
        let datagrams = datagrams(self.range.len(), self.layout.segment);
        effects.gso.on_sent(datagrams);
        effects.counters.tx_datagrams += datagrams;
        effects.counters.tx_bytes += self.range.len() as u64;
        self.advance(effects)
    }

    /// Records that the kernel refused the message with `code`.
    pub(crate) fn on_error(&mut self, code: i32, effects: &mut Effects<'_>) -> Progress {
        let (listener, peer) = (self.listener, self.meta.peer);
        match code {
            libc::EAGAIN => return Progress::Blocked,
            libc::EINTR => return Progress::Ready,
            libc::EBADF | libc::ENOTSOCK | libc::EFAULT | libc::ENETDOWN => {
                effects.counters.tx_errors += 1;
                return Progress::SocketDown;
            }
            // EIO: the route's device can't compute checksums (udp(7)). EINVAL: a kernel without GSO, or datagrams too
            // large for the path; sending them one by one tells which.
            libc::EIO | libc::EOPNOTSUPP | libc::EINVAL if self.cut => {
                self.singly = true;
                self.doubtful = code == libc::EINVAL;
                if !self.doubtful {
                    effects.gso.on_refused();
                }
                effects.counters.tx_gso_fallbacks += 1;
                self.plan(self.range.start);
                return Progress::Ready;
            }
            // The others of the batch do not fit, either.
            libc::EMSGSIZE if !self.failed => {
                let size = self.range.len().min(self.layout.segment);
                let event = Event::TooBig { listener, peer, size };
                effects.events.push(event, effects.counters);
            }
            libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ECONNREFUSED | libc::EHOSTDOWN => {
                let event = Event::Unreachable { listener, peer };
                effects.events.push(event, effects.counters);
            }
            _ => {}
        }
        self.failed = true;
        self.advance(effects)
    }

    fn advance(&mut self, effects: &mut Effects<'_>) -> Progress {
        if self.range.end < self.layout.len {
            self.plan(self.range.end);
            return Progress::Ready;
        }
        if self.doubtful && !self.failed {
            effects.gso.on_refused();
        }
        effects.counters.tx_messages += u64::from(self.sent);
        effects.counters.tx_errors += u64::from(self.failed);
        Progress::Finished
    }

    /// Plans the message that begins at `start`: the rest, or one datagram where GSO was refused.
    fn plan(&mut self, start: usize) {
        let rest = self.layout.len - start;
        let segment = self.layout.segment;
        let len = if self.singly { rest.min(segment) } else { rest };
        self.range = start..start + len;
        self.cut = len > segment;
        let size = u16::try_from(segment).ok().filter(|_| self.cut);
        self.control.describe(&self.meta, size);
    }
}

#[cfg(test)]
mod tests;
