//! Hashes that are the same in every process and on every host: FNV-1a with 64 bits, finalized as in SplitMix64. They have no secret:
//! an attacker who chooses the bytes chooses the hash.

/// Offset basis and prime of FNV-1a with 64 bits.
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// FNV-1a of the bytes so far.
#[derive(Clone, Copy, Debug)]
pub struct Fnv1a(u64);

impl Fnv1a {
    /// The hash before the first byte.
    pub const EMPTY: Fnv1a = Fnv1a(FNV_BASIS);

    /// Returns the hash with these bytes behind those so far.
    #[must_use]
    pub fn with(self, bytes: &[u8]) -> Fnv1a {
        let next = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
        Fnv1a(bytes.iter().fold(self.0, next))
    }

    /// Returns the hash, with its bits mixed.
    pub const fn finish(self) -> u64 {
        mixed(self.0)
    }
}

/// Returns the hash of bytes.
pub fn hash(bytes: &[u8]) -> u64 {
    Fnv1a::EMPTY.with(bytes).finish()
}

/// Spreads a difference in any bit over all bits (the finalizer of SplitMix64).
pub const fn mixed(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_fnv_1a_finalized_and_takes_bytes_in_parts() {
        // From the test vectors of FNV-1a.
        assert_eq!(Fnv1a::EMPTY.with(b"foobar").0, 0x8594_4171_f739_67e8);
        assert_eq!(Fnv1a::EMPTY.with(b"foo").with(b"bar").finish(), hash(b"foobar"));
        // The first output of SplitMix64 from 0.
        assert_eq!(mixed(0x9e37_79b9_7f4a_7c15), 0xe220_a839_7b1d_cdaf);
    }
}
