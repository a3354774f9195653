//! Lends the front parts of a file that are in the kernel's memory.

use std::fs::File;
use std::io::IoSliceMut;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use rustix::io::ReadWriteFlags;
use tokio::runtime::Handle;

use super::read::{BLOCK, Held, read_cached};
use crate::exchange::lent::{CachedSource, LentRange};

/// Largest range that is lent at once, bytes. A look at it takes one short read for each block.
pub(super) const PART: u64 = 4 * 1024 * 1024;

/// A file for a front on another thread.
#[derive(Debug)]
struct LentFile {
    held: Option<Arc<Held>>,
    /// Runtime whose threads may wait.
    runtime: Handle,
}

/// Lends a range of a file, or returns `None` if the kernel does not seem to have it in its memory. It looks at the ends of all blocks,
/// because a read of what is missing begins to read ahead, which may wait for a place in the disk's queue. A worker must not.
/// cachestat(2) would tell by one call, but since Linux 6.14 only those who may write the file, and the server's user need not.
///
/// Runs in the runtime of the origin thread.
pub(super) fn lend(held: &Arc<Held>, range: Range<u64>, ends: bool) -> Option<LentRange> {
    let step = usize::try_from(BLOCK).unwrap_or(usize::MAX);
    let blocks = range.clone().step_by(step);
    let looks = blocks.chain(range.end.checked_sub(1));
    if !looks.into_iter().all(|offset| is_cached(&held.file, offset)) {
        return None;
    }
    let file = LentFile { held: Some(Arc::clone(held)), runtime: Handle::current() };
    Some(LentRange::new(Box::new(file), range, ends))
}

/// Returns whether the kernel has a byte of a file in its memory.
fn is_cached(file: &File, offset: u64) -> bool {
    let byte = &mut [0];
    let parts = &mut [IoSliceMut::new(byte)];
    rustix::io::preadv2(file, parts, offset, ReadWriteFlags::NOWAIT) == Ok(1)
}

impl CachedSource for LentFile {
    fn read_cached(&self, offset: u64, count: usize) -> Option<Bytes> {
        let held = self.held.as_ref()?;
        read_cached(&held.file, offset, count as u64).ok().flatten()
    }
}

impl Drop for LentFile {
    /// Closes the file on a thread that may wait, if nobody else has it any more: the handler was ended before the front.
    fn drop(&mut self) {
        if let Some(held) = self.held.take().and_then(Arc::into_inner) {
            self.runtime.spawn_blocking(move || drop(held));
        }
    }
}
