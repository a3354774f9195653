//! Buffers: owned one by one, or in a batch.
#![expect(unsafe_code, reason = "bytes behind pointers of the library")]

use std::fmt;

use crate::ffi::{self, BURST, Frame};
use crate::port_ref::PortRef;

/// Room in front of the bytes of a new buffer, for headers.
#[must_use]
pub fn headroom() -> usize {
    // SAFETY: returns a constant.
    unsafe { ffi::sg_headroom() as usize }
}

/// Verification of a checksum by the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// The port did not look at it.
    Unknown,
    /// It is right.
    Good,
    /// It is wrong.
    Bad,
}

/// Checksums that a port is asked to write. The UDP checksum field holds that of the pseudo-header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxOffload {
    /// None: the frame is complete.
    None,
    /// Those of the IPv4 header, which has no options, and of UDP. Holds the length of the Ethernet header.
    Ipv4(u8),
    /// That of UDP in IPv6. Holds the length of the Ethernet header.
    Ipv6(u8),
}

/// A buffer with a frame. Dropped, it returns to its pool, which it keeps open. It stays on its thread:
///
/// ```compile_fail
/// fn send<T: Send>() {}
/// send::<sluicegate_dpdk::Mbuf>();
/// ```
pub struct Mbuf {
    frame: OwnedFrame,
    /// After the frame, which lies in the port's memory.
    port: PortRef,
}

/// A frame whose buffer is freed when it is dropped. Whoever holds it has a reference to the port.
struct OwnedFrame(Frame);

impl fmt::Debug for Mbuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mbuf({} bytes)", self.frame.0.len)
    }
}

impl Mbuf {
    /// Returns the bytes: of a received frame, or the room of a new buffer.
    #[must_use]
    pub fn bytes(&mut self) -> &mut [u8] {
        let Frame { data, len, .. } = self.frame.0;
        // SAFETY: `data` is the start of `len` bytes in the buffer, which this value owns; nobody else reads or writes
        // them. A pool's memory is zeroed when it is made, so all bytes have values.
        unsafe { std::slice::from_raw_parts_mut(data, len as usize) }
    }

    /// Keeps the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        self.frame.0.len = self.frame.0.len.min(len);
    }

    /// Takes `count` bytes of headroom in front of a new buffer's bytes. To be called once, with at most [`headroom`] bytes.
    ///
    /// # Panics
    /// The headroom is shorter, or was taken.
    pub fn prepend(&mut self, count: u8) {
        assert!(self.frame.0.flags == FRESH && usize::from(count) <= headroom(), "headroom");
        self.frame.0.flags = 0;
        // SAFETY: a new buffer has `headroom` bytes in front of its data, in the same allocation.
        self.frame.0.data = unsafe { self.frame.0.data.sub(usize::from(count)) };
        self.frame.0.len += u32::from(count);
    }

    /// Drops the first `count` bytes.
    ///
    /// # Panics
    /// There are fewer.
    pub fn skip(&mut self, count: usize) {
        let left = (self.frame.0.len as usize).checked_sub(count);
        let left = left.and_then(|left| u32::try_from(left).ok());
        self.frame.0.len = left.expect("as many bytes");
        // SAFETY: within the buffer, or at its end.
        self.frame.0.data = unsafe { self.frame.0.data.add(count) };
    }

    /// Asks the port to write checksums when the frame is sent.
    pub fn offload(&mut self, offload: TxOffload) {
        self.frame.0.flags = match offload {
            TxOffload::None => 0,
            TxOffload::Ipv4(l2) => ffi::TX_IPV4 | u32::from(l2) << ffi::TX_L2_SHIFT,
            TxOffload::Ipv6(l2) => ffi::TX_IPV6 | u32::from(l2) << ffi::TX_L2_SHIFT,
        };
    }

    /// Returns what the port found of the IPv4 header's and the UDP checksum of a received frame.
    #[must_use]
    pub fn checksums(&self) -> (Checksum, Checksum) {
        let of = |good, bad| match self.frame.0.flags {
            flags if flags & good != 0 => Checksum::Good,
            flags if flags & bad != 0 => Checksum::Bad,
            _ => Checksum::Unknown,
        };
        (of(ffi::RX_IP_GOOD, ffi::RX_IP_BAD), of(ffi::RX_UDP_GOOD, ffi::RX_UDP_BAD))
    }
}

