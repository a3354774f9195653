//! Variable-length integers (RFC 9000 §16), and a reader of fields.

/// Returns a variable-length integer of the least length.
///
/// # Panics
/// At values of 2^62 or more.
#[must_use]
pub fn varint(value: u64) -> Vec<u8> {
    assert!(value < 1 << 62, "{value} does not fit in a varint");
    let all = value.to_be_bytes();
    let (from, mark) = match value {
        0..0x40 => (7, 0),
        0x40..0x4000 => (6, 0x40),
        0x4000..0x4000_0000 => (4, 0x80),
        _ => (0, 0xc0),
    };
    let mut bytes = all[from..].to_vec();
    bytes[0] |= mark;
    bytes
}

/// Takes fields from the front of some bytes. Each call returns `None` if fewer bytes are left.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// Returns whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes that many bytes.
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// Takes bytes of a fixed number.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// Takes a byte.
    pub fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    /// Takes a variable-length integer.
    pub fn varint(&mut self) -> Option<u64> {
        let first = self.byte()?;
        let rest = self.take((1 << (first >> 6)) - 1)?;
        let bytes = rest.iter().map(|byte| u64::from(*byte));
        Some(bytes.fold(u64::from(first & 0x3f), |sum, byte| sum << 8 | byte))
    }

    /// Takes bytes behind their length, a variable-length integer.
    pub fn prefixed(&mut self) -> Option<&'a [u8]> {
        let count = self.varint()?;
        self.take(usize::try_from(count).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_rfc_are_read_and_written() {
        // RFC 9000 §A.1.
        for (bytes, value) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ] {
            assert_eq!(Reader(bytes).varint(), Some(value));
            assert_eq!(varint(value), bytes);
            assert_eq!(Reader(&bytes[..bytes.len() - 1]).varint(), None);
        }
    }
}
