//! One filled buffer on its way out: cut into the messages that the kernel takes, retried, given up.

use std::io;
use std::ops::Range;

use crate::addr::{self, NAME_LEN};
use crate::control::Control;
use crate::meta::datagrams;
use crate::{Counters, TxMeta};

/// Largest UDP payload over IPv4; GSO is bound by it as a whole.
pub(crate) const MAX_TRANSMIT: usize = 65_507;

/// `UDP_MAX_SEGMENTS` of every kernel with GSO; newer ones take more.
const MAX_SEGMENTS: usize = 64;

/// What a buffer waits for.
#[derive(Debug)]
pub(crate) enum Progress {
    /// Nothing: its next message can be sent.
    Ready,
    /// Room in the kernel.
    Blocked,
    /// It was sent, or given up and counted.
    Finished,
    /// The socket is of no use any more.
    Broken(io::Error),
}

/// A filled buffer. The driver keeps the bytes, this keeps the rest.
#[derive(Debug)]
pub(crate) struct Outgoing {
    meta: TxMeta,
    /// Index of the driver's socket.
    pub(crate) socket: usize,
    name: [u8; NAME_LEN],
    name_len: usize,
    control: Control,
    /// Of the message sent next.
    range: Range<usize>,
    /// The message sent next is one that the kernel cuts.
    train: bool,
    /// Datagram by datagram, because GSO was refused.
    singly: bool,
    /// GSO was refused with an error that may as well be the datagrams' own fault.
    doubtful: bool,
    sent: bool,
    failed: bool,
}

impl Outgoing {
    /// `gso`: what the socket can do now.
    pub(crate) fn new(meta: TxMeta, socket: usize, gso: bool, counters: &mut Counters) -> Self {
        let singly = !gso && meta.datagrams() > 1;
        counters.tx_gso_fallbacks += u64::from(singly);
        let mut name = [0; NAME_LEN];
        let name_len = addr::encode(&meta.peer, &mut name);
        let mut outgoing = Self {
            meta,
            socket,
            name,
            name_len,
            control: Control::new(),
            range: 0..0,
            train: false,
            singly,
            doubtful: false,
            sent: false,
            failed: false,
        };
        outgoing.cut(0);
        outgoing
    }

    pub(crate) fn name(&self) -> &[u8] {
        &self.name[..self.name_len]
    }

    pub(crate) fn control(&self) -> &[u8] {
        self.control.as_slice()
    }

    /// Which bytes of the buffer the next message has.
    pub(crate) fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// The kernel took the message. `gso` is the socket's, turned off where it proved useless.
    pub(crate) fn on_sent(&mut self, gso: &mut bool, counters: &mut Counters) -> Progress {
        self.sent = true;
        counters.tx_datagrams += datagrams(self.range.len(), self.meta.segment);
        counters.tx_bytes += self.range.len() as u64;
        self.advance(gso, counters)
    }

    /// The kernel refused the message. `gso` as with [`Outgoing::on_sent`].
    pub(crate) fn on_error(
        &mut self,
        error: io::Error,
        gso: &mut bool,
        counters: &mut Counters,
    ) -> Progress {
        let code = error.raw_os_error().unwrap_or(0);
        match code {
            libc::EAGAIN => Progress::Blocked,
            libc::EINTR => Progress::Ready,
            libc::EBADF | libc::ENOTSOCK | libc::EFAULT => Progress::Broken(error),
            // EIO: the route's device can't compute checksums (udp(7)), which won't mend. EINVAL: a kernel without
            // GSO, or datagrams too large for the path; sending them one by one tells which.
            libc::EIO | libc::EOPNOTSUPP | libc::EINVAL if self.train => {
                self.singly = true;
                self.doubtful = code == libc::EINVAL;
                *gso &= self.doubtful;
                counters.tx_gso_fallbacks += 1;
                self.cut(self.range.start);
                Progress::Ready
            }
            _ => {
                self.failed = true;
                self.advance(gso, counters)
            }
        }
    }

    fn advance(&mut self, gso: &mut bool, counters: &mut Counters) -> Progress {
        if self.range.end < self.meta.len {
            self.cut(self.range.end);
            return Progress::Ready;
        }
        if self.doubtful && !self.failed {
            *gso = false;
        }
        counters.tx_buffers += u64::from(self.sent);
        counters.tx_errors += u64::from(self.failed);
        Progress::Finished
    }

