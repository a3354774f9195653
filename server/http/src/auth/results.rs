//! Results of checks of passwords, which hold for a while.

use std::fmt;
use std::time::Duration;

use quick_cache::unsync::Cache;
use tokio::time::Instant;

/// Time for which a result holds; that of valid credentials begins again with each use.
pub(super) const REMEMBERED: Duration = Duration::from_secs(60);
/// Time after which valid credentials are checked again, however often they are used.
pub(super) const LONGEST: Duration = Duration::from_secs(3600);

/// Keyed hash of credentials and of what stands in the file of users.
pub(super) type Digest = [u8; 32];

/// Result of a check, and how long it holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct CheckResult {
    pub(super) accepted: bool,
    /// End of the result, unless it is used before.
    end: Instant,
    /// End of the result, however often it is used.
    last: Instant,
}

impl CheckResult {
    /// Returns the result of a check that began at `now`: its thread has no clock of the runtime.
    pub(super) fn new(accepted: bool, now: Instant) -> CheckResult {
        let end = now + REMEMBERED;
        let last = if accepted { now + LONGEST } else { end };
        CheckResult { accepted, end, last }
    }

    /// Returns the same result, which ends within `time`, however often it is used.
    pub(super) fn within(self, time: Duration, now: Instant) -> CheckResult {
        let end = self.end.min(now + time);
        CheckResult { end, last: end, ..self }
    }
}

/// Results that are remembered. Refused credentials are kept apart from accepted ones: strangers that guess displace nobody.
pub(super) struct Results {
    accepted: Cache<Digest, CheckResult>,
    refused: Cache<Digest, CheckResult>,
}

impl Results {
    /// Returns room for so many results of each kind.
    pub(super) fn new(count: usize) -> Results {
        Results { accepted: Cache::new(count), refused: Cache::new(count) }
    }

    /// Returns the result for these credentials, if it holds, and prolongs it.
    pub(super) fn renew(&mut self, digest: &Digest, now: Instant) -> Option<CheckResult> {
        for kind in [&mut self.accepted, &mut self.refused] {
            if let Some(mut outcome) = kind.get_mut(digest)
                && now < outcome.end
            {
                outcome.end = (now + REMEMBERED).min(outcome.last);
                return Some(*outcome);
            }
        }
        None
    }

    /// Remembers a result.
    pub(super) fn insert(&mut self, digest: Digest, outcome: CheckResult) {
        if outcome.accepted {
            self.accepted.insert(digest, outcome);
        } else {
            self.refused.insert(digest, outcome);
        }
    }

    /// Returns the number of results of both kinds.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.accepted.len() + self.refused.len()
    }
}

/// Shows no digests.
impl fmt::Debug for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Results").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_displace_no_accepted_credentials_and_grow_nothing() {
        let mut results = Results::new(16);
        let now = Instant::now();
        let digest = |number: u16| {
            let mut digest = [0; 32];
            digest[..2].copy_from_slice(&number.to_le_bytes());
            digest
        };
        results.insert(digest(0), CheckResult::new(true, now));
        for number in 1..1000 {
            results.insert(digest(number), CheckResult::new(false, now));
        }
        assert!(results.len() <= 17, "{}", results.len());
        let found = results.renew(&digest(0), now);
        assert!(found.is_some_and(|outcome| outcome.accepted));
    }

    #[test]
    fn a_copy_ends_with_its_time_or_with_the_result() {
        let now = Instant::now();
        let (short, long) = (Duration::from_secs(10), Duration::from_secs(600));
        for (time, holds) in [(short, short), (long, REMEMBERED)] {
            let mut results = Results::new(16);
            results.insert([0; 32], CheckResult::new(true, now).within(time, now));
            let last = now + holds - Duration::from_millis(1);
            assert!(results.renew(&[0; 32], last).is_some());
            assert!(results.renew(&[0; 32], now + holds).is_none());
        }
    }
}