impl Drop for OwnedFrame {
    fn drop(&mut self) {
        // SAFETY: the buffer is this value's, and it is freed once, here: whoever takes the frame out forgets the value. Its
        // pool is open, because the holder has a reference to the port.
        unsafe { ffi::sg_free(self.0.mbuf) };
    }
}

/// Mark of a new buffer whose headroom is free.
const FRESH: u32 = 1 << 31;

/// Up to [`BURST`] owned buffers of one port, first in, first out. It stays on its thread, as they do:
///
/// ```compile_fail
/// fn send<T: Send>() {}
/// send::<sluicegate_dpdk::Batch>();
/// ```
pub struct Batch {
    frames: [Frame; BURST],
    start: usize,
    end: usize,
    /// Port of the buffers, while there are any.
    port: Option<PortRef>,
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch({} of {BURST})", self.len())
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self { frames: [Frame::NONE; BURST], start: 0, end: 0, port: None }
    }
}

impl Batch {
    /// Returns the number of buffers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Returns whether [`Batch::push`] has no room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.len() == BURST
    }

    /// Appends a buffer, or returns it where the batch is full or has those of another port.
    pub fn push(&mut self, mbuf: Mbuf) -> Option<Mbuf> {
        if self.is_full() || !self.is_of(&mbuf.port) {
            return Some(mbuf);
        }
        if self.end == BURST {
            self.frames.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let Mbuf { frame, port } = mbuf;
        self.frames[self.end] = frame.0;
        self.end += 1;
        self.port.get_or_insert(port);
        // The batch owns it now.
        std::mem::forget(frame);
        None
    }

    /// Takes the oldest buffer.
    pub fn pop(&mut self) -> Option<Mbuf> {
        if self.is_empty() {
            return None;
        }
        let frame = OwnedFrame(self.frames[self.start]);
        self.start += 1;
        let port = if self.is_empty() { self.port.take() } else { self.port.clone() };
        port.map(|port| Mbuf { frame, port })
    }

    /// Returns whether buffers of this port may be in the batch.
    pub(crate) fn is_of(&self, port: &PortRef) -> bool {
        let own = self.port.as_ref();
        own.is_none_or(|own| own.is_same_port(port))
    }

    /// Refills an empty batch: `fill` writes frames of the port from the start and returns how many. It must pass on their
    /// ownership.
    pub(crate) fn refill(
        &mut self,
        port: &PortRef,
        mark: u32,
        fill: impl FnOnce(&mut [Frame; BURST]) -> u16,
    ) {
        debug_assert!(self.is_empty(), "the buffers in it would be lost");
        self.start = 0;
        self.end = usize::from(fill(&mut self.frames)).min(BURST);
        self.port = (!self.is_empty()).then(|| port.clone());
        for frame in &mut self.frames[..self.end] {
            frame.flags |= mark;
        }
    }

    /// Refills an empty batch with new buffers of the port.
    pub(crate) fn refill_fresh(
        &mut self,
        port: &PortRef,
        fill: impl FnOnce(&mut [Frame; BURST]) -> u16,
    ) {
        self.refill(port, FRESH, fill);
    }

    /// Passes the buffers to `consume`, which returns how many it took, from the first.
    pub(crate) fn consume(&mut self, consume: impl FnOnce(&[Frame]) -> u16) -> usize {
        let taken = usize::from(consume(&self.frames[self.start..self.end])).min(self.len());
        self.start += taken;
        if self.is_empty() {
            self.port = None;
        }
        taken
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}
