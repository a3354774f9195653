//! The tokens of NEW_TOKEN frames that were used.
//!
//! A Bloom filter holds the nonces of the tokens that were used in a period of the longest lifetime so far, another one those of the period before, so
//! that a token is remembered for as long as it is valid. They never take a used token for a fresh one. With a million tokens in a
//! lifetime they take one fresh token in three thousand for a used one; its client may get a Retry.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::CLOCK_SKEW;
use super::seal::NONCE;

/// Size of a filter, as the number of address bits of its bits: 4 MiB.
const BITS: u32 = 25;
/// Bits of a filter that each token sets.
const PER_TOKEN: usize = 4;

/// Notes which tokens were used, for all workers of a process, until it ends. The lock is taken once for each token that is good
/// otherwise; memory is taken with the first of them.
pub struct UsedTokens {
    /// Size of a filter, as [`BITS`].
    bits: u32,
    filters: Mutex<Option<Filters>>,
}

struct Filters {
    /// Time since 1970 at which the current period began.
    since: Duration,
    /// Longest time for which a token was valid so far: a reload that lowers the lifetime forgets none of those before.
    period: Duration,
    current: Box<[u64]>,
    previous: Box<[u64]>,
}

impl Default for UsedTokens {
    fn default() -> Self {
        Self { bits: BITS, filters: Mutex::default() }
    }
}

impl UsedTokens {
    /// Returns a note of a few tokens, which takes little memory.
    #[cfg(any(test, feature = "test-fixtures"))]
    pub(crate) fn few() -> Self {
        Self { bits: 16, ..Self::default() }
    }

    /// Notes a token by its nonce, which is random. Returns whether it was not used before.
    pub(super) fn note(&self, nonce: &[u8; NONCE], lifetime: Duration, now: Duration) -> bool {
        let mut filters = self.filters.lock().unwrap_or_else(PoisonError::into_inner);
        let filters = filters.get_or_insert_with(|| Filters {
            since: now,
            period: Duration::ZERO,
            current: empty(self.bits),
            previous: empty(self.bits),
        });
        filters.turn(lifetime.saturating_add(CLOCK_SKEW), now);
        let places = places(nonce, self.bits);
        let is_in = |filter: &[u64]| places.iter().all(|(word, bit)| filter[*word] & bit != 0);
        if is_in(&filters.current) || is_in(&filters.previous) {
            return false;
        }
        for (word, bit) in places {
            filters.current[word] |= bit;
        }
        true
    }
}

impl UsedTokens {
    /// Returns them for another process; `None` if there are none.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let filters = self.filters.lock().unwrap_or_else(PoisonError::into_inner);
        let Filters { since, period, current, previous } = filters.as_ref()?;
        let times = [since, period].map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let words = times.iter().chain(current).chain(previous);
        Some(words.flat_map(|word| word.to_le_bytes()).collect())
    }

    /// Adds those of another process. Returns whether they have the form that [`UsedTokens::to_bytes`] gives them.
    pub fn add(&self, bytes: &[u8]) -> bool {
        let len = 1 << (self.bits - 6);
        let (words, []) = bytes.as_chunks::<8>() else {
            return false;
        };
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
        let (Some(since), Some(period)) = (words.next(), words.next()) else {
            return false;
        };
        if words.len() != 2 * len {
            return false;
        }
        let (since, period) = (Duration::from_millis(since), Duration::from_millis(period));
        let mut filters = self.filters.lock().unwrap_or_else(PoisonError::into_inner);
        let own = filters.get_or_insert_with(|| Filters {
            since,
            period,
            current: empty(self.bits),
            previous: empty(self.bits),
        });
        own.period = own.period.max(period);
        // The newer of both periods ends later: so long, those of both are remembered.
        own.since = own.since.max(since);
        for (index, word) in words.enumerate() {
            own.current[index % len] |= word;
        }
        true
    }
}

impl Filters {
    /// Begins another period where the current one is over. Tokens are valid for `period` now.
    fn turn(&mut self, period: Duration, now: Duration) {
        self.period = self.period.max(period);
        let (age, period) = (now.saturating_sub(self.since), self.period);
        if age < period {
            return;
        }
        // Both have the size that they began with.
        self.previous = std::mem::replace(&mut self.current, vec![0; self.previous.len()].into());
        if age >= period.saturating_mul(2) {
            self.previous.fill(0);
        }
        self.since = now;
    }
}

fn empty(bits: u32) -> Box<[u64]> {
    vec![0; 1 << (bits - 6)].into()
}

/// Returns the words of a filter and the bits in them that stand for a nonce.
fn places(nonce: &[u8; NONCE], bits: u32) -> [(usize, u64); PER_TOKEN] {
    let mut places = [(0, 0); PER_TOKEN];
    for (place, bytes) in places.iter_mut().zip(nonce.as_chunks::<4>().0) {
        let index = u32::from_be_bytes(*bytes) >> (32 - bits);
        *place = ((index >> 6) as usize, 1 << (index & 63));
    }
    places
}

