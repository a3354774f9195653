//! Chooses how many bytes a read asks for.

/// Smallest read, bytes: the head and the body of most responses.
const SMALLEST: usize = 8 << 10;

/// Size of the next read: twice as large after one that was full, half as large after two that were less than half full.
#[derive(Debug)]
pub(super) struct ReadSize {
    next: usize,
    largest: usize,
    was_small: bool,
}

impl ReadSize {
    pub(super) fn new(largest: usize) -> ReadSize {
        ReadSize { next: SMALLEST, largest, was_small: false }
    }

    /// Returns the bytes that the next read asks for, behind `held` bytes in the buffer.
    pub(super) fn next(&self, held: usize) -> usize {
        self.next.min(self.largest.saturating_sub(held)).max(1)
    }

    /// Takes the size of a read.
    pub(super) fn on_read(&mut self, count: usize) {
        if count >= self.next {
            self.next = (self.next * 2).min(self.largest);
            self.was_small = false;
        } else if count >= self.next / 2 {
            self.was_small = false;
        } else if std::mem::replace(&mut self.was_small, true) {
            self.next = (self.next / 2).max(SMALLEST);
            self.was_small = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_follows_the_reads() {
        let mut size = ReadSize::new(64 << 10);
        for expected in [8, 16, 32, 64, 64] {
            assert_eq!(size.next(0), expected << 10);
            size.on_read(expected << 10);
        }
        size.on_read(100);
        size.on_read(40 << 10);
        size.on_read(100);
        assert_eq!(size.next(0), 64 << 10, "no two small ones in a row");
        for expected in [32, 16, 8, 8] {
            size.on_read(100);
            size.on_read(100);
            assert_eq!(size.next(0), expected << 10);
            size.was_small = true;
        }
    }

    #[test]
    fn buffer_has_a_bound() {
        let size = ReadSize::new(10 << 10);
        assert_eq!(size.next(4 << 10), 6 << 10);
        assert_eq!(size.next(20 << 10), 1);
    }
}
