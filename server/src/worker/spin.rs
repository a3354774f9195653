//! Looking around for a while before sleeping: lower latency for more CPU time.

use std::time::{Duration, Instant};

/// Times in a row that a worker spun in vain, after which it sleeps at once.
const VAIN: u32 = 3;

/// Rule by which a worker polls before it sleeps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Polling {
    /// Time without traffic after which the worker sleeps; with zero it sleeps at once.
    pub limit: Duration,
    /// The worker never sleeps.
    pub always: bool,
}

impl Polling {
    /// Returns its name on a metrics page: `off`, `adaptive` or `always`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        if self.always {
            "always"
        } else if self.limit.is_zero() {
            "off"
        } else {
            "adaptive"
        }
    }
}

/// Decides when an idle worker sleeps.
///
/// A worker spins after a datagram. One that spun in vain a few times sleeps at once, until datagrams follow each other
/// within the limit again.
#[derive(Debug)]
pub(super) struct Spin {
    polling: Polling,
    /// Time of the last turn with traffic.
    active: Option<Instant>,
    /// Datagrams received and sent by then.
    datagrams: u64,
    /// The worker spins since the last traffic.
    spinning: bool,
    /// Times in a row that it spun to the limit and nothing came.
    vain: u32,
}

impl Spin {
    pub(super) fn new(polling: Polling) -> Self {
        Self { polling, active: None, datagrams: 0, spinning: false, vain: 0 }
    }

    /// Returns how long the worker looks around before it sleeps.
    pub(super) fn polling(&self) -> Polling {
        self.polling
    }

    /// Returns whether the worker spins at the end of a turn. `datagrams`: received and sent so far.
    pub(super) fn begins(&mut self, datagrams: u64, now: Instant) -> bool {
        if std::mem::replace(&mut self.datagrams, datagrams) != datagrams {
            let last = self.active.replace(now);
            let gap = last.map(|last| now.saturating_duration_since(last));
            if gap.is_some_and(|gap| gap < self.polling.limit) {
                self.vain = 0;
            }
            self.spinning = self.vain < VAIN;
        }
        self.goes_on(now)
    }

    pub(super) fn goes_on(&mut self, now: Instant) -> bool {
        if self.polling.always {
            return true;
        }
        let idle = self.active.map(|at| now.saturating_duration_since(at));
        let within = idle.is_some_and(|idle| idle < self.polling.limit);
        if self.spinning && !within {
            self.spinning = false;
            self.vain += 1;
        }
        self.spinning
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_micros(50);

    fn spin(limit: Duration, always: bool) -> Spin {
        Spin::new(Polling { limit, always })
    }

    #[test]
    fn a_worker_spins_until_the_limit_after_the_last_datagram() {
        let mut spin = spin(LIMIT, false);
        let start = sluicegate_base::clock::now();
        assert!(!spin.begins(0, start));
        assert!(spin.begins(3, start));
        assert!(spin.begins(3, start + LIMIT / 2));
        assert!(spin.begins(4, start + LIMIT / 2));
        assert!(spin.begins(4, start + LIMIT));
        assert!(spin.goes_on(start + LIMIT * 5 / 4));
        assert!(!spin.goes_on(start + LIMIT * 3 / 2));
        assert!(!spin.begins(4, start + LIMIT * 2));
    }

    #[test]
    fn without_a_limit_it_never_spins() {
        let mut spin = spin(Duration::ZERO, false);
        let now = sluicegate_base::clock::now();
        assert!(!spin.begins(9, now));
        assert!(!spin.begins(10, now));
    }

    #[test]
    fn with_spin_always_it_never_sleeps() {
        let mut spin = spin(Duration::ZERO, true);
        let now = sluicegate_base::clock::now();
        assert!(spin.begins(0, now));
        assert!(spin.goes_on(now + Duration::from_secs(3600)));
    }

    #[test]
    fn a_worker_that_spun_in_vain_sleeps_until_datagrams_follow_each_other_again() {
        let mut spin = spin(LIMIT, false);
        let mut now = sluicegate_base::clock::now();
        for datagrams in 1..=u64::from(VAIN) {
            assert!(spin.begins(datagrams, now), "datagram {datagrams}");
            assert!(!spin.goes_on(now + LIMIT));
            // A turn without traffic is no further attempt.
            assert!(!spin.begins(datagrams, now + LIMIT * 2));
            now += LIMIT * 100;
        }
        assert!(!spin.begins(10, now));
        assert!(!spin.begins(11, now + LIMIT * 100));
        assert!(spin.begins(12, now + LIMIT * 100 + LIMIT / 2));
        assert!(spin.goes_on(now + LIMIT * 101));
    }
}
