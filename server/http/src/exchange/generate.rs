//! Bytes that any client can check: the 64-bit counters 0, 1, 2, …, each little-endian.

const WORD: usize = size_of::<u64>();

/// Body of a given size; byte `i` is byte `i % 8` of the little-endian counter `i / 8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generator {
    size: u64,
}

impl Generator {
    /// Returns a body of `size` bytes.
    pub fn new(size: u64) -> Generator {
        Generator { size }
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Writes the bytes from `offset` on into the front of `out`; returns how many, fewer than fit only at the end.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> usize {
        let left = self.size.saturating_sub(offset);
        let count = usize::try_from(left).map_or(out.len(), |left| left.min(out.len()));
        let out = &mut out[..count];
        let word = WORD as u64;
        let mut counter = offset / word;
        // The rest of a counter that the last call wrote in part.
        #[expect(clippy::cast_possible_truncation, reason = "less than 8")]
        let skip = (offset % word) as usize;
        let mut rest = out;
        if skip > 0 {
            let tail = &counter.to_le_bytes()[skip..];
            let (first, after) = rest.split_at_mut(tail.len().min(rest.len()));
            first.copy_from_slice(&tail[..first.len()]);
            rest = after;
            counter += 1;
        }
        // As arrays: each copy into a slice would call memcpy.
        let (words, last) = rest.as_chunks_mut::<WORD>();
        for word in words {
            *word = counter.to_le_bytes();
            counter += 1;
        }
        last.copy_from_slice(&counter.to_le_bytes()[..last.len()]);
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(size: u64, steps: &[usize]) -> Vec<u8> {
        let generator = Generator::new(size);
        let (mut out, mut buffer) = (Vec::new(), [0_u8; 64]);
        for step in steps.iter().cycle() {
            let count = generator.read(out.len() as u64, &mut buffer[..*step]);
            if count == 0 {
                break;
            }
            out.extend_from_slice(&buffer[..count]);
        }
        out
    }

    #[test]
    fn the_stream_is_counters_however_it_is_cut() {
        for size in [0_u64, 1, 7, 8, 9, 63, 1000, 3001] {
            let expected: Vec<u8> =
                (0_u64..size).map(|i| (i / 8).to_le_bytes()[(i % 8) as usize]).collect();
            for steps in [&[64_usize][..], &[1], &[3, 8, 17, 1], &[7, 7, 2]] {
                assert_eq!(whole(size, steps), expected, "size {size}, steps {steps:?}");
            }
        }
    }

    #[test]
    fn nothing_follows_the_end() {
        let mut buffer = [0; 16];
        assert_eq!(Generator::new(10).read(10, &mut buffer), 0);
        assert_eq!(Generator::new(10).read(u64::MAX, &mut buffer), 0);
        assert_eq!(Generator::new(u64::MAX).read(u64::MAX - 3, &mut buffer), 3);
    }
}
