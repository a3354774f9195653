//! Gathers small pieces of a body into blocks, which count about as many bytes as they occupy in memory.

use bytes::{Bytes, BytesMut};

/// Size of a block of gathered pieces, bytes.
const BLOCK: usize = 16 << 10;
/// Sizes of pieces that are blocks by themselves, bytes. A smaller piece may keep much more memory alive than it counts; a
/// larger one would overdraw the credit by too much.
const WHOLE: std::ops::RangeInclusive<usize> = (32 << 10)..=(64 << 10);
/// Size of the first block of a body of unknown length, bytes.
const FIRST: usize = 2 << 10;

/// Gathers the pieces of one body.
#[derive(Debug)]
pub(crate) struct Blocks {
    gathered: BytesMut,
    /// Size of the next block, bytes.
    size: usize,
}

impl Blocks {
    /// Returns an empty value for a body of `length` bytes; `None` if the length is unknown.
    pub(crate) fn new(length: Option<u64>) -> Blocks {
        let length = length.and_then(|length| usize::try_from(length).ok());
        Blocks { gathered: BytesMut::new(), size: length.unwrap_or(FIRST).clamp(1, BLOCK) }
    }

    /// Takes bytes from the front of `piece`, and returns a block if one is complete. The caller calls it until it returns
    /// `None`.
    pub(crate) fn add(&mut self, piece: &mut Bytes) -> Option<Bytes> {
        while !piece.is_empty() {
            if piece.len() >= *WHOLE.start() {
                return Some(self.flush().unwrap_or_else(|| {
                    let size = piece.len().min(*WHOLE.end());
                    piece.split_to(size)
                }));
            }
            if self.gathered.capacity() == self.gathered.len() {
                if let Some(block) = self.flush() {
                    return Some(block);
                }
                self.gathered.reserve(self.size.max(piece.len().min(BLOCK)));
                self.size = (self.size * 2).clamp(FIRST, BLOCK);
            }
            let room = self.gathered.capacity() - self.gathered.len();
            let part = piece.split_to(room.min(piece.len()));
            self.gathered.extend_from_slice(&part);
        }
        None
    }

    /// Returns the bytes gathered so far as a block, if there are any.
    pub(crate) fn flush(&mut self) -> Option<Bytes> {
        let gathered = self.gathered.split();
        (!gathered.is_empty()).then(|| gathered.freeze())
    }

    /// Returns whether no byte waits for its block to fill.
    pub(crate) fn is_empty(&self) -> bool {
        self.gathered.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(blocks: &mut Blocks, pieces: &[usize]) -> (Vec<usize>, Vec<u8>) {
        let mut sizes = Vec::new();
        let mut content = Vec::new();
        let mut next = 0_u8;
        for size in pieces {
            let bytes = (0..*size).map(|_| {
                next = next.wrapping_add(1);
                next
            });
            let mut piece = Bytes::from_iter(bytes);
            while let Some(block) = blocks.add(&mut piece) {
                sizes.push(block.len());
                content.extend_from_slice(&block);
            }
        }
        if let Some(block) = blocks.flush() {
            sizes.push(block.len());
            content.extend_from_slice(&block);
        }
        (sizes, content)
    }

    #[test]
    fn nothing_is_lost_or_swapped_whatever_the_sizes() {
        for pieces in
            [vec![1; 5000], vec![100, 40_000, 7, 200_000, 1], vec![20_000, 20_000, 3], vec![]]
        {
            let (_, content) = all(&mut Blocks::new(None), &pieces);
            assert_eq!(content.len(), pieces.iter().sum::<usize>());
            let mut expected = 0_u8;
            assert!(content.iter().all(|byte| {
                expected = expected.wrapping_add(1);
                *byte == expected
            }));
        }
    }

    #[test]
    fn small_pieces_become_large_blocks_and_large_ones_stay() {
        let (sizes, _) = all(&mut Blocks::new(Some(1 << 20)), &[100; 1000]);
        assert!(sizes.len() <= 8, "{sizes:?}");
        let (sizes, _) = all(&mut Blocks::new(None), &[5, 150_000]);
        assert_eq!(sizes, [5, 65_536, 65_536, 2_043, 16_384, 501]);
    }

    #[test]
    fn a_short_body_takes_no_more_memory_than_it_needs() {
        let mut blocks = Blocks::new(Some(10));
        let mut piece = Bytes::from_static(b"0123456789");
        assert_eq!(blocks.add(&mut piece), None);
        assert!(blocks.gathered.capacity() < 64);
        assert!(!blocks.is_empty());
        assert_eq!(blocks.flush().unwrap(), "0123456789");
        assert!(blocks.is_empty());
    }
}
