//! Memory for request bodies of unknown length.

use std::cell::Cell;

/// Bytes of such bodies that a thread keeps at most.
const LIMIT: u64 = 16 << 20;

/// Counts the bytes that a thread keeps of such bodies.
#[derive(Debug, Default)]
pub struct BodyBuffers(Cell<u64>);

/// Bytes that one request keeps, until it is dropped.
#[derive(Debug)]
pub(super) struct Held<'a> {
    buffers: &'a BodyBuffers,
    bytes: u64,
}

impl BodyBuffers {
    /// Returns room for a body, without a byte.
    pub(super) fn begin(&self) -> Held<'_> {
        Held {
            buffers: self,
            bytes: 0,
        }
    }
}

impl Held<'_> {
    /// Takes room for more bytes, if there is as much.
    pub(super) fn grow(&mut self, more: usize) -> bool {
        let all = self.buffers.0.get() + more as u64;
        let fits = all <= LIMIT;
        if fits {
            self.buffers.0.set(all);
            self.bytes += more as u64;
        }
        fits
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.buffers.0.set(self.buffers.0.get() - self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_share_the_room_of_their_thread() {
        let buffers = BodyBuffers::default();
        let (mut one, mut other) = (buffers.begin(), buffers.begin());
        assert!(one.grow(12 << 20) && other.grow(4 << 20));
        assert!(!one.grow(1) && other.grow(0));
        drop(one);
        assert!(other.grow(12 << 20));
        drop(other);
        assert_eq!(buffers.0.get(), 0);
    }
}
