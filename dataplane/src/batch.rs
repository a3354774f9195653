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
        Self {
            supported,
            pause: 0,
            next_pause: FIRST_PAUSE,
        }
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
                let event = Event::TooBig {
                    listener,
                    peer,
                    size,
                };
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
mod tests {
    use super::*;
    use crate::meta::Ecn;

    /// A batch with everything that it changes.
    struct Rig {
        batch: Batch,
        gso: Gso,
        counters: Counters,
        events: Events,
    }

    const LISTENER: ListenerId = ListenerId(3);

    impl Rig {
        fn new(len: usize, segment: usize) -> Self {
            Self {
                batch: batch(len, segment),
                gso: Gso::new(true),
                counters: Counters::default(),
                events: Events::new(),
            }
        }

        fn with(
            &mut self,
            step: impl FnOnce(&mut Batch, &mut Effects<'_>) -> Progress,
        ) -> Progress {
            let mut effects = Effects {
                gso: &mut self.gso,
                counters: &mut self.counters,
                events: &mut self.events,
            };
            step(&mut self.batch, &mut effects)
        }

        fn refuse(&mut self, code: i32) -> Progress {
            self.with(|batch, effects| batch.on_error(code, effects))
        }

        /// Sends everything and returns the lengths of the messages.
        fn drain(&mut self) -> Vec<usize> {
            let mut lens = Vec::new();
            for _ in 0..1000 {
                lens.push(self.batch.range().len());
                if self.with(Batch::on_sent) == Progress::Finished {
                    return lens;
                }
            }
            panic!("never finished");
        }
    }

    fn peer() -> std::net::SocketAddr {
        "127.0.0.1:9".parse().unwrap()
    }

    fn batch(len: usize, segment: usize) -> Batch {
        let meta = TxMeta {
            peer: peer(),
            local: None,
            ecn: Ecn::NotCapable,
            departure: None,
        };
        let layout = Layout {
            buffer: 0,
            start: 100,
            len,
            segment,
        };
        Batch::new(LISTENER, meta, layout)
    }

    #[test]
    fn a_batch_is_one_message() {
        let mut rig = Rig::new(32_000, 500);
        assert_eq!(rig.batch.range(), 100..32_100);
        assert_eq!(rig.drain(), [32_000]);
        assert_eq!(
            (rig.counters.tx_messages, rig.counters.tx_datagrams),
            (1, 64)
        );
        assert_eq!(rig.counters.tx_bytes, 32_000);
    }

    #[test]
    fn an_empty_datagram_is_one_message() {
        let mut rig = Rig::new(0, 0);
        assert_eq!(rig.drain(), [0]);
        assert_eq!(
            (rig.counters.tx_messages, rig.counters.tx_datagrams),
            (1, 1)
        );
    }

    #[test]
    fn gso_that_the_device_refuses_is_probed_again_later() {
        let mut rig = Rig::new(3000, 1000);
        assert_eq!(rig.refuse(libc::EIO), Progress::Ready);
        assert_eq!(rig.drain(), [1000, 1000, 1000]);
        assert!(!rig.gso.is_usable());
        assert_eq!(rig.counters.tx_gso_fallbacks, 1);
        for _ in 0..FIRST_PAUSE {
            assert!(!rig.gso.is_usable() || rig.counters.tx_datagrams > 1000);
            rig.batch = batch(1000, 1000);
            rig.drain();
        }
        assert!(rig.gso.is_usable());
        // Refused again, it is left alone for longer; a batch that passes shortens the pause again.
        rig.batch = batch(3000, 1000);
        let _ = rig.refuse(libc::EIO);
        assert_eq!(rig.gso.pause, 2 * FIRST_PAUSE);
        rig.gso.pause = 0;
        rig.batch = batch(3000, 1000);
        rig.drain();
        rig.batch = batch(3000, 1000);
        let _ = rig.refuse(libc::EIO);
        assert_eq!(rig.gso.pause, FIRST_PAUSE);
    }

    #[test]
    fn refusals_of_batches_from_before_the_pause_do_not_lengthen_it() {
        let mut rig = Rig::new(3000, 1000);
        for _ in 0..12 {
            rig.batch = batch(3000, 1000);
            let _ = rig.refuse(libc::EIO);
        }
        assert_eq!(
            (rig.gso.pause, rig.gso.next_pause),
            (FIRST_PAUSE, 2 * FIRST_PAUSE)
        );
    }

    #[test]
    fn datagrams_too_large_for_the_path_do_not_count_against_gso() {
        let mut rig = Rig::new(3000, 1500);
        let _ = rig.refuse(libc::EINVAL);
        assert_eq!(rig.refuse(libc::EMSGSIZE), Progress::Ready);
        assert_eq!(rig.refuse(libc::EMSGSIZE), Progress::Finished);
        assert!(rig.gso.is_usable());
        assert_eq!((rig.counters.tx_errors, rig.counters.tx_messages), (1, 0));
        let too_big = Event::TooBig {
            listener: LISTENER,
            peer: peer(),
            size: 1500,
        };
        assert_eq!(rig.events.take(), Some(too_big));
        assert_eq!(rig.events.take(), None);
    }

    #[test]
    fn gso_refused_where_single_datagrams_pass_is_paused() {
        let mut rig = Rig::new(2000, 1000);
        let _ = rig.refuse(libc::EINVAL);
        rig.drain();
        assert!(!rig.gso.is_usable());
    }

    #[test]
    fn a_full_socket_keeps_the_batch() {
        let mut rig = Rig::new(100, 100);
        assert_eq!(rig.refuse(libc::EAGAIN), Progress::Blocked);
        assert_eq!(rig.batch.range(), 100..200);
        assert_eq!(rig.counters, Counters::default());
    }

    #[test]
    fn an_unreachable_peer_is_reported_and_its_batch_dropped() {
        let mut rig = Rig::new(2000, 1000);
        assert_eq!(rig.refuse(libc::EHOSTUNREACH), Progress::Finished);
        let unreachable = Event::Unreachable {
            listener: LISTENER,
            peer: peer(),
        };
        assert_eq!(rig.events.take(), Some(unreachable));
        assert_eq!(rig.counters.tx_errors, 1);
    }
}
