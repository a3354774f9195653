//! Maps by the ID of a stream or an exchange, with a hash that costs next to nothing.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Map by the ID of a stream or an exchange.
///
/// The server itself numbers exchanges. A client chooses among the IDs of streams that it may open, and an ID outside of them
/// never gets here. So one that makes hashes collide wins no more than a search among as many streams as it has open.
pub type IdMap<T> = HashMap<u64, T, BuildHasherDefault<IdHasher>>;

/// Hasher of IDs.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        // The map takes its place from the low bits, and the product has its best ones at the top.
        self.0.rotate_left(32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, id: u64) {
        // 2^64 divided by the golden ratio, odd.
        self.0 = (self.0 ^ id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn streams_and_exchanges_opened_in_a_row_spread() {
        let hash = |id: u64| BuildHasherDefault::<IdHasher>::default().hash_one(id);
        for step in [1, 4] {
            let ids = || (0..1024).map(|n| step * n);
            let places: HashSet<u64> = ids().map(|id| hash(id) & 2047).collect();
            assert!(places.len() > 600, "{step}: {}", places.len());
            let tags: HashSet<u64> = ids().map(|id| hash(id) >> 57).collect();
            assert_eq!(tags.len(), 128, "{step}");
        }
    }
}
