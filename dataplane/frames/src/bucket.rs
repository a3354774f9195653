//! Limits of rates.

/// A token bucket: an event takes a token, and tokens return at a steady rate up to the burst.
#[derive(Clone, Debug)]
pub(crate) struct TokenBucket {
    per_second: u64,
    burst: u64,
    /// Thousandths of a token.
    tokens: u64,
    /// Time of the last look, milliseconds.
    last: u64,
}

impl TokenBucket {
    /// Makes a full bucket.
    pub(crate) const fn new(per_second: u64, burst: u64) -> Self {
        Self { per_second, burst, tokens: burst * 1000, last: 0 }
    }

    /// Takes a token, or returns false if there is none.
    pub(crate) fn take(&mut self, now_ms: u64) -> bool {
        let gained = now_ms.saturating_sub(self.last).saturating_mul(self.per_second);
        self.tokens = self.tokens.saturating_add(gained).min(self.burst * 1000);
        self.last = self.last.max(now_ms);
        match self.tokens.checked_sub(1000) {
            Some(left) => {
                self.tokens = left;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_return_at_the_rate_up_to_the_burst() {
        let mut bucket = TokenBucket::new(10, 3);
        let mut taken = |now| (0..100).filter(|_| bucket.take(now)).count();
        assert_eq!(taken(5000), 3);
        assert_eq!(taken(5000), 0);
        assert_eq!(taken(5099), 0);
        assert_eq!(taken(5100), 1);
        assert_eq!(taken(5000), 0, "a clock that goes back gains nothing");
        assert_eq!(taken(u64::MAX), 3);
    }
}
