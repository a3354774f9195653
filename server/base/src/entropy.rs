//! Random bytes drawn ahead, a few KiB at a time.

use boring::rand::rand_bytes;

/// Bytes drawn from BoringSSL at once.
const POOL: usize = 4096;

/// Source of unpredictable bytes for connection IDs, nonces and padding that needs no system call for each.
///
/// Owned by one worker. A process that forks must not go on using a pool it inherited: both would hand out the same bytes.
pub struct Entropy {
    pool: Box<[u8; POOL]>,
    used: usize,
}

impl Entropy {
    /// Makes an empty pool; the first use fills it.
    pub fn new() -> Entropy {
        Entropy { pool: Box::new([0; POOL]), used: POOL }
    }

    /// Overwrites all of `out`.
    pub fn fill(&mut self, mut out: &mut [u8]) {
        while !out.is_empty() {
            if self.used == POOL {
                draw(self.pool.as_mut_slice());
                self.used = 0;
            }
            let take = out.len().min(POOL - self.used);
            let (now, later) = out.split_at_mut(take);
            let source = &mut self.pool[self.used..self.used + take];
            now.copy_from_slice(source);
            source.fill(0);
            self.used += take;
            out = later;
        }
    }

    /// Returns the next `N` bytes.
    pub fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        self.fill(&mut out);
        out
    }
}

impl Default for Entropy {
    fn default() -> Entropy {
        Entropy::new()
    }
}

impl std::fmt::Debug for Entropy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entropy").finish_non_exhaustive()
    }
}

/// Overwrites `out` straight from BoringSSL, past any pool: for secrets.
pub fn draw(out: &mut [u8]) {
    rand_bytes(out).expect("RAND_bytes ends the process where the kernel has no randomness");
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn never_repeats_across_refills() {
        let mut entropy = Entropy::new();
        let mut seen = HashSet::new();
        // 14 does not divide the pool, so that reads straddle its end.
        for _ in 0..4 * POOL / 14 {
            assert!(seen.insert(entropy.take::<14>()));
        }
    }

    #[test]
    fn fills_more_than_a_pool_at_once() {
        let mut entropy = Entropy::new();
        let _: [u8; 5] = entropy.take();
        let mut out = vec![0; 3 * POOL + 7];
        entropy.fill(&mut out);
        for window in out.chunks_exact(32) {
            assert_ne!(window, [0; 32]);
        }
    }

    #[test]
    fn bytes_handed_out_are_wiped() {
        let mut entropy = Entropy::new();
        let _: [u8; 100] = entropy.take();
        assert_eq!(entropy.pool[..100], [0; 100]);
        assert_ne!(entropy.pool[100..200], [0; 100]);
    }
}
