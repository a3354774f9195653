//! Capsules (RFC 9297 §3.2) that carry datagrams of UDP (RFC 9298 §5).

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

/// Type of the capsule that carries a datagram (RFC 9297 §3.5).
const DATAGRAM: u64 = 0;
/// Context ID of payloads of UDP (RFC 9298 §4).
const UDP_PAYLOAD: u64 = 0;
/// Largest payload of a datagram, bytes (RFC 9298 §5).
const MAX_PAYLOAD: usize = 65_527;
/// Largest encoding of a context ID, bytes.
const MAX_CONTEXT: usize = 8;

/// The bytes are no capsules, or a payload is too long: the stream is aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Reads capsules from a stream of bytes. It holds no more than one datagram and one block.
#[derive(Debug, Default)]
pub(super) struct CapsuleReader {
    bytes: BytesMut,
    /// Bytes of an unknown capsule that are still to come.
    skipped: u64,
}

impl CapsuleReader {
    /// Adds a block of the stream.
    pub(super) fn push(&mut self, block: &[u8]) {
        self.bytes.extend_from_slice(block);
    }

    /// Returns the payload of the next datagram, as far as it has arrived. Capsules and contexts that are not known are skipped.
    ///
    /// # Errors
    /// The capsule is malformed or too long.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, Malformed> {
        loop {
            let skipped = self.bytes.len().min(usize::try_from(self.skipped).unwrap_or(usize::MAX));
            self.bytes.advance(skipped);
            self.skipped -= skipped as u64;
            if self.bytes.is_empty() {
                // An idle tunnel holds no memory.
                self.bytes = BytesMut::new();
            }
            let mut rest = &self.bytes[..];
            let Some(kind) = varint(&mut rest) else {
                return Ok(None);
            };
            let Some(length) = varint(&mut rest) else {
                return Ok(None);
            };
            let head = self.bytes.len() - rest.len();
            if kind != DATAGRAM {
                self.bytes.advance(head);
                self.skipped = length;
                continue;
            }
            let length = usize::try_from(length).map_err(|_| Malformed)?;
            if length > MAX_PAYLOAD + MAX_CONTEXT {
                return Err(Malformed);
            }
            if rest.len() < length {
                return Ok(None);
            }
            self.bytes.advance(head);
            let mut content = self.bytes.split_to(length).freeze();
            let mut rest = &content[..];
            let context = varint(&mut rest).ok_or(Malformed)?;
            content.advance(content.len() - rest.len());
            if context != UDP_PAYLOAD {
                continue;
            }
            if content.len() > MAX_PAYLOAD {
                return Err(Malformed);
            }
            return Ok(Some(content));
        }
    }
}

/// Returns the capsule with a datagram.
pub(super) fn capsule(payload: &[u8]) -> Bytes {
    let length = payload.len() as u64 + 1;
    let mut bytes = BytesMut::with_capacity(payload.len() + 6);
    bytes.put_u8(0);
    match length {
        0..0x40 => bytes.put_uint(length, 1),
        0x40..0x4000 => bytes.put_uint(length | 0x4000, 2),
        _ => bytes.put_uint(length | 0x8000_0000, 4),
    }
    bytes.put_u8(0);
    bytes.put_slice(payload);
    bytes.freeze()
}

/// Takes an integer of variable length (RFC 9000 §16); `None`, and nothing taken, if it has not arrived as a whole.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let first = *bytes.first()?;
    let length = 1 << (first >> 6);
    let (number, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    let number = number.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    Some(number & (u64::MAX >> (66 - 8 * length)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns all payloads of a stream that arrives in blocks of this size.
    fn read(stream: &[u8], size: usize) -> Result<Vec<Bytes>, Malformed> {
        let (mut reader, mut found) = (CapsuleReader::default(), Vec::new());
        for block in stream.chunks(size) {
            reader.push(block);
            while let Some(payload) = reader.next()? {
                found.push(payload);
            }
            assert!(reader.bytes.len() <= MAX_PAYLOAD + MAX_CONTEXT + 16);
        }
        Ok(found)
    }

    #[test]
    fn datagrams_of_every_size_pass_in_blocks_of_every_size() {
        let sizes = [0, 1, 62, 63, 64, 16_382, 16_383, 16_384, MAX_PAYLOAD];
        let payloads: Vec<Vec<u8>> = sizes.iter().map(|size| vec![7; *size]).collect();
        let stream: Vec<u8> = payloads.iter().flat_map(|payload| capsule(payload)).collect();
        for size in [1, 2, 1000, usize::MAX] {
            assert_eq!(read(&stream, size).unwrap(), payloads, "{size}");
        }
    }

    #[test]
    fn unknown_capsules_and_contexts_are_skipped() {
        let unknown = [&[0x40, 0x17, 0x43, 0xe8][..], &[1; 1000]].concat();
        let context = [0, 3, 2, b'n', b'o'];
        let stream = [&unknown[..], &context, &capsule(b"yes")].concat();
        for size in [1, 7, usize::MAX] {
            assert_eq!(read(&stream, size).unwrap(), [Bytes::from_static(b"yes")]);
        }
        // A length of 2^62 - 1 keeps the reader busy for ever, but holds nothing.
        let endless = [&[0x17][..], &[0xff; 8], &[0; 100_000]].concat();
        assert_eq!(read(&endless, 1000), Ok(Vec::new()));
    }

    #[test]
    fn datagrams_that_are_too_long_or_without_a_context_are_malformed() {
        let long = capsule(&vec![0; MAX_PAYLOAD + 1]);
        assert_eq!(read(&long, 1000), Err(Malformed));
        let longer = [0, 0x80, 0x01, 0, 8];
        assert_eq!(read(&longer, 5), Err(Malformed));
        assert_eq!(read(&[0, 0], 2), Err(Malformed));
        assert_eq!(read(&[0, 1, 0x40], 3), Err(Malformed));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_the_same_in_blocks_of_any_size(
            stream in proptest::collection::vec(prop_oneof![0..4_u8, any::<u8>()], 0..300),
            size in 1..300_usize,
        ) {
            prop_assert_eq!(read(&stream, size).ok(), read(&stream, usize::MAX).ok());
        }
    }
}
