//! The tokens of NEW_TOKEN frames that were used.
//!
//! A Bloom filter holds the nonces of the tokens that were used in a period of the longest lifetime so far, another one those of the period before, so
//! that a token is remembered for as long as it is valid. They never take a used token for a fresh one. With a million tokens in a
//! lifetime they take one fresh token in three thousand for a used one; its client may get a Retry.

use std::sync::{Mutex, MutexGuard, PoisonError};
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

#[derive(Clone)]
struct Filters {
    /// Time since 1970 at which the current period began.
    since: Duration,
    /// Longest time for which a token was valid so far: a reload that lowers the lifetime forgets none of those before.
    period: Duration,
    current: Box<[u64]>,
    previous: Box<[u64]>,
    /// Number of times that there were tokens to add.
    changes: u64,
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
        let mut filters = self.filters();
        let filters = filters.get_or_insert_with(|| Filters::new(now, self.bits));
        filters.turn(lifetime.saturating_add(CLOCK_SKEW), now);
        let places = places(nonce, self.bits);
        let is_in = |filter: &[u64]| places.iter().all(|(word, bit)| filter[*word] & bit != 0);
        if is_in(&filters.current) || is_in(&filters.previous) {
            return false;
        }
        for (word, bit) in places {
            filters.current[word] |= bit;
        }
        filters.changes += 1;
        true
    }
}

impl UsedTokens {
    /// Returns how often there were tokens to add so far.
    pub fn changes(&self) -> u64 {
        self.filters().as_ref().map_or(0, |filters| filters.changes)
    }

    /// Returns them for another process; `None` if there are none.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        // Workers wait for the copy alone.
        let filters = self.filters().clone()?;
        let Filters { since, period, current, previous, .. } = filters;
        let words = [millis(since), millis(period)];
        let words = words.iter().chain(&current).chain(&previous);
        Some(words.flat_map(|word| word.to_le_bytes()).collect())
    }

    /// Adds those of another process. Returns whether they have the form that [`UsedTokens::to_bytes`] gives them.
    pub fn add(&self, bytes: &[u8], now: Duration) -> bool {
        let Some(mut other) = Filters::parse(bytes, self.bits) else {
            return false;
        };
        other.turn(Duration::ZERO, now);
        let mut filters = self.filters();
        match &mut *filters {
            Some(own) => {
                own.turn(other.period, now);
                own.merge(&other);
            }
            none => *none = Some(other),
        }
        true
    }

    fn filters(&self) -> MutexGuard<'_, Option<Filters>> {
        self.filters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Filters {
    fn new(now: Duration, bits: u32) -> Filters {
        Filters {
            since: Duration::from_millis(millis(now)),
            period: Duration::ZERO,
            current: empty(bits),
            previous: empty(bits),
            changes: 0,
        }
    }

    fn parse(bytes: &[u8], bits: u32) -> Option<Filters> {
        let (words, []) = bytes.as_chunks::<8>() else {
            return None;
        };
        let ([since, period], filters) = words.split_first_chunk()?;
        let len = 1 << (bits - 6);
        if filters.len() != 2 * len {
            return None;
        }
        let time = |word: &[u8; 8]| Duration::from_millis(u64::from_le_bytes(*word));
        let (current, previous) = filters.split_at(len);
        let filter =
            |words: &[[u8; 8]]| words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let (current, previous) = (filter(current), filter(previous));
        Some(Filters { since: time(since), period: time(period), current, previous, changes: 1 })
    }

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
            self.since = Duration::from_millis(millis(now));
        } else {
            // Not now: periods of processes that have had the same tokens begin together, whenever a token comes to each.
            self.since += period;
        }
    }

    /// Adds those of another process, none of which may be forgotten sooner than by itself. The period that began first goes on: if the
    /// later one did, each upgrade would have all tokens remembered for another period.
    fn merge(&mut self, other: &Filters) {
        let since = self.since.min(other.since);
        if self.since > since {
            // Some of them were used after the period began that goes on.
            add(&mut self.current, &self.previous);
            self.previous.fill(0);
        }
        add(&mut self.current, &other.current);
        let previous = if other.since > since { &mut self.current } else { &mut self.previous };
        add(previous, &other.previous);
        self.since = since;
        self.changes += 1;
    }
}

