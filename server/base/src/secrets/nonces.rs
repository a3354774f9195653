//! Nonces that never repeat under a key: not at another worker, and not after a restart.
//!
//! A nonce is a number, counted from a random one. Each start takes a share of the numbers, which the state directory remembers
//! before any of them is used. Workers take blocks of the share.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::entropy::draw;

/// Longest nonce, bytes.
pub const MAX_NONCE: usize = 16;
/// Length of the shortest nonce that does without a state directory, bytes.
pub const NONCE_OF_PROCESS: usize = 8;
/// Numbers that a worker takes at once.
const BLOCK: u64 = 256;

/// Nonces of a process under one key.
#[derive(Debug)]
pub struct Nonces {
    /// Number from which all are counted.
    base: u128,
    next: AtomicU64,
    end: u64,
    /// How many of them may still go to Retry packets.
    for_retry: AtomicU64,
}

impl Nonces {
    /// Returns nonces of `len` bytes, up to [`MAX_NONCE`], which begin anywhere. Those of at least [`NONCE_OF_PROCESS`] bytes
    /// meet those of another process as seldom as random numbers do.
    pub fn of_process(len: usize) -> Nonces {
        Nonces::between(0, numbers(len), random())
    }

    /// Returns the nonces of a start, counted from 0, with a number that all starts under the key have in common. Returns `None` if earlier
    /// starts have used all.
    ///
    /// Those of at least [`NONCE_OF_PROCESS`] bytes begin anywhere in the first half of the share: a state directory that is restored, as with
    /// a snapshot of a machine, gives the same share to several starts.
    pub(super) fn of_start(start: u64, base: u128, len: usize) -> Option<Nonces> {
        let begin = start.checked_mul(share(len))?;
        let end = begin.checked_add(share(len)).filter(|end| *end <= numbers(len))?;
        let first =
            if len < NONCE_OF_PROCESS { begin } else { begin + random_below(share(len) / 2) };
        Some(Nonces::between(first, end, base))
    }

    /// Strangers may ask for Retry packets: connections have half of the numbers for themselves.
    fn between(first: u64, end: u64, base: u128) -> Nonces {
        let for_retry = AtomicU64::new((end - first) / 2);
        Nonces { base, next: AtomicU64::new(first), end, for_retry }
    }

    /// Returns nonces of which all are used.
    pub fn used_up() -> Nonces {
        Nonces::between(0, 0, 0)
    }

    /// Returns how many no worker has taken yet.
    pub fn left(&self) -> u64 {
        self.end.saturating_sub(self.next.load(Ordering::Relaxed))
    }

    /// Takes the right to use numbers for Retry packets: as many as a block has, or as are left.
    fn take_for_retry(&self) -> u64 {
        let less = |left: u64| (left > 0).then(|| left.saturating_sub(BLOCK));
        let left = self.for_retry.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        left.map_or(0, |left| left.min(BLOCK))
    }

    /// Takes a block of numbers; an empty one if all are used.
    fn take(&self) -> Range<u64> {
        let step = |next: u64| (next < self.end).then(|| next + BLOCK.min(self.end - next));
        match self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step) {
            Ok(first) => first..step(first).unwrap_or(first),
            Err(_) => 0..0,
        }
    }
}

/// Returns the number that is counted from under a new key.
pub(super) fn random() -> u128 {
    let mut bytes = [0; MAX_NONCE];
    draw(&mut bytes);
    u128::from_be_bytes(bytes)
}

/// Returns a number below a power of two.
fn random_below(limit: u64) -> u64 {
    let mut bytes = [0; 8];
    draw(&mut bytes);
    u64::from_be_bytes(bytes) % limit
}

/// Returns how many nonces of that length are used at most. Of longer ones than 8 bytes, a part suffices.
fn numbers(len: usize) -> u64 {
    let bits = u32::try_from(8 * len).unwrap_or(u32::MAX);
    1_u64.checked_shl(bits).unwrap_or(u64::MAX)
}

/// Returns how many of them a start takes: of 4 bytes 2^24, so that there are 256 starts; of 8 and more bytes 2^48, which Retry packets to a
/// flood take years to use.
fn share(len: usize) -> u64 {
    1 << (6 * len.min(NONCE_OF_PROCESS))
}

/// Nonces for one worker.
#[derive(Debug)]
pub struct NonceSource {
    nonces: Arc<Nonces>,
    block: Range<u64>,
    /// How many it may use for Retry packets before it asks for more.
    for_retry: u64,
}

