//! Ranges of a file that a handler lends the front, which reads them itself as long as they are in memory.

use std::fmt::Debug;
use std::ops::Range;

use bytes::Bytes;

/// Bytes that can be read without waiting, as long as they are in memory. Dropping it never waits either.
pub trait CachedSource: Debug + Send + Sync {
    /// Reads exactly `count` bytes from `offset`; returns `None` unless all of them are in memory.
    fn read_cached(&self, offset: u64, count: usize) -> Option<Bytes>;
}

/// Range of a source for the front to read, block after block. The handler waits meanwhile, until it gets the rest of the range
/// back: [`ToHandler::RangeRead`](super::message::ToHandler::RangeRead).
#[derive(Debug)]
pub struct LentRange {
    /// Dropped as soon as there is nothing more to read.
    source: Option<Box<dyn CachedSource>>,
    left: Range<u64>,
    read: u64,
    /// Whether the response ends with the last byte of the range.
    ends: bool,
}

impl LentRange {
    /// Lends a range of `source`; with `ends` the response ends with its last byte, and has no trailers.
    pub fn new(source: Box<dyn CachedSource>, range: Range<u64>, ends: bool) -> LentRange {
        LentRange { source: Some(source).filter(|_| !range.is_empty()), left: range, read: 0, ends }
    }

    /// Reads the next block, of up to `most` bytes. Returns `None` at the end of the range, and for ever once a block was not in
    /// memory.
    pub fn next_block(&mut self, most: usize) -> Option<Bytes> {
        let source = self.source.as_ref()?;
        let left = self.left.end - self.left.start;
        let count = usize::try_from(left).map_or(most, |left| left.min(most));
        let block = source.read_cached(self.left.start, count);
        let block = block.filter(|block| block.len() == count);
        if block.is_some() {
            self.left.start += count as u64;
            self.read += count as u64;
        }
        if block.is_none() || self.left.is_empty() {
            self.source = None;
        }
        block
    }

    /// Returns whether there is nothing more to read for the front: it has read the range, or a block was not in memory.
    pub fn is_over(&self) -> bool {
        self.source.is_none()
    }

    /// Returns the number of bytes read so far.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// Returns whether the front has read the whole range.
    pub fn is_whole(&self) -> bool {
        self.left.is_empty()
    }

    /// Returns how many more bytes the front has to read to complete the response; `None` if the handler does that.
    pub(super) fn completing(&self) -> Option<u64> {
        self.ends.then(|| self.left.end - self.left.start)
    }

    /// Returns whether the response is complete with what the front has read.
    pub fn completes(&self) -> bool {
        self.ends && self.is_whole()
    }
}

/// Sources of tests.
#[cfg(any(test, feature = "test-fixtures"))]
pub mod test_source {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Bytes of which the first ones are in memory. Tests change how many, and see when the front has dropped its source.
    #[derive(Clone, Debug)]
    pub struct Source {
        /// All bytes.
        pub bytes: Arc<[u8]>,
        /// Number of the first bytes that are in memory.
        pub cached: Arc<AtomicU64>,
        /// Bytes read so far.
        pub read: Arc<AtomicU64>,
    }

    impl Source {
        /// Returns a source of these bytes.
        pub fn new(bytes: &[u8], cached: u64) -> Source {
            Source { bytes: bytes.into(), cached: Arc::new(cached.into()), read: Arc::default() }
        }

        /// Lends a range of it.
        pub fn lend(&self, range: Range<u64>, ends: bool) -> LentRange {
            LentRange::new(Box::new(self.clone()), range, ends)
        }

        /// Returns whether nobody else has it.
        pub fn is_returned(&self) -> bool {
            Arc::strong_count(&self.cached) == 1
        }
    }

    impl CachedSource for Source {
        fn read_cached(&self, offset: u64, count: usize) -> Option<Bytes> {
            let end = offset + count as u64;
            if end > self.cached.load(Ordering::SeqCst) {
                return None;
            }
            let range = usize::try_from(offset).ok()?..usize::try_from(end).ok()?;
            let block = self.bytes.get(range).map(Bytes::copy_from_slice)?;
            self.read.fetch_add(count as u64, Ordering::SeqCst);
            Some(block)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::test_source::Source;

    #[test]
    fn a_range_is_read_in_blocks_to_its_end() {
        let source = Source::new(b"0123456789", 10);
        let mut range = source.lend(1..8, true);
        let blocks: Vec<_> = std::iter::from_fn(|| range.next_block(3)).collect();
        assert_eq!(blocks, [&b"123"[..], b"456", b"7"]);
        assert!(range.is_over() && range.is_whole() && range.completes());
        assert_eq!(range.read(), 7);
        assert!(!source.lend(8..8, false).completes());
    }

    #[test]
    fn nothing_follows_a_block_that_is_not_in_memory() {
        let source = Source::new(b"0123456789", 5);
        let mut range = source.lend(0..8, true);
        assert_eq!(range.next_block(3).unwrap(), b"012"[..]);
        assert_eq!(range.next_block(3), None);
        source.cached.store(10, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(range.next_block(3), None);
        assert!(range.is_over() && !range.is_whole() && !range.completes());
        assert_eq!(range.read(), 3);
        assert!(source.is_returned());
    }
}
