//! Receive buffers that the kernel takes from a ring and gives back with completions.
#![expect(unsafe_code, reason = "the buffer ring is memory shared with the kernel")]

use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::IoUring;
use io_uring::types::BufRingEntry;

use super::region::Region;
use crate::addr::NAME_LEN;
use crate::control::CONTROL_LEN;
use crate::message::Message;
use crate::sys::RX_BUFFER;

/// `struct io_uring_recvmsg_out`: lengths of name, control and payload, and flags; four 32-bit words.
const OUT_LEN: usize = 16;
const CONTROL_AT: usize = OUT_LEN + NAME_LEN;
const PAYLOAD_AT: usize = CONTROL_AT + CONTROL_LEN;
/// One buffer, rounded up to cache lines.
const BUFFER: usize = (PAYLOAD_AT + RX_BUFFER).next_multiple_of(64);

/// [`BUFFER`] as the ring counts it.
#[expect(clippy::cast_possible_truncation, reason = "a little more than 64 KiB")]
const BUFFER_LEN: u32 = BUFFER as u32;

/// `struct io_uring_buf`: address, length and id of a buffer, and two bytes that in the first entry hold the tail.
const ADDRESS_AT: usize = 0;
const LENGTH_AT: usize = 8;
const ID_AT: usize = 12;
const _: () = assert!(size_of::<BufRingEntry>() == 16);

/// The kernel's limit on a buffer ring.
const MAX_BUFFERS: usize = 1 << 15;

pub(super) struct Buffers {
    entries: Region,
    payloads: Region,
    /// Per buffer, whether it is ours: between its completion and [`Buffers::put_back`]. Else it is the kernel's.
    ours: Box<[bool]>,
    tail: u16,
}

impl Buffers {
    /// Allocates `count` buffers, rounded up to a power of two; not yet known to any ring.
    pub(super) fn new(count: usize) -> io::Result<Self> {
        let count = count.clamp(1, MAX_BUFFERS).next_power_of_two();
        Ok(Self {
            entries: Region::new(count * size_of::<BufRingEntry>())?,
            payloads: Region::new(count * BUFFER)?,
            ours: vec![true; count].into_boxed_slice(),
            tail: 0,
        })
    }

    pub(super) fn count(&self) -> usize {
        self.ours.len()
    }

    /// Hands the ring over to `io` as buffer group `group`, with every buffer in it.
    ///
    /// # Safety
    /// `self` outlives every request of `io` that receives.
    pub(super) unsafe fn register(&mut self, io: &IoUring, group: u16) -> io::Result<()> {
        let count = self.len();
        // SAFETY: `entries` is page-aligned and has room for `count` entries; it lives long enough, as the caller
        // warrants.
        unsafe {
            io.submitter().register_buf_ring_with_flags(
                self.entries.at(0) as u64,
                count,
                group,
                0,
            )?;
        }
        for index in 0..count {
            self.put_back(index);
        }
        self.publish();
        Ok(())
    }

    fn len(&self) -> u16 {
        u16::try_from(self.ours.len()).unwrap_or(u16::MAX)
    }

    /// Takes over a buffer that a completion named. Returns false where there is none, or it is ours already.
    pub(super) fn take(&mut self, index: u16) -> bool {
        match self.ours.get_mut(usize::from(index)) {
            Some(ours) => !std::mem::replace(ours, true),
            None => false,
        }
    }

    /// Returns the message that the kernel wrote, `len` bytes with its own header; `None` where the buffer is not ours or makes no sense.
    pub(super) fn message(&mut self, index: u16, len: usize) -> Option<Message<'_>> {
        let index = usize::from(index);
        if !*self.ours.get(index)? {
            return None;
        }
        // SAFETY: the buffer is ours: the kernel returned it and will not use it before `put_back`.
        let whole = unsafe { self.payloads.piece(index * BUFFER, len.min(BUFFER)) };
        let (head, payload) = whole.split_at_mut_checked(PAYLOAD_AT)?;
        let word = |at: usize| {
            let bytes = head.get(at..).and_then(<[u8]>::first_chunk);
            bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
        };
        let (name, control) = (word(0) as usize, word(4) as usize);
        let flags = word(12).cast_signed();
        Some(Message {
            name: &head[OUT_LEN..OUT_LEN + name.min(NAME_LEN)],
            control: &head[CONTROL_AT..CONTROL_AT + control.min(CONTROL_LEN)],
            payload,
            truncated: flags & libc::MSG_TRUNC != 0,
        })
    }

    /// Returns a buffer to the kernel, which sees it after [`Buffers::publish`].
    pub(super) fn put_back(&mut self, index: u16) {
        let slot = usize::from(index);
        if !std::mem::replace(&mut self.ours[slot], false) {
            debug_assert!(false, "buffer {index} was returned twice");
            return;
        }
        let place = usize::from(self.tail & (self.len() - 1));
        let entry = self.entries.at(place * size_of::<BufRingEntry>());
        let address = self.payloads.at(slot * BUFFER) as u64;
        // SAFETY: `place` lies within the ring, which is aligned for its entries, and the fields lie within the entry. The
        // kernel reads only entries below the published tail, and this one is above it: a ring never has more entries than
        // buffers. Nothing is borrowed, because the last two bytes of the first entry are the tail.
        unsafe {
            entry.add(ADDRESS_AT).cast::<u64>().write(address);
            entry.add(LENGTH_AT).cast::<u32>().write(BUFFER_LEN);
            entry.add(ID_AT).cast::<u16>().write(index);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    /// Publishes the returned buffers to the kernel.
    pub(super) fn publish(&self) {
        // SAFETY: the first entry lies within the ring.
        let tail = unsafe { BufRingEntry::tail(self.entries.at(0).cast()) };
        // SAFETY: the tail is a properly aligned u16 that lives as long as the ring; the kernel only reads it.
        let tail = unsafe { AtomicU16::from_ptr(tail.cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }
}