/// Adds the bits of one filter to another.
fn add(filter: &mut [u64], other: &[u64]) {
    for (word, more) in filter.iter_mut().zip(other) {
        *word |= more;
    }
}

/// Returns a time as whole milliseconds, in which processes tell each other.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
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
        let left = former.to_bytes().unwrap();
        assert!(newer.add(&left, NOW + period));
        let end = NOW + 2 * period;
        for token in [&early, &late, &own] {
            assert!(!newer.note(token, LIFETIME, end - Duration::from_secs(1)));
        }
        for token in [&late, &own] {
            assert!(!newer.note(token, LIFETIME, end));
        }
        assert!(newer.note(&early, LIFETIME, end));
        let third = UsedTokens::few();
        assert!(third.add(&left, NOW + period));
        assert!(!third.note(&late, LIFETIME, end));
        for strange in [&[][..], &[0; 7], &[0; 16], &[0; 24]] {
            assert!(!third.add(strange, end));
        }
    }

    /// Each process notes a token of its own before it gets those of the former one, as it serves before that has stopped.
    #[test]
    fn many_upgrades_within_a_period_keep_no_token_for_longer() {
        let (mut rng, period) = (Rng::new(3), LIFETIME + CLOCK_SKEW);
        let (step, mut now) = (period / 10, NOW);
        let mut process = UsedTokens::few();
        let mut used = Vec::new();
        for _ in 0..35 {
            let token = nonce(&mut rng);
            assert!(process.note(&token, LIFETIME, now));
            used.push((token, now));
            let next = UsedTokens::few();
            let token = nonce(&mut rng);
            assert!(next.note(&token, LIFETIME, now + step / 2));
            used.push((token, now + step / 2));
            assert!(next.add(&process.to_bytes().unwrap(), now + step / 2));
            // There and back.
            assert!(process.add(&next.to_bytes().unwrap(), now + step / 2));
            assert!(next.add(&process.to_bytes().unwrap(), now + step / 2));
            process = next;
            for (token, _) in used.iter().filter(|(_, at)| now + step / 2 <= *at + period) {
                assert!(!process.note(token, LIFETIME, now + step / 2), "good again too soon");
            }
            now += step;
        }
        let old = used.iter().filter(|(_, at)| *at + 2 * period < now);
        let forgotten = old.clone().filter(|(token, _)| process.note(token, LIFETIME, now)).count();
        assert_eq!(forgotten, old.count());
    }

    /// The period of one process may have begun at any time of that of the other.
    #[test]
    fn merged_tokens_are_remembered_for_a_period_wherever_theirs_began() {
        let period = LIFETIME + CLOCK_SKEW;
        let at = |tenths: u32| NOW + period * tenths / 10;
        for (one, other) in (0..25).flat_map(|one| (0..25).map(move |other| (one, other))) {
            let mut rng = Rng::new(u64::from(one * 25 + other));
            let processes = [one, other].map(|begin| {
                let (used, mut tokens) = (UsedTokens::few(), Vec::new());
                for time in [begin, begin + 4, begin + 9, begin + 13] {
                    let token = nonce(&mut rng);
                    assert!(used.note(&token, LIFETIME, at(time)));
                    tokens.push((token, time));
                }
                (used, tokens)
            });
            let [(used, own), (former, theirs)] = processes;
            let merged = one.max(other) + 13;
            assert!(used.add(&former.to_bytes().unwrap(), at(merged)));
            for time in merged..merged + 20 {
                for (token, noted) in own.iter().chain(&theirs) {
                    let is_good = used.note(token, LIFETIME, at(time));
                    assert!(!is_good || time > noted + 10, "{one} {other} {noted} {time}");
                }
            }
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
