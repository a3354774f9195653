//! Transmit buffers with their message headers, the kernel's from submission to completion.
#![expect(
    unsafe_code,
    reason = "the kernel reads headers and payloads through pointers while a send is under way"
)]

use std::io;

use super::region::Region;
use crate::addr::NAME_LEN;
use crate::control::CONTROL_LEN;
use crate::egress::{MAX_TRANSMIT, Outgoing};
use crate::sys;

/// One payload: [`MAX_TRANSMIT`], rounded up to pages.
const PAYLOAD: usize = MAX_TRANSMIT.next_multiple_of(4096);

/// What `sendmsg` reads beside the payload.
#[repr(C, align(64))]
struct Head {
    header: libc::msghdr,
    iov: libc::iovec,
    name: [u8; NAME_LEN],
    control: Aligned,
}

#[repr(C, align(8))]
struct Aligned([u8; CONTROL_LEN]);

pub(super) struct Slots {
    heads: Region,
    payloads: Region,
    /// The kernel's, from [`Slots::lend`] to [`Slots::take_back`].
    lent: Box<[bool]>,
}

impl Slots {
    pub(super) fn new(count: usize) -> io::Result<Self> {
        Ok(Self {
            heads: Region::new(count * size_of::<Head>())?,
            payloads: Region::new(count * PAYLOAD)?,
            lent: vec![false; count].into_boxed_slice(),
        })
    }

    pub(super) fn count(&self) -> usize {
        self.lent.len()
    }

    /// The buffer to fill, of [`MAX_TRANSMIT`] bytes.
    pub(super) fn payload(&mut self, slot: usize) -> &mut [u8] {
        assert!(!self.lent[slot], "slot {slot} is the kernel's");
        // SAFETY: the kernel does not have the slot.
        unsafe { self.payloads.piece(slot * PAYLOAD, MAX_TRANSMIT) }
    }

    /// Describes the next message of `outgoing`, whose bytes are in the slot, and marks the slot as the kernel's. The
    /// header stays where it is until [`Slots::take_back`].
    pub(super) fn lend(
        &mut self,
        slot: usize,
        outgoing: &Outgoing,
    ) -> io::Result<*const libc::msghdr> {
        assert!(!self.lent[slot], "slot {slot} is the kernel's");
        let head: *mut Head = self.heads.at(slot * size_of::<Head>()).cast();
        let (name, control, range) = (outgoing.name(), outgoing.control(), outgoing.range());
        // SAFETY: within the region (`at` checks), aligned because the region begins at a page and `Head` is a multiple
        // of its alignment long, zeroed or written before, and not the kernel's.
        let head = unsafe { &mut *head };
        head.name[..name.len()].copy_from_slice(name);
        head.control.0[..control.len()].copy_from_slice(control);
        head.iov = libc::iovec {
            iov_base: self.payloads.at(slot * PAYLOAD + range.start).cast(),
            iov_len: range.len(),
        };
        let iov = &raw mut head.iov;
        let (name, control) = (&head.name[..name.len()], &head.control.0[..control.len()]);
        head.header = sys::message(name, control, iov)?;
        self.lent[slot] = true;
        Ok(&raw const head.header)
    }

    /// The kernel is done with the slot.
    pub(super) fn take_back(&mut self, slot: usize) {
        debug_assert!(self.lent[slot]);
        self.lent[slot] = false;
    }
}