    /// Plans the message that begins at `start`.
    fn cut(&mut self, start: usize) {
        let rest = self.meta.len - start;
        let segment = if self.meta.segment == 0 {
            rest
        } else {
            self.meta.segment
        };
        let most = if self.singly {
            segment
        } else {
            segment * MAX_SEGMENTS
        };
        let len = rest.min(most);
        self.range = start..start + len;
        self.train = len > segment;
        let size = u16::try_from(segment).ok().filter(|_| self.train);
        self.control.describe(&self.meta, size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ecn, ListenerId};

    fn meta(len: usize, segment: usize) -> TxMeta {
        TxMeta {
            listener: ListenerId(0),
            peer: "127.0.0.1:9".parse().unwrap(),
            local: None,
            ecn: Ecn::NotCapable,
            len,
            segment,
        }
    }

    fn refusal(code: i32) -> io::Error {
        io::Error::from_raw_os_error(code)
    }

    /// Sends everything and returns the lengths of the messages.
    fn drain(outgoing: &mut Outgoing, gso: &mut bool, counters: &mut Counters) -> Vec<usize> {
        let mut lens = Vec::new();
        for _ in 0..1000 {
            lens.push(outgoing.range().len());
            if matches!(outgoing.on_sent(gso, counters), Progress::Finished) {
                return lens;
            }
        }
        panic!("never finished");
    }

    #[test]
    fn a_train_goes_in_messages_of_64_datagrams() {
        let (mut counters, mut gso) = (Counters::default(), true);
        let mut outgoing = Outgoing::new(meta(65_000, 500), 0, gso, &mut counters);
        let lens = drain(&mut outgoing, &mut gso, &mut counters);
        assert_eq!(lens, [32_000, 32_000, 1000]);
        assert_eq!((counters.tx_buffers, counters.tx_datagrams), (1, 130));
        assert_eq!(counters.tx_bytes, 65_000);
    }

    #[test]
    fn an_empty_datagram_is_one_message() {
        let (mut counters, mut gso) = (Counters::default(), true);
        let mut outgoing = Outgoing::new(meta(0, 0), 0, gso, &mut counters);
        assert_eq!(drain(&mut outgoing, &mut gso, &mut counters), [0]);
        assert_eq!((counters.tx_buffers, counters.tx_datagrams), (1, 1));
    }

    #[test]
    fn gso_that_the_device_refuses_is_not_tried_again() {
        let (mut counters, mut gso) = (Counters::default(), true);
        let mut outgoing = Outgoing::new(meta(2500, 1000), 0, gso, &mut counters);
        let progress = outgoing.on_error(refusal(libc::EIO), &mut gso, &mut counters);
        assert!(matches!(progress, Progress::Ready));
        assert!(!gso);
        let lens = drain(&mut outgoing, &mut gso, &mut counters);
        assert_eq!(lens, [1000, 1000, 500]);
        assert_eq!((counters.tx_gso_fallbacks, counters.tx_errors), (1, 0));
        let mut next = Outgoing::new(meta(2000, 1000), 0, gso, &mut counters);
        let lens = drain(&mut next, &mut gso, &mut counters);
        assert_eq!((lens, counters.tx_gso_fallbacks), (vec![1000, 1000], 2));
    }

    #[test]
    fn datagrams_too_large_for_the_path_do_not_cost_gso() {
        let (mut counters, mut gso) = (Counters::default(), true);
        let mut outgoing = Outgoing::new(meta(2000, 1000), 0, gso, &mut counters);
        let _ = outgoing.on_error(refusal(libc::EINVAL), &mut gso, &mut counters);
        let _ = outgoing.on_error(refusal(libc::EMSGSIZE), &mut gso, &mut counters);
        let progress = outgoing.on_error(refusal(libc::EMSGSIZE), &mut gso, &mut counters);
        assert!(matches!(progress, Progress::Finished));
        assert!(gso);
        assert_eq!((counters.tx_errors, counters.tx_buffers), (1, 0));
    }

    #[test]
    fn gso_refused_where_single_datagrams_pass_is_turned_off() {
        let (mut counters, mut gso) = (Counters::default(), true);
        let mut outgoing = Outgoing::new(meta(2000, 1000), 0, gso, &mut counters);
        let _ = outgoing.on_error(refusal(libc::EINVAL), &mut gso, &mut counters);
        drain(&mut outgoing, &mut gso, &mut counters);
        assert!(!gso);
    }

    #[test]
    fn a_full_socket_keeps_the_buffer() {
        let (mut counters, mut gso) = (Counters::default(), true);
        let mut outgoing = Outgoing::new(meta(100, 100), 0, gso, &mut counters);
        let progress = outgoing.on_error(refusal(libc::EAGAIN), &mut gso, &mut counters);
        assert!(matches!(progress, Progress::Blocked));
        assert_eq!(outgoing.range(), 0..100);
        assert_eq!(counters, Counters::default());
    }
}