/// Omits the tokens.
impl std::fmt::Debug for UsedTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UsedTokens").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_sim::Rng;

    use super::*;

    const LIFETIME: Duration = Duration::from_secs(1000);
    const NOW: Duration = Duration::from_secs(1_800_000_000);

    fn nonce(rng: &mut Rng) -> [u8; NONCE] {
        let mut nonce = [0; NONCE];
        for bytes in nonce.as_chunks_mut::<8>().0 {
            *bytes = rng.bits().to_le_bytes();
        }
        nonce
    }

    #[test]
    fn used_tokens_are_remembered_for_a_lifetime_whenever_they_were_used() {
        for offset in [0, 1, 500, 1059, 1060, 1061, 2500, 9000] {
            let used = UsedTokens::default();
            let mut rng = Rng::new(offset);
            assert!(used.note(&nonce(&mut rng), LIFETIME, NOW));
            let (at, token) = (NOW + Duration::from_secs(offset), nonce(&mut rng));
            assert!(used.note(&token, LIFETIME, at));
            for later in (0..=1060).step_by(53) {
                let now = at + Duration::from_secs(later);
                assert!(!used.note(&token, LIFETIME, now), "{offset} and {later}");
            }
        }
    }

    #[test]
    fn another_process_knows_them_and_forgets_them_in_time() {
        let mut rng = Rng::new(7);
        let [former, newer] = [UsedTokens::few(), UsedTokens::few()];
        assert_eq!(former.to_bytes(), None);
        let (period, early) = (LIFETIME + CLOCK_SKEW, nonce(&mut rng));
        assert!(former.note(&early, LIFETIME, NOW));
        let late = nonce(&mut rng);
        assert!(former.note(&late, LIFETIME, NOW + period));
        let own = nonce(&mut rng);
        assert!(newer.note(&own, LIFETIME, NOW + period));
        assert!(newer.add(&former.to_bytes().unwrap()));
        for token in [&early, &late, &own] {
            assert!(!newer.note(token, LIFETIME, NOW + 2 * period));
        }
        assert!(newer.note(&early, LIFETIME, NOW + 4 * period));
        let third = UsedTokens::few();
        assert!(third.add(&former.to_bytes().unwrap()));
        assert!(!third.note(&late, LIFETIME, NOW + 2 * period));
        for strange in [&[][..], &[0; 7], &[0; 16], &[0; 24]] {
            assert!(!third.add(strange));
        }
    }

    #[test]
    fn a_token_used_as_a_period_ends_is_remembered_for_a_whole_one() {
        let (used, mut rng) = (UsedTokens::few(), Rng::new(1));
        let period = LIFETIME + CLOCK_SKEW;
        assert!(used.note(&nonce(&mut rng), LIFETIME, NOW));
        let token = nonce(&mut rng);
        assert!(used.note(&token, LIFETIME, NOW + period));
        assert!(!used.note(&token, LIFETIME, NOW + 2 * period));
    }

    #[test]
    fn a_note_of_few_tokens_takes_little_memory() {
        assert_eq!(empty(UsedTokens::few().bits).len(), 1024);
    }

    /// Lowered to a tenth, a token is too far in the future at first, and would be good again a tenth before it expires.
    #[test]
    fn a_lowered_lifetime_forgets_no_used_token() {
        let (used, token) = (UsedTokens::few(), [7; NONCE]);
        assert!(used.note(&token, LIFETIME, NOW));
        let mut rng = Rng::new(1);
        for later in (0..=1000).step_by(100) {
            let now = NOW + Duration::from_secs(later);
            assert!(used.note(&nonce(&mut rng), LIFETIME / 10, now));
            assert!(!used.note(&token, LIFETIME / 10, now), "{later}");
        }
    }

    #[test]
    fn old_tokens_are_forgotten() {
        for (step, count) in [(1100, 2), (5000, 1)] {
            let (used, token) = (UsedTokens::default(), [7; NONCE]);
            assert!(used.note(&token, LIFETIME, NOW));
            let mut rng = Rng::new(step);
            for number in 1..count {
                let now = NOW + Duration::from_secs(number * step);
                assert!(used.note(&nonce(&mut rng), LIFETIME, now));
            }
            let now = NOW + Duration::from_secs(count * step);
            assert!(used.note(&token, LIFETIME, now), "after {count} steps of {step} s");
        }
    }

    #[test]
    fn a_clock_that_is_set_back_forgets_nothing() {
        let (used, token) = (UsedTokens::default(), [7; NONCE]);
        assert!(used.note(&token, LIFETIME, NOW));
        assert!(!used.note(&token, LIFETIME, NOW - Duration::from_secs(9000)));
        assert!(!used.note(&token, LIFETIME, Duration::ZERO));
        assert!(!used.note(&token, LIFETIME, NOW));
    }

    #[test]
    fn few_fresh_tokens_are_taken_for_used_ones() {
        let (used, mut rng) = (UsedTokens::default(), Rng::new(1));
        let fresh = (0..200_000).filter(|_| used.note(&nonce(&mut rng), LIFETIME, NOW));
        assert!(fresh.count() >= 199_990);
    }
}
