//! Transmit buffers and message headers, the kernel's from submission to completion.
#![expect(
    unsafe_code,
    reason = "the kernel reads headers and payloads through pointers while a send is under way"
)]

use std::io;
use std::ops::Range;

use super::region::Region;
use crate::addr::NAME_LEN;
use crate::batch::Batch;
use crate::control::CONTROL_LEN;
use crate::lanes::{BUFFER, Place};
use crate::sys;

/// Header, address and control data of a message, which `sendmsg` reads beside the payload.
#[repr(C, align(64))]
struct Head {
    header: libc::msghdr,
    iov: libc::iovec,
    name: [u8; NAME_LEN],
    control: Aligned,
}

#[repr(C, align(8))]
struct Aligned([u8; CONTROL_LEN]);

/// A message that the kernel has.
#[derive(Clone)]
struct Lent {
    /// Buffer and the bytes in it.
    place: Place,
    /// It completes in any case, and not only if it fails.
    completes: bool,
}

pub(super) struct Slots {
    heads: Region,
    payloads: Region,
    /// Per head, what the kernel reads from [`Slots::lend`] to [`Slots::take_back`].
    lent: Box<[Option<Lent>]>,
    buffers: usize,
}

impl Slots {
    pub(super) fn new(heads: usize, buffers: usize) -> io::Result<Self> {
        Ok(Self {
            heads: Region::new(heads * size_of::<Head>())?,
            payloads: Region::new(buffers * BUFFER)?,
            lent: vec![None; heads].into_boxed_slice(),
            buffers,
        })
    }

    /// Returns the number of heads: messages that can be under way.
    pub(super) fn heads(&self) -> usize {
        self.lent.len()
    }

    /// Returns the number of heads that are the kernel's and complete only if they fail.
    pub(super) fn silent(&self) -> usize {
        let lent = self.lent.iter().flatten();
        lent.filter(|lent| !lent.completes).count()
    }

    /// Borrows bytes of a buffer to write to, none of which the kernel has.
    pub(super) fn payload(&mut self, buffer: usize, range: Range<usize>) -> &mut [u8] {
        assert!(buffer < self.buffers && range.end <= BUFFER);
        let overlaps = |Lent { place, .. }: &Lent| {
            place.buffer == buffer && place.range.start < range.end && range.start < place.range.end
        };
        debug_assert!(!self.lent.iter().flatten().any(overlaps));
        // SAFETY: the kernel has none of these bytes: the lanes hand out only bytes behind those of every batch of the
        // buffer, or all of it when it has no batch and is not held. A batch ends only after the kernel gave its head back,
        // and one that is not copied holds the buffer until then.
        unsafe { self.payloads.piece(buffer * BUFFER + range.start, range.len()) }
    }

    /// Describes the next message of `batch` in a head, which belongs to the kernel and stays where it is until
    /// [`Slots::take_back`]. `completes`: it completes in any case, and not only if it fails.
    pub(super) fn lend(
        &mut self,
        head: usize,
        batch: &Batch,
        completes: bool,
    ) -> io::Result<*const libc::msghdr> {
        assert!(self.lent[head].is_none(), "head {head} is the kernel's");
        let place = Place { buffer: batch.buffer(), range: batch.range() };
        self.lent[head] = Some(Lent { place, completes });
        let place: *mut Head = self.heads.at(head * size_of::<Head>()).cast();
        let (name, control, range) = (batch.name(), batch.control(), batch.range());
        // SAFETY: within the region (`at` checks), aligned because the region begins at a page and `Head` is a multiple
        // of its alignment long, zeroed or written before, and not the kernel's.
        let place = unsafe { &mut *place };
        place.name[..name.len()].copy_from_slice(name);
        place.control.0[..control.len()].copy_from_slice(control);
        assert!(batch.buffer() < self.buffers && range.end <= BUFFER);
        place.iov = libc::iovec {
            // An empty datagram may begin at the end of the last buffer: its address is not used.
            iov_base: self
                .payloads
                .at(batch.buffer() * BUFFER + range.start.min(BUFFER - 1))
                .cast(),
            iov_len: range.len(),
        };
        let iov = &raw mut place.iov;
        let (name, control) = (&place.name[..name.len()], &place.control.0[..control.len()]);
        place.header = sys::message(name, control, iov)?;
        Ok(&raw const place.header)
    }

    /// Notes that the kernel is done with a head.
    pub(super) fn take_back(&mut self, head: usize) {
        debug_assert!(self.lent[head].is_some());
        self.lent[head] = None;
    }
}
