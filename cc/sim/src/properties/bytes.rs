//! Numbers from a byte string.

use std::time::Duration;

/// The rest of a byte string. Reads past its end return zeros.
#[derive(Debug)]
pub(super) struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    pub(super) fn two(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// Returns a number of any magnitude below two to the `bits`, small ones as likely as large ones.
    pub(super) fn magnitude(&mut self, bits: u32) -> u64 {
        let shift = u32::from(self.byte()) % (bits - 7);
        u64::from(self.byte()) << shift
    }

    /// Returns a time from nothing to some 40 minutes; every now and then ten days.
    pub(super) fn time(&mut self) -> Duration {
        const LONG: Duration = Duration::from_secs(10 * 24 * 3_600);
        match self.byte() {
            255 => LONG,
            byte => Duration::from_nanos((u64::from(byte % 8) + 8) << (byte / 8 + 7)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_ends_in_zeros() {
        let mut bytes = Bytes::new(&[1, 2, 3]);
        assert_eq!(bytes.two(), 0x0201);
        assert_eq!(bytes.two(), 3);
        assert!(bytes.is_empty());
        assert_eq!(bytes.byte(), 0);
    }

    #[test]
    fn magnitudes_and_times_reach_over_their_range() {
        assert_eq!(Bytes::new(&[0, 0]).magnitude(40), 0);
        assert_eq!(Bytes::new(&[32, 255]).magnitude(40), 255 << 32);
        assert_eq!(Bytes::new(&[56, 255]).magnitude(64), 255 << 56);
        assert_eq!(Bytes::new(&[0]).time(), Duration::from_nanos(1_024));
        assert_eq!(Bytes::new(&[254]).time(), Duration::from_nanos(14 << 38));
    }
}
