//! Looking around for a while before sleeping: lower latency for more CPU time.

use std::time::{Duration, Instant};

/// Decides when an idle worker sleeps.
#[derive(Debug)]
pub(super) struct Spin {
    /// Time without traffic after which the worker sleeps.
    limit: Duration,
    /// Time of the last turn with traffic.
    active: Option<Instant>,
    /// Datagrams received and sent by then.
    datagrams: u64,
}

impl Spin {
    /// Makes a spin of `limit`; with zero the worker sleeps at once.
    pub(super) fn new(limit: Duration) -> Self {
        Self {
            limit,
            active: None,
            datagrams: 0,
        }
    }

    /// Returns the time to wait at the end of a turn: zero while there was traffic within the limit, else `timeout`.
    /// `datagrams`: received and sent so far.
    pub(super) fn timeout(
        &mut self,
        datagrams: u64,
        timeout: Option<Duration>,
        now: Instant,
    ) -> Option<Duration> {
        if std::mem::replace(&mut self.datagrams, datagrams) != datagrams {
            self.active = Some(now);
        }
        let idle = self.active.map(|at| now.saturating_duration_since(at));
        if idle.is_some_and(|idle| idle < self.limit) {
            return Some(Duration::ZERO);
        }
        timeout
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_micros(50);
    const TIMEOUT: Option<Duration> = Some(Duration::from_secs(1));
    const LOOK: Option<Duration> = Some(Duration::ZERO);

    #[test]
    fn a_worker_spins_until_the_limit_after_the_last_datagram() {
        let mut spin = Spin::new(LIMIT);
        let start = crate::clock::now();
        assert_eq!(spin.timeout(0, TIMEOUT, start), TIMEOUT);
        assert_eq!(spin.timeout(3, TIMEOUT, start), LOOK);
        assert_eq!(spin.timeout(3, TIMEOUT, start + LIMIT / 2), LOOK);
        assert_eq!(spin.timeout(4, None, start + LIMIT / 2), LOOK);
        assert_eq!(spin.timeout(4, None, start + LIMIT), LOOK);
        assert_eq!(spin.timeout(4, None, start + LIMIT * 3 / 2), None);
        assert_eq!(spin.timeout(4, TIMEOUT, start + LIMIT * 2), TIMEOUT);
    }

    #[test]
    fn without_a_limit_it_never_spins() {
        let mut spin = Spin::new(Duration::ZERO);
        let now = crate::clock::now();
        assert_eq!(spin.timeout(9, TIMEOUT, now), TIMEOUT);
        assert_eq!(spin.timeout(10, None, now), None);
    }
}
