//! Memory that is shared with the kernel.
#![expect(unsafe_code, reason = "memory shared with the kernel must not be borrowed as a whole")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::io;
use std::ptr::NonNull;

/// Alignment, bytes: a buffer ring has to begin at a page.
const PAGE: usize = 4096;

/// Zeroed memory at a fixed place. Slices of it are borrowed piece by piece, so that the kernel may hold other pieces.
pub(super) struct Region {
    start: NonNull<u8>,
    layout: Layout,
}

impl Region {
    pub(super) fn new(len: usize) -> io::Result<Self> {
        let layout = Layout::from_size_align(len.max(1), PAGE)
            .map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))?;
        // SAFETY: the layout's size is not zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Self { start, layout })
    }

    /// Returns the address of the byte at `offset`, which must lie within.
    pub(super) fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset < self.layout.size());
        // SAFETY: within the allocation, as asserted.
        unsafe { self.start.as_ptr().add(offset) }
    }

    /// Borrows a piece.
    ///
    /// # Safety
    /// Neither the kernel nor a raw pointer of our own writes or reads it while the borrow lives.
    pub(super) unsafe fn piece(&mut self, offset: usize, len: usize) -> &mut [u8] {
        assert!(len <= self.layout.size() && offset <= self.layout.size() - len);
        // SAFETY: within the allocation, as asserted; initialised, because it was zeroed; nobody else uses it, as the
        // caller warrants, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(offset), len) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout. The ring drops its regions only after the kernel let go of them.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}