impl NonceSource {
    /// Takes from these nonces.
    pub fn new(nonces: &Arc<Nonces>) -> NonceSource {
        NonceSource { nonces: Arc::clone(nonces), block: 0..0, for_retry: 0 }
    }

    /// Returns the next nonce for a Retry packet; `None` if such packets have used half of all.
    pub fn next_for_retry(&mut self) -> Option<[u8; MAX_NONCE]> {
        if self.for_retry == 0 {
            self.for_retry = self.nonces.take_for_retry();
        }
        self.for_retry = self.for_retry.checked_sub(1)?;
        self.next_nonce()
    }

    /// Returns the next nonce, in the last bytes; `None` if all are used.
    pub fn next_nonce(&mut self) -> Option<[u8; MAX_NONCE]> {
        if self.block.is_empty() {
            self.block = self.nonces.take();
        }
        let number = self.block.next()?;
        let value = self.nonces.base.wrapping_add(number.into());
        Some(value.to_be_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_nonce_of_any_start_and_worker_is_like_another() {
        for len in [4, 7, 8, 16] {
            let base = random();
            let mut seen = HashSet::new();
            for start in 0..4 {
                let nonces = Arc::new(Nonces::of_start(start, base, len).unwrap());
                let mut workers = [(); 3].map(|()| NonceSource::new(&nonces));
                for _ in 0..1000 {
                    for worker in &mut workers {
                        let nonce = worker.next_nonce().unwrap();
                        assert!(seen.insert(nonce[MAX_NONCE - len..].to_vec()), "{len} bytes");
                    }
                }
            }
        }
    }

    #[test]
    fn a_share_ends_and_so_do_the_starts() {
        assert_eq!((share(4), numbers(4) / share(4)), (1 << 24, 256));
        let all = Arc::new(Nonces::of_start(255, 0, 4).unwrap());
        all.next.store(all.end - BLOCK - 1, Ordering::Relaxed);
        let mut worker = NonceSource::new(&all);
        for number in (1 << 32) - BLOCK - 1..1 << 32 {
            assert_eq!(worker.next_nonce(), Some(u128::from(number).to_be_bytes()));
        }
        assert_eq!(worker.next_nonce(), None);
        assert_eq!(worker.next_nonce(), None);
        assert!(Nonces::of_start(256, 0, 4).is_none());
        for len in 4..=MAX_NONCE {
            assert!(Nonces::of_start(255, 0, len).is_some(), "{len} bytes");
            assert!(Nonces::of_start(u64::MAX, 0, len).is_none(), "{len} bytes");
        }
    }

    #[test]
    fn retry_packets_leave_half_of_a_share() {
        let nonces = Arc::new(Nonces::between(0, 10 * BLOCK + 6, 0));
        let mut workers = [(); 2].map(|()| NonceSource::new(&nonces));
        let (mut used, mut end) = (0, false);
        while !std::mem::replace(&mut end, true) {
            for worker in &mut workers {
                let more = worker.next_for_retry().is_some();
                used += u64::from(more);
                end &= !more;
            }
        }
        assert_eq!(used, 5 * BLOCK + 3);
        let rest: usize =
            workers.iter_mut().map(|w| std::iter::from_fn(|| w.next_nonce()).count()).sum();
        assert_eq!((rest as u64, nonces.left()), (5 * BLOCK + 3, 0));
    }

    #[test]
    fn starts_with_one_share_begin_elsewhere_in_it_if_nonces_are_long() {
        let firsts = |len| {
            let first = |_| Nonces::of_start(3, 0, len).unwrap().next.into_inner();
            (0..100).map(first).collect::<HashSet<u64>>()
        };
        assert_eq!(firsts(7), [3 * share(7)].into());
        for len in [NONCE_OF_PROCESS, MAX_NONCE] {
            let begin = 3 * share(len);
            assert_eq!(firsts(len).len(), 100);
            assert!(
                firsts(len).iter().all(|first| (begin..begin + share(len) / 2).contains(first))
            );
        }
    }

    #[test]
    fn a_process_by_itself_begins_anywhere() {
        let first =
            |len| NonceSource::new(&Arc::new(Nonces::of_process(len))).next_nonce().unwrap();
        let firsts: HashSet<_> = (0..100).map(|_| first(NONCE_OF_PROCESS)).collect();
        assert_eq!(firsts.len(), 100);
    }
}
