//! Streams as they arrive.

use std::collections::BTreeMap;

/// Bytes in any order, put in order.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    /// Bytes that were put in order so far, taken ones included.
    end: u64,
    waiting: BTreeMap<u64, Vec<u8>>,
}

impl Reassembly {
    /// Takes bytes at an offset. Returns those that are now next in order.
    pub(crate) fn add(&mut self, offset: u64, data: &[u8]) -> Vec<u8> {
        let kept = self.waiting.entry(offset).or_default();
        if kept.len() < data.len() {
            *kept = data.to_vec();
        }
        let mut ordered = Vec::new();
        while let Some(entry) = self.waiting.first_entry() {
            let Some(known) = self.end.checked_sub(*entry.key()) else {
                break;
            };
            let bytes = entry.remove();
            let known = usize::try_from(known).expect("an offset in memory");
            if let Some(new) = bytes.get(known..) {
                self.end += new.len() as u64;
                ordered.extend_from_slice(new);
            }
        }
        ordered
    }

    pub(crate) fn end(&self) -> u64 {
        self.end
    }
}

/// Everything that the server sent on a stream.
#[derive(Debug, Default)]
pub struct ReceivedStream {
    /// Bytes in order.
    pub bytes: Vec<u8>,
    /// Error code of a RESET_STREAM.
    pub reset: Option<u64>,
    /// Error code of a STOP_SENDING.
    pub stopped: Option<u64>,
    size: Option<u64>,
    order: Reassembly,
}

impl ReceivedStream {
    pub(crate) fn add(&mut self, offset: u64, data: &[u8], fin: bool) {
        if fin {
            self.size = Some(offset + data.len() as u64);
        }
        self.bytes.extend(self.order.add(offset, data));
    }

    /// Returns whether all bytes up to the stream's end have arrived.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.size == Some(self.order.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_put_in_order() {
        let mut received = ReceivedStream::default();
        received.add(3, b"def", true);
        received.add(1, b"bc", false);
        assert!(received.bytes.is_empty() && !received.is_finished());
        received.add(0, b"ab", false);
        received.add(2, b"cd", false);
        assert_eq!(received.bytes, b"abcdef");
        assert!(received.is_finished());
    }
}
